package table

import (
	"sync"
	"sync/atomic"
)

// Slot is the right of one request to be in flight under its concurrency rules.
// The zero value is none. Copies are one and the same right: whichever is
// released first ends it.
type Slot struct {
	ticket *ticket
	gen    uint64
}

// None reports whether there is nothing to release.
func (s Slot) None() bool { return s.ticket == nil }

// Release gives the slot back, and all that it was joined with. It does so once,
// however many copies are released, however late and from wherever.
func (s Slot) Release() {
	for s.ticket != nil {
		t := s.ticket
		if !t.gen.CompareAndSwap(s.gen, s.gen+1) {
			return
		}

		k, n, next := t.key.Load(), t.n, t.joined
		t.joined = Slot{}
		k.rule.table.desk.tickets.put(t)
		k.release(n)

		s = next
	}
}

// Join returns one slot that stands for s and other: to release it releases both.
func (s Slot) Join(other Slot) Slot {
	if other.None() {
		return s
	}

	if s.None() {
		return other
	}

	s.ticket.joined = other.Join(s.ticket.joined)

	return s
}

// ticket is what a Slot refers to. Its generation is odd while it is held, and
// never the same again: so a slot that was released can be told from the
// next one that has the same ticket.
type ticket struct {
	gen   atomic.Uint64
	key   atomic.Pointer[slotKey]
	since atomic.Int64 // when it was handed out, µs
	free  atomic.Uint32
	index uint32 // from 1
	n     int64
	// joined is released together with this one; who holds the ticket may touch it, and nobody else.
	joined Slot
}

const ticketPage = 256

// tickets hands out tickets without a lock, and knows them all, so that one that
// is never given back can be found. There are as many as were ever held at one time.
type tickets struct {
	head  atomic.Uint64 // of the free ones: how often it changed · 32 │ index · 32
	pages atomic.Pointer[[]*[ticketPage]ticket]
	mu    sync.Mutex // to add a page
}

// take returns a ticket for n slots of k, from now (µs) on.
func (ts *tickets) take(k *slotKey, n, now int64) Slot {
	t := ts.pop()
	t.n = n
	t.key.Store(k)
	t.since.Store(now)

	return Slot{t, t.gen.Add(1)}
}

func (ts *tickets) pop() *ticket {
	for {
		head := ts.head.Load()
		if uint32(head) == 0 {
			ts.grow()

			continue
		}

		t := ts.at(uint32(head))
		if ts.head.CompareAndSwap(head, (head>>32+1)<<32|uint64(t.free.Load())) {
			return t
		}
	}
}

func (ts *tickets) put(t *ticket) {
	for {
		head := ts.head.Load()
		t.free.Store(uint32(head))

		if ts.head.CompareAndSwap(head, (head>>32+1)<<32|uint64(t.index)) {
			return
		}
	}
}

func (ts *tickets) at(index uint32) *ticket {
	return &(*ts.pages.Load())[(index-1)/ticketPage][(index-1)%ticketPage]
}

// grow adds a page of free tickets, unless somebody has just done so.
func (ts *tickets) grow() {
	ts.mu.Lock()
	defer ts.mu.Unlock()

	if uint32(ts.head.Load()) != 0 {
		return
	}

	var pages []*[ticketPage]ticket
	if old := ts.pages.Load(); old != nil {
		pages = append(pages, *old...)
	}

	page := new([ticketPage]ticket)
	base := uint32(len(pages)*ticketPage) + 1
	pages = append(pages, page)
	ts.pages.Store(&pages)

	for i := range page {
		page[i].index = base + uint32(i)
		ts.put(&page[i])
	}
}

// held calls do with each ticket that is held: its key, and since when (µs).
func (ts *tickets) held(do func(k *slotKey, since int64)) {
	pages := ts.pages.Load()
	if pages == nil {
		return
	}

	for _, page := range *pages {
		for i := range page {
			if t := &page[i]; t.gen.Load()&1 == 1 {
				do(t.key.Load(), t.since.Load())
			}
		}
	}
}
