package memory

import "github.com/leaseway/leaseway/internal/ledger"

// heldLedgers are the ledgers of a shard that have leases, by an index that stays.
type heldLedgers struct {
	states []*ledger.State
	free   []int
}

func (h *heldLedgers) at(i int) *ledger.State { return h.states[i] }

func (h *heldLedgers) len() int { return len(h.states) - len(h.free) }

func (h *heldLedgers) add(s *ledger.State) int {
	if n := len(h.free); n > 0 {
		i := h.free[n-1]
		h.free = h.free[:n-1]
		h.states[i] = s

		return i
	}

	h.states = append(h.states, s)

	return len(h.states) - 1
}

func (h *heldLedgers) remove(i int) {
	h.states[i] = nil
	h.free = append(h.free, i)

	if len(h.free) == len(h.states) {
		*h = heldLedgers{} // none is left: give the memory of the busiest hour back
	}
}
