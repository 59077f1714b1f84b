package table

import (
	"math/bits"
	"slices"
	"sync"

	"github.com/leaseway/leaseway/internal/holder"
)

// tracePart is a table with open addressing, in the order of the hashes: so whoever seeks is done at the first larger one, and
// nearly all slots can be in use.
type tracePart struct {
	mu    sync.Mutex
	each  []trace
	homes int // of the slots so many, the first, are homes
	used  int
}

// trace is a slot, free without a hash.
type trace struct {
	holder.Packed

	hash uint64
}

// Of a part's slots so many hundredths are in use when it is full, and of its homes when it is made anew, and when it is too large.
const (
	tracesAnew = 82
	tracesFull = 92
	tracesFew  = 75
	tracesMore = 8 // slots behind the last home, where no others are free
)

// slotsFor returns at least n free slots: as many as the memory for them has.
func slotsFor(n int) []trace {
	each := slices.Grow([]trace(nil), n)

	return each[:cap(each)]
}

// home returns where a trace stands if none with smaller hashes are in its way.
func (p *tracePart) home(hash uint64) int {
	place, _ := bits.Mul64(hash<<partBits, uint64(p.homes))

	return int(place)
}

// find returns the slot of hash, or the one where it has to go.
func (p *tracePart) find(hash uint64) (i int, ok bool) {
	i = p.home(hash)
	for i < len(p.each) && p.each[i].hash != 0 && p.each[i].hash < hash {
		i++
	}

	return i, i < len(p.each) && p.each[i].hash == hash
}

// put remembers t, and returns by how many there are more.
func (p *tracePart) put(t *trace) (more int64) {
	p.mu.Lock()
	defer p.mu.Unlock()

	i, ok := p.find(t.hash)
	if ok {
		p.each[i] = *t

		return 0
	}

	p.used++

	if p.used*100 > len(p.each)*tracesFull {
		p.renew()

		i, _ = p.find(t.hash)
	}

	free := i
	for free < len(p.each) && p.each[free].hash != 0 {
		free++
	}

	p.reach(free)
	copy(p.each[i+1:free+1], p.each[i:free])

	p.each[i] = *t

	return 1
}

// renew has as much room as is needed.
func (p *tracePart) renew() {
	old := p.each
	p.homes = p.used*100/tracesAnew + 1
	p.each = slotsFor(p.homes)

	free := 0

	for i := range old {
		if hash := old[i].hash; hash != 0 {
			free = max(free, p.home(hash))
			p.reach(free)
			p.each[free] = old[i]
			free++
		}
	}
}

// reach has a slot i, which may be just behind the last one.
func (p *tracePart) reach(i int) {
	if i == len(p.each) {
		longer := slotsFor(i + tracesMore)
		copy(longer, p.each)
		p.each = longer
	}
}

// remove frees slot i, and moves those up that are not at home.
func (p *tracePart) remove(i int) {
	end := i + 1
	for end < len(p.each) && p.each[end].hash != 0 && p.home(p.each[end].hash) < end {
		end++
	}

	copy(p.each[i:], p.each[i+1:end])
	p.each[end-1] = trace{}
	p.used--

	if p.used == 0 {
		p.each, p.homes = nil, 0
	}
}

// take takes the trace of hash away.
func (p *tracePart) take(hash uint64) (t holder.Trace, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()

	i, ok := p.find(hash)
	if ok {
		t = p.each[i].Trace()
		p.remove(i)
	}

	return t, ok
}

// look returns the trace of hash.
func (p *tracePart) look(hash uint64) (t holder.Trace, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()

	i, ok := p.find(hash)
	if ok {
		t = p.each[i].Trace()
	}

	return t, ok
}

// sweep drops the traces of keys that are idle at now and, unless there is no room for others, not denied any more. It returns
// how many there were.
func (p *tracePart) sweep(now int64, full bool) (fewer int64) {
	p.mu.Lock()
	defer p.mu.Unlock()

	for i := 0; i < len(p.each); {
		if s := &p.each[i]; s.hash != 0 && now > s.At()+idleAfter && (full || now >= s.Until()) {
			p.remove(i) // another one may stand there now
			fewer++
		} else {
			i++
		}
	}

	if p.homes > p.used*100/tracesFew+1 { // not by all slots, of which there may be more: memory comes in sizes
		p.renew()
	}

	return fewer
}
