package redis

import "sync/atomic"

// Stats are totals of a store since its start.
type Stats struct {
	Ops      int64 // that went to Redis
	Failures int64 // of them, those without an answer
	Again    int64 // those that went out again since a node had refused them before it did anything
	Loads    int64 // how often nodes were told the functions that they run

	LostSlots  int64 // parts of the data that were found to be lost, by an op of this store
	LostLeases int64 // leases that Redis did not know although they had not ended
	LostTokens int64 // tokens that holders spent of leases beyond what Redis knew that it had granted
}

// counts are what Stats is made of.
type counts struct{ ops, failures, again atomic.Int64 }

// Stats returns the totals as they are now.
func (s *Store) Stats() Stats {
	return Stats{
		Ops: s.counts.ops.Load(), Failures: s.counts.failures.Load(), Again: s.counts.again.Load(), Loads: s.library.loads.Load(),
		LostSlots: s.lost.slots.Load(), LostLeases: s.lost.leases.Load(), LostTokens: s.lost.tokens.Load(),
	}
}
