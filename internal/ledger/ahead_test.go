package ledger

import (
	"testing"

	"github.com/leaseway/leaseway/internal/rate"
)

// windowed returns the terms of a fixed window of 100 tokens a second.
func windowed(tb testing.TB) Terms {
	tb.Helper()

	bucket, err := rate.NewBucket(100, 1_000_000, 100)
	if err != nil {
		tb.Fatal(err)
	}

	return Terms{Algorithm: rate.FixedWindow, Bucket: bucket, Length: 1_000_000, Version: 1, TTL: 500_000}
}

// Those who hold a lease of this window get the same of the next one, whoever asks first.
func TestTheNextWindowIsSharedAlike(t *testing.T) {
	t.Parallel()

	s, terms := &State{}, windowed(t)
	for holder := uint64(1); holder <= 4; holder++ {
		s.Apply(600_000, terms, Ask{Holder: holder, Seq: 1, RaiseTo: 10})
	}

	for holder := uint64(1); holder <= 4; holder++ {
		a := s.Apply(900_000, terms, Ask{Holder: holder, Seq: 2, Ahead: true, RaiseTo: 50})
		if a.Granted != 20 {
			t.Errorf("holder %d gets %d of the next window, not its quarter of 80", holder, a.Granted)
		}
	}
}

// Who leaves gives the next window's lease back, before that has begun or after.
// What it gives back late was never asked for again: another ask opens another lease.
func TestTheNextWindowIsGivenBack(t *testing.T) {
	t.Parallel()

	s, terms := &State{}, windowed(t)
	ask := func(now int64, ask Ask) Answer {
		ask.Holder = 1

		return s.Apply(now, terms, ask)
	}
	used := func(step string, ahead, now int64) {
		t.Helper()

		if s.Ahead.Used != ahead || s.Window.Used != now {
			t.Errorf("%s: %d of the next window are used and %d of this one, not %d and %d", step, s.Ahead.Used, s.Window.Used, ahead, now)
		}
	}

	first := ask(900_000, Ask{Seq: 1, Ahead: true, RaiseTo: 30})
	used("asked ahead", 30, 0)

	if doubled := ask(900_000, Ask{Seq: 1, Ahead: true, RaiseTo: 30}); doubled.Lease != first.Lease || doubled.Granted != 30 {
		t.Errorf("the same ask hears of another lease: %+v", doubled)
	}

	late := Ask{Seq: 2, Lease: first.Lease}
	again := ask(900_000, Ask{Seq: 3, Ahead: true, RaiseTo: 30})
	used("asked again: the first is taken as spent", 60, 0)
	ask(901_000, late)
	used("a late return", 60, 0)

	if again.Lease == first.Lease {
		t.Errorf("a lease that its holder may have used is given again: %+v", again)
	}

	ask(902_000, Ask{Seq: 4, Lease: again.Lease})
	used("given back before it begins", 30, 0)

	if len(s.Leases)+len(s.Ahead.Leases) != 0 {
		t.Errorf("something is left of it: %+v", s)
	}

	next := ask(990_000, Ask{Seq: 5, Ahead: true, RaiseTo: 30})
	s.Expire(1_000_000)
	used("its window begins", 0, 60)
	ask(1_000_000, late)
	used("the late return again", 0, 60)
	ask(1_000_000, Ask{Seq: 6, Lease: next.Lease})
	used("given back when it has begun", 0, 30)
}
