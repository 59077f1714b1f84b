package table

import (
	"math/bits"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/leaseway/leaseway/rule"
)

// keys finds what a rule has of its keys, its entries or its loans. Looking one up takes one hash and no
// lock; adding and removing lock a part.
//
// Each part is a table with open addressing: its lines are tried one after the other from where the hash
// points, until one has free slots. A slot once used is free no more until its table is made
// anew, so that readers need not wait for writers; but another key may have it.
type keys struct {
	secret secret
	gone   *name // stands in the slots of removed keys
	parts  [keyParts]part
}

const (
	partBits  = 5 // of a hash, its first, name the part
	keyParts  = 1 << partBits
	partShift = 64 - partBits
)

// Of a part's slots so many hundredths are in use when it is made anew at most, when it is full, and when it is too large.
const (
	keysAnew = 75
	keysFull = 85
	keysFew  = 15
)

// part has the keys whose hashes begin alike.
type part struct {
	table atomic.Pointer[keyTable]

	mu   sync.Mutex
	live int // keys
	used int // slots that are not free
}

// keyTable's length is a power of two.
type keyTable struct {
	mask  uint64
	lines []keyLine
	_     [32]byte // what is read for each request stands in a line of a cache in which nothing else is
}

// keyLine is a line of a cache: seven slots, and of each in use eight bits of its hash, the lowest of the first
// slot. The highest eight say how many are in use. A slot is written before its bits are.
type keyLine struct {
	tags atomic.Uint64
	each [lineSlots]atomic.Pointer[name]
}

const (
	lineSlots = 7
	tagBits   = 8
	tagShift  = 48 // of a hash; below it are the bits that say which slot a key has if that is free
	homeShift = tagShift - 8
	usedShift = lineSlots * tagBits
	lowBits   = 0x00_01010101010101 // of each tag the lowest bit
	highBits  = lowBits << (tagBits - 1)
)

// tag returns the bits of the hash that stand in a line.
func (s sought) tag() uint64 { return s.hash >> tagShift & (1<<tagBits - 1) }

// slot returns which of a line's slots the key has if it is free.
func (s sought) slot() uint64 { return s.hash >> homeShift & 0xff * lineSlots >> 8 }

// init makes k ready, empty, for keys that are hashed by secret.
func (k *keys) init(secret secret) {
	k.secret = secret
	k.gone = &name{}
	k.gone.setKey(strings.Repeat("-", rule.MaxKey+1)) // no key that is kept is as long
}

// find returns what there is of key, nil if there is nothing.
func (k *keys) find(key string) *name { return k.at(k.secret.seek(key), key) }

// at is find for a key that was sought by the same secret. It looks first where the key most likely is, which the
// processor so guesses instead of waiting for the tags.
func (k *keys) at(s sought, key string) *name {
	t := k.parts[s.hash>>partShift].table.Load()
	if t == nil {
		return nil
	}

	line, home := &t.lines[s.hash&t.mask], s.slot()

	if line.tags.Load()>>(home*tagBits)&(1<<tagBits-1) == s.tag() {
		if e := line.each[home].Load(); e != nil && e.is(s, key) {
			return e
		}
	}

	return t.at(s, key)
}

// at is that of keys, line by line.
func (t *keyTable) at(s sought, key string) *name {
	for i := s.hash; ; i++ {
		line := &t.lines[i&t.mask]
		tags := line.tags.Load()

		if e := line.find(tags, s, key); e != nil {
			return e
		}

		if tags>>usedShift < lineSlots {
			return nil
		}
	}
}

// find returns what there is of key in the line, whose tags are tags.
func (l *keyLine) find(tags uint64, s sought, key string) *name {
	differ := tags ^ s.tag()*lowBits

	// The highest bit of each tag that is the one, and by chance of others.
	for same := (differ - lowBits) &^ differ & highBits; same != 0; same &= same - 1 {
		if e := l.each[bits.TrailingZeros64(same)/tagBits].Load(); e != nil && e.is(s, key) {
			return e
		}
	}

	return nil
}

// add puts e in, and returns it, unless its key has an entry already: then that one.
func (k *keys) add(e *name) *name {
	s := k.secret.seek(e.key())
	p := &k.parts[s.hash>>partShift]

	p.mu.Lock()
	defer p.mu.Unlock()

	if other := k.at(s, e.key()); other != nil {
		return other
	}

	t := p.table.Load()
	if t == nil || (p.used+1)*100 > len(t.lines)*lineSlots*keysFull {
		t = k.renew(p, t)
	}

	p.live++

	if t.put(s, e, k.gone) {
		p.used++
	}

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
		line := &t.lines[i&t.mask]

		for j := range line.each {
			if line.each[j].Load() == e {
				p.free(&line.each[j], k.gone)

				if p.live > 0 && p.live*100 < len(t.lines)*lineSlots*keysFew {
					k.renew(p, t)
				}

				return true
			}
		}

		if line.tags.Load()>>usedShift < lineSlots {
			return false
		}
	}
}

// free has a slot be one of a key that is gone; under the part's lock.
func (p *part) free(slot *atomic.Pointer[name], gone *name) {
	slot.Store(gone)

	p.live--

	if p.live == 0 {
		p.table.Store(nil)

		p.used = 0
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

	t.all(k.gone, f)
}

// all calls f with everything in t but gone.
func (t *keyTable) all(gone *name, f func(*name)) {
	for i := range t.lines {
		for j := range t.lines[i].each {
			if e := t.lines[i].each[j].Load(); e != nil && e != gone {
				f(e)
			}
		}
	}
}

// renew makes p's table anew, without removed keys, with room for more; under the part's lock.
func (k *keys) renew(p *part, old *keyTable) *keyTable {
	size := 1
	for size*lineSlots*keysAnew < (p.live+1)*100 {
		size *= 2
	}

	t := &keyTable{mask: uint64(size - 1), lines: make([]keyLine, size)}

	if old != nil {
		old.all(k.gone, func(e *name) { t.put(k.secret.seek(e.key()), e, k.gone) })
	}

	p.used = p.live
	p.table.Store(t)

	return t
}

// put writes e into the first line with room for s, and reports whether it took a free slot, not that of a key that is
// gone. Only one writer does at a time.
func (t *keyTable) put(s sought, e, gone *name) (free bool) {
	for i := s.hash; ; i++ {
		line := &t.lines[i&t.mask]
		tags := line.tags.Load()

		slot, ok := line.slotOf(gone, s)
		if !ok && tags>>usedShift < lineSlots {
			slot, free = line.slotOf(nil, s)
			tags += 1 << usedShift
		} else if !ok {
			continue
		}

		line.each[slot].Store(e)
		line.tags.Store(tags&^((1<<tagBits-1)<<(slot*tagBits)) | s.tag()<<(slot*tagBits))

		return free
	}
}

// slotOf returns the slot with e, the nearest behind the one that s has if that is free.
func (l *keyLine) slotOf(e *name, s sought) (slot uint64, ok bool) {
	slot = s.slot()

	for range lineSlots {
		if l.each[slot].Load() == e {
			return slot, true
		}

		slot = (slot + 1) % lineSlots
	}

	return slot, false
}
