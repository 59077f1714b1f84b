package sim

import (
	"fmt"
	"time"
)

// bars are what a load must reach. 0 is: not judged.
type bars struct {
	admitted float64       // of what one ideal central limiter admits, at least
	asks     float64       // keys asked about, a request, at most; by the hot server if there is one
	fair     float64       // percent by which a server may differ from the rest
	from     time.Duration // since when all but the overshoot is judged: after a fault
	excused  excuse        // the overshoot that is allowed, for what the load contains
}

// excuse is one of the few reasons for which more than the limit may pass, and
// by how many tokens at most.
type excuse struct {
	why    string
	tokens func(f *fleet) int64
}

// Miss is a bar that a result does not reach.
type Miss struct {
	Bar   string  `json:"bar"` // overshoot, admitted, asks or fair
	Got   float64 `json:"got"`
	Limit float64 `json:"limit"`
}

// The bars.
const (
	barOvershoot = "overshoot"
	barAdmitted  = "admitted"
	barAsks      = "asks"
	barFair      = "fair"
)

// String says what was missed, and by how much.
func (m Miss) String() string {
	switch m.Bar {
	case barOvershoot:
		return fmt.Sprintf("%.0f tokens above the limit, at most %.0f", m.Got, m.Limit)
	case barAdmitted:
		return fmt.Sprintf("admits %.4f of the ideal, at least %v", m.Got, m.Limit)
	case barAsks:
		return fmt.Sprintf("%.4f asks a request, at most %.4g", m.Got, m.Limit)
	default:
		return fmt.Sprintf("a server differs by %.1f %%, at most %v %%", m.Got, m.Limit)
	}
}

// misses returns what of the bars a result does not reach.
func (b *bars) misses(r *Result) (misses []Miss) {
	miss := func(bar string, got, limit float64) {
		misses = append(misses, Miss{Bar: bar, Got: got, Limit: limit})
	}

	if r.Overshoot > r.Allowed {
		miss(barOvershoot, float64(r.Overshoot), float64(r.Allowed))
	}

	if b.admitted > 0 && r.Admitted < b.admitted {
		miss(barAdmitted, r.Admitted, b.admitted)
	}

	asks := r.Asks
	if r.HotAsks > 0 {
		asks = r.HotAsks
	}

	if b.asks > 0 && asks > b.asks {
		miss(barAsks, asks, b.asks)
	}

	if b.fair > 0 && r.Unfair > b.fair {
		miss(barFair, r.Unfair, b.fair)
	}

	return misses
}
