package leaseway_test

import (
	"context"
	"fmt"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/rule"
)

// A rule that bounds what is in flight counts a request until it is done.
func ExampleLimiter_Done() {
	rules, err := rule.Parse("rules.yaml", []byte(`rules: [{id: exports, keyBy: user, algorithm: concurrency, limit: 1}]`))
	if err != nil {
		fmt.Println(err)
		return
	}

	limiter, err := leaseway.Embedded(rules)
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx := context.Background()
	defer limiter.Close(ctx)

	first := limiter.Decide(ctx, leaseway.Request{User: "ada"})
	second := limiter.Decide(ctx, leaseway.Request{User: "ada"})
	limiter.Done(second) // nothing is wrong with it, though it holds nothing

	limiter.Done(first)

	third := limiter.Decide(ctx, leaseway.Request{User: "ada"})
	defer limiter.Done(third)

	fmt.Println(first.Allowed, second.Allowed, second.Reason, third.Allowed)
	// Output: true false too_many_in_flight true
}
