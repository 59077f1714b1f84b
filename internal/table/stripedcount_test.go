package table_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/leaseway/leaseway/internal/store/memory"
	"github.com/leaseway/leaseway/internal/table"
)

// What a crowd gets of one key is counted in the mode that the rule had for it, each request once, whether the key is striped,
// lent anew or taken back meanwhile; and none of it is lost when the mode changes.
func TestACrowdOfAStripedKeyIsCountedInItsMode(t *testing.T) {
	t.Parallel()

	const (
		burst, crowd = 20_000, 8
		each         = 2 * burst / crowd
	)

	doc := func(mode string, size int) string {
		return fmt.Sprintf("rules: [{id: r, keyBy: user, limit: %d, window: 365d, mode: %s}]", size, mode)
	}

	for _, c := range []struct {
		name  string
		modes []string
	}{
		{"in shadow mode", []string{"shadow"}},
		{"in both, in turn", []string{"shadow", "enforce"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()

			b := newBank(t, func() int64 { return rigStart }, memory.Config{})
			tb := table.New(b.coord, table.Config{Inline: true, Clock: table.NewVirtualClock(rigStart)})
			b.apply(doc("shadow", burst), tb)

			r := tb.Rule("r")

			var (
				work            sync.WaitGroup
				passed, refused atomic.Int64
			)

			for w := range crowd {
				work.Go(func() {
					for i := range each {
						if w == 0 && i%100 == 0 {
							b.apply(doc(c.modes[i/100%len(c.modes)], burst), tb)
						}

						if w == 1 && i%30 == 0 {
							r.StripeLent("k")
						}

						if w == 2 && i%500 == 0 {
							r.ReturnLoans()
						}

						var out table.Outcome

						r.Take(t.Context(), "k", 1, &out)

						if out.Kind == table.Allowed {
							passed.Add(1)
						} else {
							refused.Add(1)
						}
					}
				})
			}

			work.Wait()

			var allowed, denied int64

			for _, s := range tb.Stats().Rules {
				for from := range s.Allowed {
					allowed += s.Allowed[from]
					denied += s.Denied[from]
				}

				if len(c.modes) == 1 && s.Mode.String() != c.modes[0] {
					t.Errorf("decisions are counted in mode %v", s.Mode)
				}
			}

			if passed.Load() != burst || refused.Load() != burst {
				t.Errorf("%d passed and %d were refused, want %d each", passed.Load(), refused.Load(), burst)
			}

			if allowed != passed.Load() || denied != refused.Load() {
				t.Errorf("%d are counted as allowed and %d as denied, of %d and %d", allowed, denied, passed.Load(), refused.Load())
			}
		})
	}
}
