package admin

import (
	"hash/maphash"
	"net/netip"
	"sync/atomic"
	"time"
)

// The bound on wrong tokens from one address: so many at once, and then one in each span.
const (
	strikesAtOnce = 20
	strikeSpan    = 3 * time.Second
	strikeSlots   = 4096 // of 8 bytes each
)

// strikes bounds how often an address may show a wrong token, in memory that does not grow. Each slot is the time at which a
// bucket of strikes is empty again (GCRA), µs. Addresses that share a slot share the bound, and nobody can choose to: the seed
// is drawn at the start. An IPv6 address counts as its /64.
type strikes struct {
	seed  maphash.Seed
	slots [strikeSlots]atomic.Int64
}

func newStrikes() *strikes { return &strikes{seed: maphash.MakeSeed()} }

func (s *strikes) slot(addr netip.Addr) *atomic.Int64 {
	const network = 64

	if addr.Is6() {
		if p, err := addr.Prefix(network); err == nil {
			addr = p.Addr()
		}
	}

	return &s.slots[maphash.Comparable(s.seed, addr)%strikeSlots]
}

// wait is for how long an address is not listened to; 0 for not at all.
func (s *strikes) wait(addr netip.Addr, now time.Time) time.Duration {
	over := emptyAt(s.slot(addr).Load(), now) - now.UnixMicro() - ((strikesAtOnce - 1) * strikeSpan).Microseconds()

	return max(0, time.Duration(over)*time.Microsecond)
}

// emptyAt is when a bucket is empty that will be at empty, or now, whichever is later. No more than a full one can be ahead, and
// what strikes at the same time wrote by a clock a little ahead: the rest is of a clock that was set back, and is forgotten.
func emptyAt(empty int64, now time.Time) int64 {
	at := now.UnixMicro()
	if empty-at > ((strikesAtOnce + 1) * strikeSpan).Microseconds() {
		return at
	}

	return max(empty, at)
}

// strike counts a wrong token. A full bucket stays as it is: of many that come at once all are heard, and the next waits no longer.
func (s *strikes) strike(addr netip.Addr, now time.Time) {
	for slot := s.slot(addr); ; {
		empty := slot.Load()
		full := now.Add(strikesAtOnce * strikeSpan).UnixMicro()

		if slot.CompareAndSwap(empty, min(full, emptyAt(empty, now)+strikeSpan.Microseconds())) {
			return
		}
	}
}
