package leaseway_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/rule"
)

func embedded(tb testing.TB, doc string, opts ...leaseway.Option) *leaseway.Limiter {
	tb.Helper()

	set, err := rule.Parse("rules.yaml", []byte(doc))
	if err != nil {
		tb.Fatal(err)
	}

	l, err := leaseway.Embedded(set, opts...)
	if err != nil {
		tb.Fatal(err)
	}

	tb.Cleanup(func() {
		if err := l.Close(context.Background()); err != nil {
			tb.Error(err)
		}
	})

	return l
}

const hugeRule = "rules: [{id: r, keyBy: user, limit: 1000000000, window: 1s}]"

func take(b *testing.B, doc string) *leaseway.Rule {
	b.Helper()

	r, err := embedded(b, doc).Rule("r")
	if err != nil {
		b.Fatal(err)
	}

	return r
}

func BenchmarkTakeHot(b *testing.B) {
	r := take(b, hugeRule)
	b.ReportAllocs()

	for b.Loop() {
		if !r.Take("user-1").Allowed {
			b.Fatal("denied")
		}
	}
}

func BenchmarkTakeHotParallel(b *testing.B) {
	r := take(b, hugeRule)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if !r.Take("user-1").Allowed {
				b.Error("denied")
			}
		}
	})
}

func zipfKeys() []string {
	z := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 1, 99_999)
	keys := make([]string, 1<<20)

	for i := range keys {
		keys[i] = fmt.Sprintf("user-%d", z.Uint64())
	}

	return keys
}

func BenchmarkTakeZipf(b *testing.B) {
	r, keys := take(b, hugeRule), zipfKeys()
	for _, k := range keys {
		r.Take(k)
	}

	b.ReportAllocs()

	i := 0
	for b.Loop() {
		r.Take(keys[i&(len(keys)-1)])
		i++
	}
}

func BenchmarkTakeZipfParallel(b *testing.B) {
	r, keys := take(b, hugeRule), zipfKeys()
	for _, k := range keys {
		r.Take(k)
	}

	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for i := rand.IntN(len(keys)); pb.Next(); i++ {
			r.Take(keys[i&(len(keys)-1)])
		}
	})
}

const usedUpRule = "rules: [{id: r, keyBy: user, limit: 1, window: 1h}]"

func BenchmarkTakeDenied(b *testing.B) {
	r := take(b, usedUpRule)
	b.ReportAllocs()

	for b.Loop() {
		r.Take("user-1")
	}
}

func BenchmarkTakeDeniedParallel(b *testing.B) {
	r := take(b, usedUpRule)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r.Take("user-1")
		}
	})
}

// Two rules match, of ten and of a thousand: what does not match should cost next to nothing.
func BenchmarkDecideTwoOf(b *testing.B) {
	for _, n := range []int{10, 1_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			var doc strings.Builder

			doc.WriteString("rules:\n")

			for i := range n - 1 {
				fmt.Fprintf(&doc, "  - {id: r%d, scope: /v1/p%d, keyBy: user, limit: 1000000000, window: 1s}\n", i, i)
			}

			doc.WriteString("  - {id: all, keyBy: user, limit: 1000000000, window: 1s}\n")

			l := embedded(b, doc.String())
			req := leaseway.Request{User: "user-1", Method: "GET", Path: "/v1/p3"}

			b.ReportAllocs()

			for b.Loop() {
				if d := l.Decide(b.Context(), req); !d.Allowed {
					b.Fatal(d)
				}
			}
		})
	}
}

func BenchmarkDecideOne(b *testing.B) {
	l := embedded(b, hugeRule)
	req := leaseway.Request{User: "user-1", Method: "GET", Path: "/v1/p3"}

	b.ReportAllocs()

	for b.Loop() {
		if d := l.Decide(b.Context(), req); !d.Allowed {
			b.Fatal(d)
		}
	}
}

// BenchmarkDecideInMode has a rule in shadow mode beside the same one enforced, where requests fit and where they do not: the request
// must not be able to tell by its time which of the two it meets.
func BenchmarkDecideInMode(b *testing.B) {
	for _, c := range []struct{ name, limit string }{{"fits", "1000000000, window: 1s"}, {"over", "1, window: 1h"}} {
		for _, mode := range []string{"enforce", "shadow"} {
			b.Run(c.name+"/"+mode, func(b *testing.B) {
				l := embedded(b, "rules: [{id: r, keyBy: user, limit: "+c.limit+", mode: "+mode+"}]")
				req := leaseway.Request{User: "user-1", Method: "GET", Path: "/v1/p3"}

				b.ReportAllocs()

				for b.Loop() {
					l.Decide(b.Context(), req)
				}
			})
		}
	}
}

// BenchmarkDecideWhileShedding is what the worker shedder costs a request that it lets through, and one that it refuses.
func BenchmarkDecideWhileShedding(b *testing.B) {
	for name, class := range map[string]rule.Class{"served": rule.ClassCritical, "refused": rule.ClassTest} {
		b.Run(name, func(b *testing.B) {
			l := newStepped(b, "rules: [{id: r, keyBy: apikey, limit: 1000000000, window: 1s}]\nshedders: {worker: {}}")
			l.SetLoad(1)
			l.after(9 * time.Second)

			req := leaseway.Request{APIKey: "key-of-a-customer", Class: class}
			l.Decide(b.Context(), req)
			b.ReportAllocs()

			for b.Loop() {
				if l.Limiter.Decide(b.Context(), req).Allowed != (class == rule.ClassCritical) {
					b.Fatal("another decision")
				}
			}
		})
	}
}
