// Package sim is a fleet in virtual time: servers, coordinators, what callers want
// of them, and what goes wrong. It shows whether Leaseway keeps its promises.
//
//	arrivals ─▶ server (table) ─▶ network ─▶ replica (coordinator, store/memory)
//	    │          │  ▲                          │
//	    ▼          ▼  └───────── answers ◀───────┘
//	  twin       oracle
//	   └── tally ──┘ ─▶ Result, held against the bars of its Load
//
// Everything that decides is the code of production; here is only the world
// around it, one event after the other, the same for the same seed. The oracle
// knows nothing of leases: it sees when tokens were used, and how many. The twin is
// one ideal central limiter for the same requests.
//
// Its neighbours are table, coordinator and store/memory below, and cli above.
package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/rule"
)

// Loads returns all loads, in the order in which they are shown.
func Loads() []Load { return slices.Concat(calmLoads(), adversarialLoads()) }

// Result is what came of one load under one algorithm.
type Result struct {
	Load      string  `json:"load"`
	Algorithm string  `json:"algorithm"`
	Requests  int64   `json:"requests"`
	Passed    int64   `json:"passed"`
	Overshoot int64   `json:"overshoot"`         // tokens above the limit, at worst
	Allowed   int64   `json:"allowed"`           // of it, for what the load contains
	Why       string  `json:"why,omitempty"`     // it is allowed
	Admitted  float64 `json:"admitted"`          // of what one ideal central limiter admits
	Messages  float64 `json:"messages"`          // calls to a coordinator, a request
	Asks      float64 `json:"asks"`              // keys asked about in them, a request
	HotAsks   float64 `json:"hotAsks,omitempty"` // of the one hot server, a request that came to it
	Waited    float64 `json:"waited"`            // the part of the requests that waited for an answer
	P99       int64   `json:"p99Us"`             // of the decision, µs
	Unfair    float64 `json:"unfair"`            // percent by which a server differs from the rest
	Stranded  int64   `json:"stranded"`          // tokens that were given and never used
	Local     int64   `json:"local"`             // tokens admitted without a coordinator
	Events    int64   `json:"events"`
	Millis    int64   `json:"wallMs"`
	Misses    []Miss  `json:"misses,omitempty"` // of the load's bars
}

// Run runs a load under one algorithm. The same seed gives the same result. An
// error is not a miss: it says that the load could not be run to its end.
func (l *Load) Run(ctx context.Context, algorithm rate.Algorithm, seed uint64) (*Result, error) {
	return l.run(ctx, algorithm, seed, nil)
}

// run is Run, and counts into b what a picture needs.
func (l *Load) run(ctx context.Context, algorithm rate.Algorithm, seed uint64, b *bins) (*Result, error) {
	began := time.Now()

	f, err := newFleet(ctx, l, algorithm, seed)
	if err == nil {
		f.tally.bins = b
		err = f.simulate()
	}

	if err != nil {
		return nil, fmt.Errorf("load %s, %v: %w", l.Name, rule.Algorithm(algorithm), err)
	}

	if b != nil {
		b.limited(f.tally.changes[0], int64(len(f.tally.keys)), f.end)
		b.whole(f.end)
	}

	r := f.result(rule.Algorithm(algorithm).String())
	r.Millis = time.Since(began).Milliseconds()

	return r, nil
}

// result sums up what the tally has.
func (f *fleet) result(algorithm string) *Result {
	t := f.tally
	n := float64(max(1, t.requests))
	r := &Result{
		Load: f.load.Name, Algorithm: algorithm, Requests: t.requests, Passed: t.passed, Overshoot: max(0, t.overshoot()),
		Admitted: float64(t.judged) / float64(max(1, t.ideal)),
		Messages: float64(t.messages) / n, Asks: float64(t.asks) / n,
		Waited: float64(len(t.waits)) / n, P99: t.p99(), Unfair: t.unfair(),
		Stranded: t.stranded(), Local: t.local, Events: f.seen,
	}

	if f.load.hot() && t.slots[0].requests > 0 {
		r.HotAsks = float64(t.slots[0].asks) / float64(t.slots[0].requests)
	}

	if e := f.load.bars.excused; e.tokens != nil {
		r.Allowed, r.Why = e.tokens(f), e.why
	}

	r.Misses = f.load.bars.misses(r)

	return r
}
