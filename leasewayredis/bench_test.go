package leasewayredis_test

import (
	"context"
	"testing"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/store/redis/redistest"
)

// A decision about a key that is in use, by leases from Redis and by leases from this process: the same path, so the same
// time. calls/op is how many calls to Redis a decision needs.
func BenchmarkTake(b *testing.B) {
	const rules = `rules: [{id: r, keyBy: user, limit: 1000000000, window: 1s}]`

	here, err := leaseway.Embedded(parse(rules))
	if err != nil {
		b.Fatal(err)
	}

	defer here.Close(context.Background())

	for name, l := range map[string]*leaseway.Limiter{
		"from=redis":   open(b, "redis://"+redistest.NewServer(b).Address, rules),
		"from=process": here,
	} {
		b.Run(name, func(b *testing.B) {
			r, err := l.Rule("r")
			if err != nil {
				b.Fatal(err)
			}

			before := l.Stats().Calls

			b.ReportAllocs()

			for b.Loop() {
				r.Take("ada")
			}

			b.ReportMetric(float64(l.Stats().Calls-before)/float64(b.N), "calls/op")
		})
	}
}
