package sim

import (
	"slices"
	"strconv"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/table"
	"github.com/leaseway/leaseway/rule"
)

// tally counts what happens in a fleet, and asks the twin what should.
type tally struct {
	fleet   *fleet
	keys    []string
	ruleIDs map[string]int
	keyIDs  map[string]int
	changes [][]change // of each rule
	budgets [][]counted

	requests, passed int64
	messages, asks   int64
	waits            []int64 // of the requests that waited, µs
	stalled          int64   // requests that waited for a process that did not run
	local            int64   // tokens admitted without a coordinator
	judged, ideal    int64   // tokens admitted since the load is judged, here and by the twin
	slots            []slot
	leased           map[leaseRef]int64 // tokens granted
	taken            int64              // tokens that the store took
	given            int64              // tokens that the store took or leased, ever
	lost             int64              // of them, those of which a store that took over knew nothing
	fromStore        int64              // tokens admitted that the store had charged
	from             int64              // since when the load is judged, µs
	bins             *bins              // for a picture; nil: nobody looks
}

// counted is one budget's admissions and its twin.
type counted struct {
	admissions []admission
	twin       twin
}

// slot is what the servers in one place of the fleet were asked and passed.
type slot struct {
	requests, asks  int64 // in all
	arrived, passed int64 // tokens, since the load is judged
}

// leaseRef names a lease.
type leaseRef struct {
	holder uint64
	budget budget
	lease  uint64
}

// verdict is what became of a request.
type verdict struct {
	passed bool
	began  int64
	waited int64 // µs
}

func newTally(f *fleet, set *rule.Set) (*tally, error) {
	t := &tally{
		fleet: f, ruleIDs: map[string]int{}, keyIDs: map[string]int{}, leased: map[leaseRef]int64{},
		from: start + f.load.bars.from.Microseconds(),
	}

	for i := range max(1, f.load.demand.keys) {
		t.keys = append(t.keys, "key-"+strconv.Itoa(i))
		t.keyIDs[t.keys[i]] = i
	}

	for i, r := range set.Rules {
		l, err := limitOf(r)
		if err != nil {
			return nil, err
		}

		t.ruleIDs[r.ID] = i
		t.changes = append(t.changes, []change{{at: start, limit: l}})
		counts := make([]counted, len(t.keys))

		for k := range counts {
			counts[k].twin = newTwin(l)
		}

		t.budgets = append(t.budgets, counts)
	}

	return t, nil
}

// budget returns whose tokens an ask is about.
func (t *tally) budget(k *ledger.KeyAsk) budget { return budget{t.ruleIDs[k.Rule], t.keyIDs[k.Key]} }

// changed notes that other rules are in force.
func (t *tally) changed(set *rule.Set) {
	for i, r := range set.Rules {
		l, err := limitOf(r)
		if err != nil {
			t.fleet.fail(err)

			return
		}

		t.changes[i] = append(t.changes[i], change{at: t.fleet.now, limit: l})

		for k := range t.budgets[i] {
			t.budgets[i][k].twin.change(t.fleet.now, l)
		}
	}
}

// arrived counts a request that came to s, and has the twin decide it.
func (t *tally) arrived(s *server, q request) {
	t.requests++
	t.slots[s.slot].requests++

	passed := true
	for i := range t.budgets {
		passed = passed && t.budgets[i][q.key].twin.avail(q.at) >= q.cost
	}

	if passed {
		for i := range t.budgets {
			t.budgets[i][q.key].twin.take(q.at, q.cost)
		}
	}

	if q.at >= t.from {
		t.slots[s.slot].arrived += q.cost

		if passed {
			t.ideal += q.cost
		}
	}

	t.bins.arrived(q, passed)
}

// decided counts what became of a request.
func (t *tally) decided(s *server, q request, v verdict) {
	if v.waited > 0 {
		t.waits = append(t.waits, v.waited)
	}

	if v.began > q.at {
		t.stalled++
	}

	if !v.passed {
		return
	}

	t.passed++
	t.bins.passed(s, q)

	if q.at >= t.from {
		t.judged += q.cost
		t.slots[s.slot].passed += q.cost
	}
}

// admit notes tokens that were used.
func (t *tally) admit(b budget, a admission, origin table.Origin) {
	c := &t.budgets[b.rule][b.key]
	c.admissions = append(c.admissions, a)

	switch origin {
	case table.FromLease, table.FromStore:
		t.fromStore += a.n
	default:
		t.local += a.n
	}
}

// called counts a message of s about so many keys.
func (t *tally) called(s *server, asks int) {
	t.messages++
	t.asks += int64(asks)
	t.slots[s.slot].asks += int64(asks)
}

// granted notes what the store gave.
func (t *tally) granted(batch *ledger.Batch, answers *ledger.Answers) {
	for i := range answers.Keys {
		a, ask := &answers.Keys[i].Answer, &batch.Asks[i]
		if answers.Keys[i].Code != ledger.KeyOK || a.Status != ledger.OK {
			continue
		}

		b := t.budget(ask)

		for k, n := range ask.Ask.Takes {
			if a.Taken&(1<<k) != 0 {
				t.taken += n
				t.given += n
			}
		}

		if ask.Ask.Ended != 0 {
			t.leased[leaseRef{batch.Holder, b, ask.Ask.Ended}] = ask.Ask.EndedSpent
		}

		switch {
		case a.Lease != 0:
			ref := leaseRef{batch.Holder, b, a.Lease}
			t.given += max(0, a.Granted-t.leased[ref])
			t.leased[ref] = a.Granted
		case ask.Ask.Lease != 0:
			t.leased[leaseRef{batch.Holder, b, ask.Ask.Lease}] = ask.Ask.Spent
		}
	}
}

// stranded returns the tokens that the store gave and nobody used or has.
func (t *tally) stranded() int64 {
	n := t.taken - t.fromStore
	for _, granted := range t.leased {
		n += granted
	}

	for _, s := range t.fleet.servers {
		for i := range t.budgets {
			for _, key := range t.keys {
				if stats, ok := s.limit[i].Key(key); ok {
					n -= stats.Balance
				}
			}
		}
	}

	return n
}

// overshoot returns the worst of all budgets, tokens.
func (t *tally) overshoot() (worst int64) {
	for i := range t.budgets {
		for k := range t.budgets[i] {
			worst = max(worst, overshoot(t.budgets[i][k].admissions, t.changes[i]))
		}
	}

	return worst
}

// p99 returns how long a request waited whom 99 of 100 did not outwait, µs.
func (t *tally) p99() int64 {
	slices.Sort(t.waits)

	if rank := int64(len(t.waits)) - (t.requests+99)/100; rank >= 0 && len(t.waits) > 0 {
		return t.waits[rank]
	}

	return 0
}

// unfair returns by how much the part of its requests that a server passed
// differs from that of all together, at most, in hundredths.
func (t *tally) unfair() (worst float64) {
	var all slot

	for _, s := range t.slots {
		all.arrived += s.arrived
		all.passed += s.passed
	}

	if all.passed == 0 {
		return 0
	}

	mean := float64(all.passed) / float64(all.arrived)

	for _, s := range t.slots {
		if s.arrived > 0 {
			off := float64(s.passed)/float64(s.arrived)/mean - 1
			worst = max(worst, 100*max(off, -off))
		}
	}

	return worst
}
