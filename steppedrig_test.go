package leaseway_test

import (
	"testing"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/store/memory"
	"github.com/leaseway/leaseway/internal/table"
	"github.com/leaseway/leaseway/rule"
)

// stepped is a Limiter in virtual time, whose rules can be changed.
type stepped struct {
	*leaseway.Stepped

	tb          testing.TB
	now         int64 // µs since start
	start       time.Time
	clock       *table.Clock
	book        *coordinator.Book
	coordinator *coordinator.Coordinator
}

func newStepped(tb testing.TB, doc string, opts ...leaseway.Option) *stepped {
	tb.Helper()

	s := &stepped{tb: tb, start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), clock: table.NewVirtualClock(1)}
	date := func() time.Time { return s.start.Add(time.Duration(s.now) * time.Microsecond) }

	store, err := memory.New(memory.Config{Clock: func() int64 { return date().UnixMicro() }})
	if err != nil {
		tb.Fatal(err)
	}

	tb.Cleanup(func() { _ = store.Close(tb.Context()) })

	s.clock.SetEpoch(s.start.UnixMicro() - 1)
	s.book = coordinator.NewBook(date)

	c, err := coordinator.New(coordinator.Config{Store: store, Book: s.book, Clock: date})
	if err != nil {
		tb.Fatal(err)
	}

	s.coordinator = c
	s.Stepped = leaseway.NewStepped(c, s.clock, opts...)
	s.rules(doc)

	return s
}

// rules puts a document in force.
func (s *stepped) rules(doc string) {
	s.tb.Helper()

	set, err := rule.Parse("rules.yaml", []byte(doc))
	if err != nil {
		s.tb.Fatal(err)
	}

	if _, err := s.book.Apply(set); err != nil {
		s.tb.Fatal(err)
	}

	if err := s.SetRules(s.book.Current()); err != nil {
		s.tb.Fatal(err)
	}
}

// after moves the time on by d, with everything that falls due on the way.
func (s *stepped) after(d time.Duration) {
	to := s.now + d.Microseconds()

	for at, ok := s.Next(); ok && at-1 <= to; at, ok = s.Next() {
		s.set(max(s.now, at-1))
		s.Advance(s.now + 1)
	}

	s.set(to)
}

func (s *stepped) set(now int64) {
	s.now = now
	s.clock.Set(now + 1)
}

// allowed sends n requests and counts those that pass.
func (s *stepped) allowed(n int, req leaseway.Request) (passed int) {
	for range n {
		if s.Decide(s.tb.Context(), req).Allowed {
			passed++
		}
	}

	return passed
}
