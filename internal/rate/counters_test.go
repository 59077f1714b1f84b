package rate_test

import (
	"testing"

	"github.com/leaseway/leaseway/internal/rate"
)

// counter is one key under one algorithm, driven as a store drives it.
type counter interface {
	left(now int64) int64    // tokens that could be taken now
	wait(now, n int64) int64 // µs until n could be; -1 for never
	add(now, n int64)        // n tokens are taken
}

// take adds n tokens, whole or not at all.
func take(c counter, now, n int64) bool {
	ok := n <= c.left(now)
	if ok {
		c.add(now, n)
	}

	return ok
}

// admits returns how many of count requests of cost 1 at one instant pass.
func admits(c counter, now, count int64) (ok int64) {
	for range count {
		if take(c, now, 1) {
			ok++
		}
	}

	return ok
}

// follow checks every row of a timeline.
func follow(t *testing.T, c counter, steps []step) {
	t.Helper()

	for i, s := range steps {
		ok := take(c, s.t, s.n)
		if left := c.left(s.t); ok != s.ok || left != s.left {
			t.Fatalf("step %d at %d µs: allowed %v, left %d; want %v, %d", i, s.t, ok, left, s.ok, s.left)
		}

		if wait := c.wait(s.t, s.n); !ok && wait != s.wait {
			t.Fatalf("step %d at %d µs: wait %d µs, want %d", i, s.t, wait, s.wait)
		}
	}
}

// fixed is a fixed window; its edges come from span.
type fixed struct {
	limit int64
	span  func(now int64) rate.Span
	w     rate.Window
}

// aligned is a fixed window that is aligned to the epoch.
func aligned(limit, length int64) *fixed {
	return &fixed{limit: limit, span: func(now int64) rate.Span { return rate.Aligned(now, length) }}
}

// days is a fixed window between edges that were worked out by hand.
func days(limit int64, edges ...int64) *fixed {
	return &fixed{limit: limit, span: func(now int64) rate.Span {
		for i := range edges[1:] {
			if now < edges[i+1] {
				return rate.Span{Start: edges[i], End: edges[i+1]}
			}
		}

		panic("the timeline runs past its last edge")
	}}
}

func (f *fixed) left(now int64) int64 {
	f.w = f.w.Roll(f.span(now))

	return max(0, f.limit-f.w.Used)
}

func (f *fixed) wait(now, n int64) int64 {
	switch {
	case n > f.limit:
		return -1
	case n <= f.left(now):
		return 0
	default:
		return f.span(now).End - now
	}
}

func (f *fixed) add(now, n int64) {
	f.w = f.w.Roll(f.span(now))
	f.w.Used += n
}

// sliding is a sliding window counter.
type sliding struct {
	rate.Sliding

	w rate.Window
}

func slide(limit, length int64) *sliding {
	return &sliding{Sliding: rate.Sliding{Limit: limit, Length: length}}
}

// at returns the window at now, and the µs that have gone of it.
func (s *sliding) at(now int64) (w rate.Window, elapsed int64) {
	span := rate.Aligned(now, s.Length)
	s.w = s.w.Roll(span)

	return s.w, now - span.Start
}

func (s *sliding) left(now int64) int64    { return s.Avail(s.at(now)) }
func (s *sliding) wait(now, n int64) int64 { w, elapsed := s.at(now); return s.Wait(w, elapsed, n) }
func (s *sliding) add(now, n int64)        { s.at(now); s.w.Used += n }
func (s *sliding) clear(now int64) int64   { return s.Clear(s.at(now)) }

// logged is a sliding log.
type logged struct {
	rate.Log

	entries []rate.Admission
}

func logOf(limit, length int64) *logged {
	return &logged{Log: rate.Log{Limit: limit, Length: length}}
}

func (l *logged) left(now int64) int64 {
	l.entries = l.Prune(l.entries, now)

	return max(0, l.Limit-l.Used(l.entries))
}

func (l *logged) wait(now, n int64) int64 {
	l.entries = l.Prune(l.entries, now)

	return l.Wait(l.entries, now, n)
}

func (l *logged) add(now, n int64) { l.entries = l.Add(l.Prune(l.entries, now), now, n) }

// bucketed is a token bucket, or a leaky one, which counts the same.
type bucketed struct {
	rate.Bucket

	tat rate.Time
}

func bucketOf(t interface {
	Helper()
	Fatal(args ...any)
}, limit, window, burst int64) *bucketed {
	t.Helper()

	b, err := rate.NewBucket(limit, window, burst)
	if err != nil {
		t.Fatal(err)
	}

	return &bucketed{Bucket: b}
}

func (b *bucketed) left(now int64) int64    { return b.Avail(now, b.tat) }
func (b *bucketed) wait(now, n int64) int64 { return b.Wait(now, b.tat, n) }
func (b *bucketed) add(now, n int64)        { b.tat = b.Add(b.tat.Max(rate.At(now)), n) }

// delay returns the µs, rounded up, that a request of a leaky bucket is held before it passes.
func (b *bucketed) delay(now int64) int64 {
	at := b.tat.Micros
	if b.tat.Frac > 0 {
		at++
	}

	return max(0, at-now)
}
