package table

import (
	"strings"
	"sync"
	"sync/atomic"

	"github.com/leaseway/leaseway/rule"
)

// keys finds what a rule has of its keys, its entries or its loans. Looking one up takes one hash and no
// lock; adding and removing lock a part.
//
// Each part is a table with open addressing: slots are tried one after the
// other from where the hash points, until a free one. A slot once used stays in
// the way until its table is made anew, so that readers need not wait for writers.
type keys struct {
	secret secret
	gone   *name // stands in the slots of removed keys
	parts  [keyParts]part
}

const (
	partBits  = 5 // of a hash, its first, name the part
	keyParts  = 1 << partBits
	partShift = 64 - partBits
	leastSize = 8
)

// part has the keys whose hashes begin alike.
type part struct {
	table atomic.Pointer[keyTable]

	mu   sync.Mutex
	live int // keys
	used int // slots that are not free
}

// keyTable's length is a power of two, and a quarter of it or more is free.
type keyTable struct {
	mask uint64
	each []keySlot
}

// keySlot is free while it has no entry. Its hash is written before the entry, once.
type keySlot struct {
	hash  atomic.Uint64
	entry atomic.Pointer[name]
}

// init makes k ready, empty, for keys that are hashed by secret.
func (k *keys) init(secret secret) {
	k.secret = secret
	k.gone = &name{}
	k.gone.setKey(strings.Repeat("-", rule.MaxKey+1)) // no key that is kept is as long
}

// find returns what there is of key, nil if there is nothing.
func (k *keys) find(key string) *name { return k.at(k.secret.seek(key), key) }

// at is find for a key that was sought by the same secret.
func (k *keys) at(s sought, key string) *name {
	t := k.parts[s.hash>>partShift].table.Load()
	if t == nil {
		return nil
	}

	for i := s.hash; ; i++ {
		slot := &t.each[i&t.mask]

		e := slot.entry.Load()
		if e == nil {
			return nil
		}

		if slot.hash.Load() == s.hash && e.is(s, key) {
			return e
		}
	}
}

// add puts e in, and returns it, unless its key has an entry already: then that one.
func (k *keys) add(e *name) *name {
	hash := k.secret.seek(e.key()).hash
	p := &k.parts[hash>>partShift]

	p.mu.Lock()
	defer p.mu.Unlock()

	if other := k.find(e.key()); other != nil {
		return other
	}

	t := p.table.Load()
	if t == nil || (p.used+1)*4 > len(t.each)*3 {
		t = k.renew(p, t)
	}

	t.put(hash, e)

	p.live++
	p.used++

	return e
}

// remove takes e out, and reports whether it was in.
func (k *keys) remove(e *name) bool {
	hash := k.secret.seek(e.key()).hash
	p := &k.parts[hash>>partShift]

	p.mu.Lock()
	defer p.mu.Unlock()

	t := p.table.Load()
	if t == nil {
		return false
	}

	for i := hash; ; i++ {
		s := &t.each[i&t.mask]

		switch s.entry.Load() {
		case nil:
			return false
		case e:
			s.entry.Store(k.gone)

			p.live--

			if p.live == 0 {
				p.table.Store(nil)

				p.used = 0
			}

			return true
		}
	}
}

// all calls f with everything. Keys that come or go meanwhile may be missed.
func (k *keys) all(f func(*name)) {
	for i := range k.parts {
		k.of(i, f)
	}
}

// of is all for the keys of one part.
func (k *keys) of(part int, f func(*name)) {
	t := k.parts[part].table.Load()
	if t == nil {
		return
	}

	for j := range t.each {
		if e := t.each[j].entry.Load(); e != nil && e != k.gone {
			f(e)
		}
	}
}

// renew makes p's table anew, without removed keys, of a size of which they fill three fifths
// at most; under the part's lock. The fuller it is, the more of it a cache holds.
func (k *keys) renew(p *part, old *keyTable) *keyTable {
	size := leastSize
	for size*3 < (p.live+1)*5 {
		size *= 2
	}

	t := &keyTable{mask: uint64(size - 1), each: make([]keySlot, size)}

	if old != nil {
		for i := range old.each {
			if e := old.each[i].entry.Load(); e != nil && e != k.gone {
				t.put(old.each[i].hash.Load(), e)
			}
		}
	}

	p.used = p.live
	p.table.Store(t)

	return t
}

// put writes e into the first free slot for hash. Only one writer does at a time.
func (t *keyTable) put(hash uint64, e *name) {
	i := hash
	for t.each[i&t.mask].entry.Load() != nil {
		i++
	}

	s := &t.each[i&t.mask]
	s.hash.Store(hash)
	s.entry.Store(e)
}
