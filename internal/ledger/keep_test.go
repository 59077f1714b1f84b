package ledger_test

import (
	"testing"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
)

// The tokens that are there, and since when: with the rate they give the bucket's level at any later time.
func TestRefilled(t *testing.T) {
	t.Parallel()

	bucket, err := rate.NewBucket(3, 1_000_000, 10) // a token each 333,333.3 µs
	if err != nil {
		t.Fatal(err)
	}

	terms := ledger.Terms{Bucket: bucket, Version: 1, TTL: 500_000}
	window := ledger.Terms{Algorithm: rate.FixedWindow, Bucket: bucket, Length: 1_000_000, Version: 1}
	log := ledger.Terms{Algorithm: rate.SlidingLog, Bucket: bucket, Length: 1_000_000, Version: 1}

	for _, step := range []struct {
		name            string
		terms           ledger.Terms
		take, at, look  int64 // tokens at an instant, looked at later, µs
		avail, refilled int64
	}{
		{"just taken", terms, 4, 5_000_000, 5_000_000, 6, 5_000_000},
		{"before the next", terms, 4, 5_000_000, 5_333_333, 6, 5_000_000},
		{"the next has come", terms, 4, 5_000_000, 5_400_000, 7, 5_333_334},
		{"full again", terms, 4, 5_000_000, 9_000_000, 10, 6_333_334},
		{"emptied", terms, 10, 5_000_000, 5_100_000, 0, 5_000_000},
		{"a window", window, 4, 5_200_000, 5_900_000, 6, 5_000_000},
		{"the next window", window, 4, 5_200_000, 6_100_000, 10, 6_000_000},
		{"a log", log, 4, 5_200_000, 5_900_000, 6, 0},
	} {
		var s ledger.State

		if got := s.Apply(step.at, step.terms, ledger.Ask{Holder: 1, Seq: 1, Takes: []int64{step.take}}); got.Taken != 1 {
			t.Fatalf("%s: %d tokens were refused", step.name, step.take)
		}

		s.Expire(step.look)

		if avail, refilled := s.Avail(), s.Refilled(); avail != step.avail || refilled != step.refilled {
			t.Errorf("%s: %d since %d, want %d since %d", step.name, avail, refilled, step.avail, step.refilled)
		}
	}

	var none ledger.State
	if none.Refilled() != 0 {
		t.Errorf("nothing was refilled at %d", none.Refilled())
	}
}

// What was leased of the next window and then not heard of again counts as spent there, also when its holder has come back and gone:
// a ledger that says so is neither idle nor two numbers.
func TestWhatIsSpentAheadIsKept(t *testing.T) {
	t.Parallel()

	bucket, err := rate.NewBucket(10, 1_000_000, 10)
	if err != nil {
		t.Fatal(err)
	}

	terms := ledger.Terms{Algorithm: rate.FixedWindow, Bucket: bucket, Length: 1_000_000, Version: 1, TTL: 500_000}

	var s ledger.State

	first := s.Apply(5_800_000, terms, ledger.Ask{Holder: 1, Seq: 1, Ahead: true, RaiseTo: 8})
	again := s.Apply(5_810_000, terms, ledger.Ask{Holder: 1, Seq: 2, Ahead: true, RaiseTo: 8}) // it did not hear of those
	s.Apply(5_820_000, terms, ledger.Ask{Holder: 1, Seq: 3, Lease: again.Lease})               // and has no use for more
	s.Expire(5_830_000)

	if _, packs := s.Pack(); first.Granted == 0 || packs || s.Idle(5_830_000) {
		t.Errorf("%d of the next window are spent; idle: %v, two numbers: %v", first.Granted, s.Idle(5_830_000), packs)
	}

	s.Expire(6_100_000)

	if got := s.Avail(); got != 10-first.Granted {
		t.Errorf("%d are left in the next window, want %d less than 10", got, first.Granted)
	}

	s.Expire(7_100_000)

	if !s.Idle(7_100_000) {
		t.Error("when that window is over there is still something to keep")
	}
}
