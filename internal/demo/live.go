package demo

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// tally counts one caller's requests since the start, as they are answered.
type tally struct {
	admitted [servers]atomic.Int64
	denied   atomic.Int64
}

// Live is what is known while the demo runs, for whoever shows it.
type Live struct {
	callers []caller
	tallies []tally
	whole   time.Duration
	redis   bool // has the counts

	sent, failed atomic.Int64
	late         atomic.Int64 // µs that the generator is behind its schedule, lately

	mu     sync.Mutex
	start  time.Time
	phase  Phase
	down   bool // the coordinator, or a Redis master
	calls  int64
	recent [recentDecisions]int32 // ns, a ring
	seen   int
}

const recentDecisions = 4096

func newLive(callers []caller, whole time.Duration) *Live {
	return &Live{callers: callers, tallies: make([]tally, len(callers)), whole: whole, phase: Before}
}

// begin notes when the traffic begins.
func (l *Live) begin(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.start = at
}

// enter notes that another phase begins.
func (l *Live) enter(p Phase, down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.phase, l.down = p, down
}

// called notes how many calls the servers made so far.
func (l *Live) called(stats [servers]apiStats) {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.calls = 0
	for _, s := range stats {
		l.calls += s.Calls
	}
}

// count counts an answer.
func (l *Live) count(e event) {
	l.sent.Add(1)

	switch {
	case e.admitted():
		l.tallies[e.caller].admitted[e.server].Add(1)
	case e.denied():
		l.tallies[e.caller].denied.Add(1)
	default:
		l.failed.Add(1)
	}

	l.mu.Lock()
	defer l.mu.Unlock()

	l.recent[l.seen%recentDecisions] = e.nanos
	l.seen++
}

// snapshot is the state at one instant.
type snapshot struct {
	at           time.Time
	elapsed      time.Duration
	phase        Phase
	down         bool
	sent, failed int64
	calls        int64
	late         time.Duration
	p50, p99     time.Duration // of the last few thousand decisions
	counts       []count
}

// count is what one caller got so far.
type count struct {
	admitted [servers]int64
	denied   int64
}

func (c count) all() int64 { return c.admitted[0] + c.admitted[1] + c.admitted[2] }

func (l *Live) snapshot() snapshot {
	s := snapshot{
		at: time.Now(), sent: l.sent.Load(), failed: l.failed.Load(),
		late: time.Duration(l.late.Load()) * time.Microsecond, counts: make([]count, len(l.tallies)),
	}

	for i := range l.tallies {
		for j := range servers {
			s.counts[i].admitted[j] = l.tallies[i].admitted[j].Load()
		}

		s.counts[i].denied = l.tallies[i].denied.Load()
	}

	l.mu.Lock()
	recent := slices.Clone(l.recent[:min(l.seen, recentDecisions)])
	s.phase, s.down, s.calls = l.phase, l.down, l.calls

	if !l.start.IsZero() {
		s.elapsed = s.at.Sub(l.start)
	}

	l.mu.Unlock()
	slices.Sort(recent)

	s.p50, s.p99 = percentile(recent, 50), percentile(recent, 99)

	return s
}

// percentile returns the p-th of sorted decision times (ns).
func percentile(sorted []int32, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}

	return time.Duration(sorted[min(len(sorted)-1, len(sorted)*p/100)])
}

// busiest returns the n callers that wanted most between two snapshots, in the order of the traffic.
func (l *Live) busiest(from, to snapshot, n int) []int {
	index := make([]int, len(to.counts))
	wanted := make([]int64, len(to.counts))

	for i := range index {
		index[i] = i
		wanted[i] = to.counts[i].all() + to.counts[i].denied - from.counts[i].all() - from.counts[i].denied
	}

	slices.SortStableFunc(index, func(a, b int) int { return cmp.Compare(wanted[b], wanted[a]) })
	index = index[:min(n, len(index))]
	slices.Sort(index)

	return index
}
