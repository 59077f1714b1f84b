package slots

import (
	"sync/atomic"
)

// Renew is the part of the TTL after which a holder asks again: 0.3, which is 3 s.
const (
	renewPart  = 3
	renewWhole = 10
)

// Pool is what one holder has of a key: slots, some of them in flight and the
// rest idle. Take and Put need no lock, everything else its owner's.
type Pool struct {
	idle  atomic.Int64 // below 0: more is in flight than there are slots
	until atomic.Int64 // when the holding ends, µs on the holder's clock; 0: there is none

	slots  int64
	asked  int64  // when the ask under way was sent
	seq    uint64 // of it; 0: none is under way
	ttl    int64  // µs, as last heard
	others int64  // slots of other holders, as last heard
	crowd  int64  // holders, as last heard
	heard  bool
	doubt  int64 // until when the store may have given, or kept, more than is known here
}

// Take occupies n idle slots at the instant now of a coarse clock, if there are as many.
func (p *Pool) Take(now, n int64) bool {
	if now >= p.until.Load() {
		return false
	}

	for {
		idle := p.idle.Load()
		if idle < n {
			return false
		}

		if p.idle.CompareAndSwap(idle, idle-n) {
			return true
		}
	}
}

// Force occupies n slots whether there are any or not: for what cannot be
// refused, and what is admitted without a store. It counts as in flight with the next ask.
func (p *Pool) Force(n int64) { p.idle.Add(-n) }

// Put frees n slots that Take or Force occupied.
func (p *Pool) Put(n int64) { p.idle.Add(n) }

// Idle returns the slots that are free here; below 0 when more is in flight than is held.
func (p *Pool) Idle() int64 { return p.idle.Load() }

// Busy returns the slots in flight here.
func (p *Pool) Busy() int64 { return max(0, p.slots-p.idle.Load()) }

// Slots returns the slots held, in flight or idle.
func (p *Pool) Slots() int64 { return p.slots }

// Others returns the slots that other holders had at the last answer.
func (p *Pool) Others() int64 { return p.others }

// Holders returns how many held slots at the last answer, at least 1.
func (p *Pool) Holders() int64 { return max(1, p.crowd) }

// Known reports whether an answer has come.
func (p *Pool) Known() bool { return p.heard }

// Asked returns when the ask under way was sent, and whether there is one.
func (p *Pool) Asked() (at int64, ok bool) { return p.asked, p.seq != 0 }

// Until returns when the holding ends on the holder's clock, µs; 0 for none.
func (p *Pool) Until() int64 { return p.until.Load() }

// Renew returns when the holding must be renewed, µs; 0 for never.
func (p *Pool) Renew() int64 {
	until := p.until.Load()
	if until == 0 {
		return 0
	}

	return until - p.ttl + p.ttl*renewPart/renewWhole
}

// Need is what a holder wants of the next ask.
type Need struct {
	Seq   uint64
	Needs []int64 // slots of the requests that wait
	Spare int64   // slots to have idle besides
}

// Ask builds an ask. Slots that it gives back are struck from the pool first.
func (p *Pool) Ask(now int64, need Need) Ask {
	p.Expire(now)

	want := need.Spare + p.Busy()
	for _, n := range need.Needs {
		want += n
	}

	p.slots -= p.strike(p.slots - want)
	p.asked, p.seq = now, need.Seq

	// Read once more: what was taken since counts as in flight, and slots covers it.
	return Ask{Seq: need.Seq, Busy: p.Busy(), Needs: need.Needs, Want: max(want, p.slots)}
}

// strike takes up to n idle slots away, and returns how many.
func (p *Pool) strike(n int64) int64 {
	for {
		idle := p.idle.Load()

		k := min(n, idle)
		if k <= 0 {
			return 0
		}

		if p.idle.CompareAndSwap(idle, idle-k) {
			return k
		}
	}
}

// Hear takes in the answer to the ask of seq, under a TTL (µs), and reports
// whether it is the one that was waited for.
func (p *Pool) Hear(seq uint64, ttl int64, a Answer) bool {
	if seq == 0 || seq != p.seq {
		return false
	}

	p.seq = 0

	if a.Superseded {
		p.doubt = max(p.doubt, p.asked+max(p.ttl, TTL))

		return false
	}

	p.idle.Add(a.Slots - p.slots)
	p.slots, p.others, p.crowd, p.heard, p.doubt = a.Slots, a.Others, a.Holders, true, 0
	p.ttl = ttl

	// Where more is held than there is, since N was lowered, what is idle must
	// not be used; the next ask gives it back.
	p.slots -= p.strike(a.Slots + a.Others - a.N)

	until := p.asked + ttl
	if p.slots == 0 {
		until = 0
	}

	p.until.Store(until)

	return true
}

// Lost says that the ask under way brought nothing. Its answer is not believed
// any more; what the store may have given by it comes with the next one.
func (p *Pool) Lost() {
	if p.seq == 0 {
		return
	}

	p.seq = 0
	p.doubt = max(p.doubt, p.asked+max(p.ttl, TTL))
}

// Doubts reports whether the store may have slots down for this holder that it
// does not know of, or has given back with an ask that was lost. Then it must ask
// again, or nobody has them until they expire.
func (p *Pool) Doubts(now int64) bool { return now < p.doubt }

// Expire ends the holding if its time is over at now: what is idle is not held
// any more, nor is what becomes idle after that. What is in flight goes on, and is told with the next ask.
func (p *Pool) Expire(now int64) {
	if now < p.until.Load() {
		return
	}

	p.until.Store(0)
	p.slots -= p.strike(p.slots)
}
