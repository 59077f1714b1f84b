package leaseway_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/rule"
)

func Example() {
	if err := firstLook(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output: true 1 0s
}

// firstLook is the program of README.md, line by line.
func firstLook(ctx context.Context) error {
	rules, err := rule.Parse("rules.yaml", []byte(`rules: [{id: per-key, keyBy: apikey, limit: 2, window: 1m}]`))
	if err != nil {
		return err // all that is wrong, with lines and columns
	}
	limiter, err := leaseway.Embedded(rules) // this process alone; Dial leases from coordinators
	if err != nil {
		return err
	}
	defer limiter.Close(ctx)
	d := limiter.Decide(ctx, leaseway.Request{APIKey: "k1", Method: "GET", Path: "/v1/search"})
	fmt.Println(d.Allowed, d.Remaining, d.RetryAfter) // true 1 0s

	return nil
}

func ExampleLimiter_Decide() {
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

// The program that README.md shows is the one that Example runs.
func TestReadmeShowsTheExample(t *testing.T) {
	t.Parallel()

	read := func(name, from, to string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}

		_, rest, found := strings.Cut(string(text), from)
		if !found {
			t.Fatalf("%s has no %q", name, from)
		}

		shown, _, found := strings.Cut(rest, to)
		if !found {
			t.Fatalf("%s has no %q after %q", name, to, from)
		}

		return shown
	}

	shown := read("README.md", "```go\n", "```")
	run := strings.ReplaceAll("\n"+read("example_test.go", "func firstLook(ctx context.Context) error {\n", "\n\treturn nil\n}"), "\n\t", "\n")[1:]

	if shown != run {
		t.Errorf("README.md shows\n%s\nand example_test.go runs\n%s", shown, run)
	}
}
