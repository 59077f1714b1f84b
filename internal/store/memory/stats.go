package memory

// Stats are totals of a store, as they are now or since its start.
type Stats struct {
	Keys   int64 // ledgers kept, or lent to tables of this process; idle ones count until the sweep comes by
	Held   int64 // of them, ledgers with leases
	Leases int64 // live leases, and those that ended since somebody looked
	Terms  int64 // different terms that ledgers at rest were last charged under

	// Evicted counts ledgers that were forgotten to make room although they
	// still said something: their keys have a full bucket again. 0 unless more
	// than Config.MaxKeys are busy at once.
	Evicted          int64
	EvictedOverLimit int64 // of them, those whose bucket was empty
	EvictedHeld      int64 // of them, those that holders had tokens of
}

// counts are a shard's part of Stats.
type counts struct {
	leases, evicted, overLimit, evictedHeld int64
}

// Stats adds up the shards. It takes every lock once, so call it at the pace of
// a scrape and not of a request.
func (s *Store) Stats() Stats {
	stats := Stats{Keys: s.borrowers.lent(), Terms: int64(s.terms.len())}

	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		stats.Keys += int64(sh.table.used)
		stats.Held += int64(sh.held.len())
		stats.Leases += sh.counts.leases
		stats.Evicted += sh.counts.evicted
		stats.EvictedOverLimit += sh.counts.overLimit
		stats.EvictedHeld += sh.counts.evictedHeld
		sh.mu.Unlock()
	}

	return stats
}
