package plots

import "github.com/leaseway/leaseway/internal/rate"

// The names of the algorithms, in words; with _ for blanks, as rules write them.
const (
	tokenBucket   = "token bucket"
	fixedWindow   = "fixed window"
	slidingWindow = "sliding window"
	slidingLog    = "sliding log"
	leakyBucket   = "leaky bucket"
)

// algorithm opens counters under limit a minute; burst is for the buckets alone.
type algorithm struct {
	name  string
	style string // the class of its strokes and bars
	open  func(burst int64) counter
}

func algorithms() []algorithm {
	bucket := func(burst int64) rate.Bucket {
		// P and Q of one token a second need no error.
		return rate.Bucket{P: minute / limit, Q: 1, Burst: burst}
	}

	return []algorithm{
		{tokenBucket, "token", func(burst int64) counter { return &bucketed{Bucket: bucket(burst)} }},
		{fixedWindow, "fixed", func(int64) counter { return &fixed{} }},
		{slidingWindow, "sliding", func(int64) counter { return &sliding{Sliding: rate.Sliding{Limit: limit, Length: minute}} }},
		{slidingLog, "log", func(int64) counter { return &logged{Log: rate.Log{Limit: limit, Length: minute}} }},
		{leakyBucket, "leaky", func(burst int64) counter { return &bucketed{Bucket: bucket(burst), leaky: true} }},
	}
}

// counter is one key under one algorithm; times are µs.
type counter interface {
	left(now int64) int64  // tokens that could be taken now
	wait(now int64) int64  // until one more could be, 0 for now
	add(now int64)         // one token is taken
	delay(now int64) int64 // for how long the next request is held back once admitted
}

// bucketed is a token bucket or a leaky one: they admit the same, and the leaky one delays.
type bucketed struct {
	rate.Bucket

	tat   rate.Time
	leaky bool
}

func (b *bucketed) left(now int64) int64 { return b.Avail(now, b.tat) }
func (b *bucketed) wait(now int64) int64 { return b.Wait(now, b.tat, 1) }
func (b *bucketed) add(now int64)        { b.tat = b.Add(b.tat.Max(rate.At(now)), 1) }

func (b *bucketed) delay(now int64) int64 {
	if !b.leaky {
		return 0
	}

	return max(0, b.tat.Micros-now) // a token takes whole microseconds here
}

// atOnce is what all but the leaky bucket do.
type atOnce struct{}

func (atOnce) delay(int64) int64 { return 0 }

type fixed struct {
	atOnce

	w rate.Window
}

func (f *fixed) left(now int64) int64 {
	f.w = f.w.Roll(rate.Aligned(now, minute))

	return limit - f.w.Used
}

func (f *fixed) wait(now int64) int64 {
	if f.left(now) > 0 {
		return 0
	}

	return rate.Aligned(now, minute).End - now
}

func (f *fixed) add(now int64) {
	f.w = f.w.Roll(rate.Aligned(now, minute))
	f.w.Used++
}

type sliding struct {
	rate.Sliding
	atOnce

	w rate.Window
}

// at brings the window to now, and returns it and how much of it has gone.
func (s *sliding) at(now int64) (w rate.Window, elapsed int64) {
	span := rate.Aligned(now, s.Length)
	s.w = s.w.Roll(span)

	return s.w, now - span.Start
}

func (s *sliding) left(now int64) int64 { return s.Avail(s.at(now)) }
func (s *sliding) wait(now int64) int64 { w, elapsed := s.at(now); return s.Wait(w, elapsed, 1) }
func (s *sliding) add(now int64)        { s.at(now); s.w.Used++ }

type logged struct {
	rate.Log
	atOnce

	entries []rate.Admission
}

func (l *logged) prune(now int64) []rate.Admission {
	l.entries = l.Prune(l.entries, now)

	return l.entries
}

func (l *logged) left(now int64) int64 { return l.Limit - l.Used(l.prune(now)) }
func (l *logged) wait(now int64) int64 { return l.Wait(l.prune(now), now, 1) }
func (l *logged) add(now int64)        { l.entries = l.Add(l.prune(now), now, 1) }
