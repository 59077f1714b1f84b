package sim

import (
	"context"
	"fmt"

	"github.com/leaseway/leaseway/internal/plots"
	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/rule"
)

// binsAcross is how many steps a picture has.
const binsAcross = 200

// Draw is Run, and draws as an SVG what callers wanted, what the limit was, and
// what the fleet and each of its servers admitted.
func (l *Load) Draw(ctx context.Context, algorithm rate.Algorithm, seed uint64) (*Result, []byte, error) {
	b := &bins{width: max(1_000, l.Lasts.Microseconds()/binsAcross)}

	r, err := l.run(ctx, algorithm, seed, b)
	if err != nil {
		return nil, nil, err
	}

	picture := plots.Fleet{
		Title: fmt.Sprintf("%s, %v", l.Name, rule.Algorithm(algorithm)), Subtitle: l.About,
		Bin: b.width, Wanted: b.wanted, Ideal: b.ideal, Admitted: b.admitted, Limit: b.limits, Servers: b.servers,
	}

	return r, picture.SVG(), nil
}

// limited notes what limits of a rule were in force, tokens a second over all keys, until end.
func (b *bins) limited(changes []change, keys, end int64) {
	for at := start; at < end; at += b.width {
		for len(changes) > 1 && changes[1].at <= at {
			changes = changes[1:]
		}

		b.limits = append(b.limits, changes[0].limit.perSecond()*keys)
	}
}
