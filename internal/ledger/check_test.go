package ledger_test

import (
	"testing"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
)

func TestTermsThatCannotBeCounted(t *testing.T) {
	good := rate.Bucket{P: 1, Q: 1, Burst: 1}

	for name, bad := range map[string]ledger.Terms{
		"no bucket":         {},
		"negative window":   {Bucket: rate.Bucket{P: -1, Q: 1, Burst: 1}},
		"no burst":          {Bucket: rate.Bucket{P: 1, Q: 1}},
		"span too large":    {Bucket: rate.Bucket{P: 1 << 30, Q: 1, Burst: 1 << 30}},
		"fraction too fine": {Bucket: rate.Bucket{P: 1, Q: rate.MaxLimit + 1, Burst: 1}},
		"negative TTL":      {Bucket: good, TTL: -1},
		"endless TTL":       {Bucket: good, TTL: 1 << 62},
	} {
		if bad.Check() == nil {
			t.Errorf("%s: %+v fits", name, bad)
		}
	}

	if err := (&ledger.Terms{Bucket: good, TTL: 500_000}).Check(); err != nil {
		t.Error(err)
	}
}
