package table_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/store/memory"
	"github.com/leaseway/leaseway/internal/table"
	"github.com/leaseway/leaseway/rule"
)

// BenchmarkSeldom is a request for one of 20,000 keys of which nothing is leased, each of which is asked for once in a
// second, with all that is done about them meanwhile. The coordinator is called by the request itself.
func BenchmarkSeldom(b *testing.B) {
	const keys = 20_000

	now := int64(1_000_000_000)
	each := make([]string, keys)

	for i := range each {
		each[i] = fmt.Sprintf("user-%06d", i)
	}

	store, err := memory.New(memory.Config{Clock: func() int64 { return now }})
	if err != nil {
		b.Fatal(err)
	}

	b.Cleanup(func() { _ = store.Close(context.Background()) })

	set, err := rule.Parse("rules.yaml", []byte("rules: [{id: r, keyBy: user, limit: 1000, window: 1m}]"))
	if err != nil {
		b.Fatal(err)
	}

	book := coordinator.NewBook(nil)
	if _, err := book.Apply(set); err != nil {
		b.Fatal(err)
	}

	c, err := coordinator.New(coordinator.Config{Store: store, Book: book, Clock: func() time.Time { return time.UnixMicro(now) }})
	if err != nil {
		b.Fatal(err)
	}

	clock := table.NewVirtualClock(now)
	tb := table.New(&gate{Source: c}, table.Config{Clock: clock, Inline: true})

	if err := tb.SetRules(book.Current()); err != nil {
		b.Fatal(err)
	}

	r := tb.Rule("r")

	var out table.Outcome

	b.ReportAllocs()

	for i := 0; b.Loop(); i++ {
		out = table.Outcome{}
		r.Take(context.Background(), each[i%keys], 1, &out)

		if out.Kind != table.Allowed {
			b.Fatalf("request %d: %+v", i, out)
		}

		now += 1_000_000 / keys
		clock.Set(now)

		if now%10_000 == 0 {
			tb.Advance(now)
		}
	}
}
