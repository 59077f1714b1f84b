package ledger

import "github.com/leaseway/leaseway/internal/rate"

// What follows is which leases live long. The TTL bounds for how long tokens are
// lost that a crashed holder had, and others cannot have: where they are a small
// part of a bucket that has plenty, nobody misses them, and what a longer life
// saves is most calls of keys that are used steadily and far below their limit.

const (
	longTimes = 16
	longMost  = 8_000_000 // µs
	longPart  = 32        // of the burst have all holders together for long, one part
)

// Long is for how long a lease may live that is small and was asked to, µs:
// sixteen times the TTL, but 8 s at most.
func (t *Terms) Long() int64 { return max(t.TTL, min(longTimes*t.TTL, longMost)) }

// LongSize is how many tokens a lease may have to live long if that many holders have one, which are one at least.
func (t *Terms) LongSize(holders int64) int64 {
	if t.Algorithm != rate.TokenBucket {
		return 0
	}

	return t.Bucket.Burst / (longPart * max(1, holders))
}

// Plenty reports whether a bucket with that much left has so much that leases may live long.
func (t *Terms) Plenty(avail int64) bool { return avail >= t.Bucket.Burst/2 }

// lives returns for how long lease l lives, which was just granted what ask is given of it, µs.
func (s *State) lives(l *Lease, ask *Ask) int64 {
	size := s.Terms.LongSize(int64(len(s.Leases)))
	if ask.Long && size > 0 && l.left() <= size && s.Terms.Plenty(s.Avail()) {
		return s.Terms.Long()
	}

	return s.Terms.TTL
}
