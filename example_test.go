package leaseway_test

import (
	"context"
	"fmt"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/rule"
)

func Example() {
	rules, err := rule.Parse("rules.yaml", []byte(`
rules:
  - {id: per-key, keyBy: apikey, limit: 2, window: 1m}
`))
	if err != nil {
		fmt.Println(err)

		return
	}

	limiter, err := leaseway.Embedded(rules)
	if err != nil {
		fmt.Println(err)

		return
	}
	defer limiter.Close(context.Background())

	for range 3 {
		d := limiter.Decide(context.Background(), leaseway.Request{APIKey: "k1", Method: "GET", Path: "/v1/search"})
		fmt.Println(d.Allowed, d.Remaining, d.RetryAfter.Round(1e9))
	}
	// Output:
	// true 1 0s
	// true 0 0s
	// false 0 30s
}
