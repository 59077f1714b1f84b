package leasewayredis_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/store/redis/redistest"
	"github.com/leaseway/leaseway/leasewayredis"
	"github.com/leaseway/leaseway/rule"
)

func ExampleOpen() { //nolint:testableexamples // it needs a Redis: TestExample runs it over one
	if err := firstLook(context.Background(), "redis://10.0.0.1:6379,10.0.0.2:6379"); err != nil {
		fmt.Println(err)
	}
}

// firstLook limits a request by a budget that all processes share which use the Redis at url.
func firstLook(ctx context.Context, url string) error {
	rules, err := rule.Parse("rules.yaml", []byte(`rules: [{id: per-key, keyBy: apikey, limit: 2, window: 1m}]`))
	if err != nil {
		return err
	}

	limiter, err := leasewayredis.Open(ctx, url, rules,
		leasewayredis.WithLimiter(leaseway.WithName("api-1")),
	)
	if err != nil {
		return err
	}
	defer limiter.Close(ctx)

	d := limiter.Decide(ctx, leaseway.Request{APIKey: "k1", Method: "GET", Path: "/v1/search"})
	fmt.Println(d.Allowed, d.Rule)

	return nil
}

// The example works, over a Redis that is there.
func TestExample(t *testing.T) {
	if err := firstLook(t.Context(), "redis://"+redistest.NewServer(t).Address); err != nil {
		t.Error(err)
	}
}
