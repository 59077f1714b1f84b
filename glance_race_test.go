package leaseway_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/store/memory"
	"github.com/leaseway/leaseway/rule"
)

const (
	pairKeys = 40  // of each rule
	wideSize = 300 // tokens, none of which comes back within the test

	narrowSize = 200 // or one more: whatever changes
)

// pairRules are two rules of which leases do not end, however busy the machine is.
func pairRules(t *testing.T, more int) *rule.Set {
	t.Helper()

	const doc = `rules:
  - {id: wide, keyBy: user, limit: 1, window: 24h, burst: %d, lease: {ttl: 60s}}
  - {id: narrow, keyBy: apikey, limit: 1, window: 24h, burst: %d, lease: {ttl: 60s}}
`

	return parsedRules(t, fmt.Sprintf(doc, wideSize, narrowSize+more))
}

// Under two rules each request is charged to both or to none, and counts once under both if it passes, whatever happens to them meanwhile:
// another table wants the same buckets, rules come into force, decisions are refunded, requests cost more than one token.
func TestTwoRulesAreChargedTogetherInARace(t *testing.T) {
	t.Parallel()

	const workers, rounds = 6, 4_000

	store, err := memory.New(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close(context.Background())

	book := coordinator.NewBook(nil)
	if _, err := book.Apply(pairRules(t, 0)); err != nil {
		t.Fatal(err)
	}

	c, err := coordinator.New(coordinator.Config{Store: store, Book: book})
	if err != nil {
		t.Fatal(err)
	}

	over := func() *leaseway.Limiter {
		l, err := leaseway.Over(t.Context(), c, leaseway.WithInProcess(), leaseway.WithDeadline(time.Minute))
		if err != nil {
			t.Fatal(err)
		}

		return l
	}

	limiters := [2]*leaseway.Limiter{over(), over()}

	var (
		wide, narrow [pairKeys]atomic.Int64 // tokens that were charged
		passed       atomic.Int64
		work         sync.WaitGroup
	)

	for w := range workers {
		work.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 1))

			for i := range rounds {
				if w == 0 && i%100 == 0 {
					if _, err := book.Apply(pairRules(t, i/100%2)); err != nil {
						t.Error(err)
					}
				}

				user, apikey, cost := r.IntN(pairKeys), r.IntN(pairKeys), int64(1+6*(r.IntN(4)/3))
				l := limiters[max(0, 1-r.IntN(500))]

				d := l.Decide(t.Context(), leaseway.Request{User: strconv.Itoa(user), APIKey: strconv.Itoa(apikey), Cost: cost})
				if !d.Allowed {
					continue
				}

				passed.Add(1)

				if r.IntN(10) == 0 {
					l.Refund(d)
				} else {
					wide[user].Add(cost)
					narrow[apikey].Add(cost)
				}
			}
		})
	}

	work.Wait()

	counted := map[string]int64{}

	for _, l := range limiters {
		for _, r := range l.Stats().Rules {
			for _, n := range r.Allowed {
				counted[r.ID] += n
			}
		}

		if err := l.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	}

	if n := passed.Load(); n == 0 || counted["wide"] != n || counted["narrow"] != n {
		t.Errorf("%d requests passed, and the rules count %v", n, counted)
	}

	if _, err := book.Apply(pairRules(t, 0)); err != nil {
		t.Fatal(err)
	}

	last := over()
	defer last.Close(context.Background())

	for i := range pairKeys {
		if got, want := leftOf(t, last, "wide", i), wideSize-wide[i].Load(); got != want {
			t.Errorf("wide has %d left for key %d, want %d", got, i, want)
		}

		if got, want := leftOf(t, last, "narrow", i), max(0, narrowSize-narrow[i].Load()); got != want {
			t.Errorf("narrow has %d left for key %d, want %d", got, i, want)
		}
	}
}

func leftOf(t *testing.T, l *leaseway.Limiter, id string, key int) int64 {
	t.Helper()

	r, err := l.Rule(id)
	if err != nil {
		t.Fatal(err)
	}

	return r.Peek(strconv.Itoa(key)).Remaining
}
