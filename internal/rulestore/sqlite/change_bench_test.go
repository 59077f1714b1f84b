package sqlite_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/internal/rulestore/sqlite"
	"github.com/leaseway/leaseway/rule"
)

// BenchmarkChange changes one rule of as many as a store may have, and reads what is there then. It reports the time of processors
// too, which other work on the machine does not lengthen as it does the time of the clock.
func BenchmarkChange(b *testing.B) {
	s := open(b, sqlite.Config{Path: filepath.Join(b.TempDir(), "rules.db")})
	var all strings.Builder
	all.WriteString("rules:\n")
	for i := range rule.MaxRules {
		fmt.Fprintf(&all, "- {id: rule-%05d, scope: {paths: [/v1/%d/**], methods: [GET]}, keyBy: apikey, limit: 100, window: 1m}\n", i, i)
	}
	set, err := rule.Parse("all", []byte(all.String()))
	if err != nil {
		b.Fatal(err)
	}
	change := &rulestore.Change{Author: "bench", Action: "rules.apply"}
	for _, r := range set.Rules {
		change.Rules = append(change.Rules, rulestore.RuleChange{ID: r.ID, Rule: r})
	}
	if _, err := s.Write(b.Context(), change); err != nil {
		b.Fatal(err)
	}
	began := processor(b)
	for i := 0; b.Loop(); i++ {
		r := *set.Rules[i%len(set.Rules)]
		r.Limit, r.Burst = int64(101+i), int64(101+i)
		one := &rulestore.Change{Author: "bench", Action: "rules.put", Rules: []rulestore.RuleChange{{ID: r.ID, Rule: &r}}}
		if _, err := s.Write(b.Context(), one); err != nil {
			b.Fatal(err)
		}
		if state, err := s.Load(b.Context()); err != nil || len(state.Set.Rules) != rule.MaxRules || len(state.Bad) != 0 {
			b.Fatal(state, err)
		}
	}
	b.ReportMetric(float64((processor(b)-began).Milliseconds())/float64(b.N), "cpu-ms/op")
}

// processor is the time of processors that this process has used.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
