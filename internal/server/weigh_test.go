package server

import (
	"math"
	"testing"

	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/ledger"
)

// One holder, whatever it says, neither hides what the others refuse nor makes a sum overflow.
func TestNoHolderHidesWhatOthersRefuse(t *testing.T) {
	t.Parallel()

	const huge = 1 << 53

	type fare struct{ allowed, refused int64 }

	for name, c := range map[string]struct {
		holders []fare
		asked   fare
		percent float64 // refused, as a plan judges it; below 0 for not known
	}{
		"alone":                      {[]fare{{90, 10}}, fare{}, 10},
		"alike":                      {[]fare{{90, 10}, {90, 10}, {90, 10}}, fare{}, 10},
		"one hides two":              {[]fare{{huge, 0}, {60, 40}, {60, 40}}, fare{}, 40},
		"one hides one":              {[]fare{{60, 40}, {huge, 0}}, fare{}, 40},
		"one hides what is asked":    {[]fare{{huge, 0}}, fare{60, 40}, 40},
		"the largest refuses":        {[]fare{{500, 500}, {100, 0}}, fare{}, 100 * 500 / 1100.},
		"the others are few":         {[]fare{{90, 0}, {0, 10}}, fare{}, 10},
		"few in all":                 {[]fare{{9, 1}, {1, 1}}, fare{}, -1},
		"nobody":                     {nil, fare{}, -1},
		"below nothing":              {[]fare{{-90, 10}, {90, -10}, {90, 10}}, fare{}, 10},
		"more than there are":        {[]fare{{math.MaxInt64, math.MaxInt64}, {math.MaxInt64, 0}, {60, 40}}, fare{}, 100}, // full sums err on the safe side
		"more than there are, asked": {[]fare{{math.MaxInt64, 0}, {60, 40}}, fare{0, math.MaxInt64}, 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			g := &gathered{asked: []ledger.Tally{{Rule: "r", Version: 7, Allowed: c.asked.allowed, Refused: c.asked.refused}}}
			for _, f := range c.holders {
				g.instances = append(g.instances, coordinator.Instance{Tallies: []ledger.Tally{
					{Rule: "other", Version: 7, Allowed: huge}, {Rule: "r", Version: 7, Allowed: f.allowed, Refused: f.refused},
				}})
			}

			requests, refused := g.refused("r", 7)
			if refused < 0 || refused > requests {
				t.Fatalf("%d of %d requests were refused", refused, requests)
			}

			got := -1.0
			if requests >= fewRequests {
				got = 100 * float64(refused) / float64(requests)
			}

			if math.Abs(got-c.percent) > 0.01 {
				t.Errorf("%d of %d, which is %.2f %%, want %.2f", refused, requests, got, c.percent)
			}
		})
	}
}
