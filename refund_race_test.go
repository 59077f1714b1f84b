package leaseway_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/leaseway/leaseway"

	"github.com/leaseway/leaseway/internal/proctest"
)

// charged is a request that passed, and what it cost.
type charged struct {
	by   leaseway.Decision
	cost int64
}

// 64 goroutines take and give back at one limiter, while its leases end, run dry and are renewed, another server wants the same keys,
// and the rules change: what was admitted and not given back is never more than the limit, for any key. Where no lease ends unspent
// nothing is lost either.
func TestRefundsInARaceAreConserved(t *testing.T) {
	t.Parallel()

	const (
		crowd, rounds, keys = 64, 400, 5
		size                = 1_000
	)

	for _, c := range []struct {
		algorithm, ttl string
		whole          bool // nothing may be lost
	}{
		{"token_bucket", "50ms", false},
		{"fixed_window", "50ms", false},
		{"token_bucket", "60s", true},
		{"sliding_window", "60s", true},
	} {
		t.Run(c.algorithm+" "+c.ttl, func(t *testing.T) {
			t.Parallel()

			doc := func(more int) string {
				limit := fmt.Sprintf("limit: %d, window: 365d", size+more)
				if c.algorithm == "token_bucket" {
					limit = fmt.Sprintf("limit: 1, window: 24h, burst: %d", size+more)
				}

				return fmt.Sprintf("rules: [{id: r, keyBy: user, algorithm: %s, %s, lease: {ttl: %s}}]", c.algorithm, limit, c.ttl)
			}
			f := newFleet(t, doc(0), 2, patient())

			var (
				net  [keys]atomic.Int64 // admitted, less what was given back
				work sync.WaitGroup
			)

			for w := range crowd {
				work.Go(func() {
					random := rand.New(rand.NewPCG(uint64(w), 1))

					rule, err := f.holders[w/(crowd-4)].Rule("r") // four are elsewhere
					if err != nil {
						t.Error(err)

						return
					}

					var (
						mine [keys][]charged
						cost = func() int64 { return int64(1 + 4*(random.IntN(8)/7)) }
					)

					for i := range rounds {
						if w == 0 && i%20 == 0 {
							if _, err := f.book.Apply(parsedRules(t, doc(i/20%2))); err != nil {
								t.Error(err)
							}
						}

						k, n := random.IntN(keys), cost()

						if d := rule.TakeN(strconv.Itoa(k), n); d.Allowed {
							if now := net[k].Add(n); now > size+1 {
								t.Errorf("key %d: %d are admitted and not given back, of %d", k, now, size+1)
							}

							mine[k] = append(mine[k], charged{d, n})
						}

						for len(mine[k]) > 0 && random.IntN(3) > 0 {
							last := len(mine[k]) - 1
							back := mine[k][last]
							mine[k] = mine[k][:last]

							net[k].Add(-back.cost)
							f.holders[w/(crowd-4)].Refund(back.by)
						}
					}
				})
			}

			work.Wait()

			if _, err := f.book.Apply(parsedRules(t, doc(1))); err != nil {
				t.Fatal(err)
			}

			for _, l := range f.holders {
				if err := l.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}

			last, err := leaseway.Dial(t.Context(), []string{f.addr}, patient())
			if err != nil {
				t.Fatal(err)
			}
			defer last.Close(context.Background())

			rule, err := last.Rule("r")
			if err != nil {
				t.Fatal(err)
			}

			for k := range keys {
				work.Go(func() {
					admitted, left := net[k].Load(), int64(0)
					again := func() bool {
						for rule.Take(strconv.Itoa(k)).Allowed {
							left++
						}

						return left >= size+1-admitted
					}

					// For a while it leaves some for a server that has gone.
					if !again() && c.whole && !proctest.Within(proctest.Patience, again) || left > size+1-admitted {
						t.Errorf("key %d: %d are admitted and %d are left, of %d", k, admitted, left, size+1)
					}
				})
			}

			work.Wait()
		})
	}
}
