package coordinator

import (
	"sync/atomic"
	"time"

	"github.com/leaseway/leaseway/internal/ledger"
)

// logEvery is the least time between two log lines about what keeps failing.
const logEvery = 10 * time.Second

// Stats are counts since the start, but for Watchers, Live and Version, which are of now.
type Stats struct {
	Acquires    int64  // batches that were answered
	Asks        int64  // asks in them
	OK          int64  // asks that their ledger answered
	UnknownRule int64  // asks about a rule that is not in force here
	Behind      int64  // asks of holders with newer rules than here
	Unavailable int64  // asks that the store did not answer
	Invalid     int64  // asks out of bounds, or about what is blocked
	Panics      int64  // recovered
	Watchers    int64  // holders that watch the rules
	Live        int64  // holders of the fleet that live
	Version     uint64 // of the rules in force
	Unbeaten    bool   // the store did not take the last note of who lives, which it gets whether or not anybody asks
}

// Stats returns the present counts.
func (c *Coordinator) Stats() Stats {
	n := &c.counts

	return Stats{
		Acquires: n.acquires.Load(), Asks: n.asks.Load(), Panics: n.panics.Load(), Watchers: n.watchers.Load(),
		OK: n.code[ledger.KeyOK].Load(), UnknownRule: n.code[ledger.KeyUnknownRule].Load(),
		Behind: n.code[ledger.KeyBehind].Load(), Unavailable: n.code[ledger.KeyUnavailable].Load(),
		Invalid: n.code[ledger.KeyInvalid].Load(),
		Live:    c.presence.live.Load(), Version: c.book.Current().Version, Unbeaten: n.unbeaten.Load(),
	}
}

// counts is what Stats reports.
type counts struct {
	acquires, asks, panics, watchers atomic.Int64

	code     [ledger.KeyInvalid + 1]atomic.Int64
	unbeaten atomic.Bool
	logged   atomic.Int64 // ns of the last line that mayLog allowed
}

// codes counts what became of a batch, with one addition for each code.
func (n *counts) codes(answers []ledger.KeyAnswer) {
	var sums [len(n.code)]int64
	for i := range answers {
		sums[answers[i].Code]++
	}

	for code, sum := range sums {
		if sum > 0 {
			n.code[code].Add(sum)
		}
	}
}

// mayLog reports whether it is time for another log line.
func (n *counts) mayLog(now time.Time) bool {
	last := n.logged.Load()

	return (last == 0 || now.UnixNano()-last >= int64(logEvery) || now.UnixNano() < last) && n.logged.CompareAndSwap(last, now.UnixNano())
}
