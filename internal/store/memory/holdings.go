package memory

import (
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/internal/slots"
)

// slots writes the ledger of what is in flight.
func (w *snapshotWriter) slots(id keyID, s *ledger.State) {
	w.ledger(entrySlots, id, rate.Time{}, s.Terms)
	w.i64(s.Slots.Closed)
	w.i64(s.Slots.Sum)
	w.i64(s.Slots.At)
	w.u32(uint32(len(s.Slots.Holdings)))

	for _, h := range s.Slots.Holdings {
		w.u64(h.Holder)
		w.u64(h.Name)
		w.i64(h.Slots)
		w.i64(h.Exp)
		w.u64(h.Seq)
		w.u64(h.Version)
		w.i64(h.Offer)
		w.u64(uint64(h.Fate))
	}
}

// readSlots reads what slots wrote behind the terms.
func (r *snapshotReader) readSlots(s *ledger.State) {
	r.read(3*8 + 4)
	s.Slots.Closed, s.Slots.Sum, s.Slots.At = r.i64(), r.i64(), r.i64()

	n := r.u32()
	if r.err == nil && n > slots.MaxHoldings {
		r.failf("entry %d has %d holdings", r.count, n)
	}

	for range n {
		r.read(slotsSize)

		if r.err != nil {
			return
		}

		h := slots.Holding{Holder: r.u64(), Name: r.u64(), Slots: r.i64(), Exp: r.i64(), Seq: r.u64(), Version: r.u64(), Offer: r.i64()}
		fate := r.u64()

		if h.Slots < 0 || h.Offer < 0 || fate > uint64(slots.Shared) {
			r.failf("entry %d has a holding of %d slots and fate %d", r.count, h.Slots, fate)

			return
		}

		h.Fate = slots.Fate(fate)
		s.Slots.Holdings = append(s.Slots.Holdings, h)
	}
}
