package slots_test

import (
	"testing"

	"github.com/leaseway/leaseway/internal/slots"
)

// However often servers ask, N follows what they offer within a few seconds.
func TestTheLimitFollowsWhoeverAsksOften(t *testing.T) {
	t.Parallel()

	for _, every := range []int64{7, 100, 20_000} { // µs between two asks
		var s slots.State

		terms := slots.Terms{Share: 100, TTL: slots.TTL, Version: 1}
		seq := uint64(0)
		ask := func(now int64, holder uint64, offer int64) slots.Answer {
			seq++

			return s.Apply(now, terms, slots.Ask{Holder: holder, Seq: seq, Offer: offer})
		}

		ask(1, 1, 100)
		ask(2, 2, 100)

		if n := ask(10_000_000, 1, 100).N; n != 200 {
			t.Fatalf("two servers offer 100 each, and N is %d", n)
		}

		var n int64
		for now := int64(10_000_000); now < 40_000_000; now += every {
			n = ask(now, 1, 100).N
			if now%1_000_000 < every {
				ask(now, 2, 75)
			}
		}

		if n != 175 {
			t.Errorf("asked every %d µs, N is %d half a minute after the sum of offers fell from 200 to 175", every, n)
		}
	}
}

// A server that starts again under its name offers once: what it offered before it crashed is gone with its slots. One that stops
// says that it offers nothing any more, and N follows, though not at once.
func TestAServerOffersOnce(t *testing.T) {
	t.Parallel()

	var s slots.State

	terms := slots.Terms{Share: 100, TTL: slots.TTL, Version: 1}
	seq := uint64(0)
	ask := func(now int64, holder, name uint64, offer int64) int64 {
		seq++

		return s.Apply(now, terms, slots.Ask{Holder: holder, Name: name, Seq: seq, Offer: offer}).N
	}

	ask(1*second, 1, 1, 100)
	ask(1*second, 2, 2, 100)

	if n := ask(10*second, 1, 1, 100); n != 200 {
		t.Fatalf("two servers offer 100 each, and N is %d", n)
	}

	ask(10*second, 3, 2, 100) // the second one again

	if n := ask(11*second, 1, 1, 100); n != 200 {
		t.Errorf("one of them has started again, and N is %d", n)
	}

	ask(12*second, 3, 2, 0)

	if n := ask(13*second, 1, 1, 100); n <= 100 || n >= 200 {
		t.Errorf("a second after one of them has stopped N is %d, want it on its way from 200 to 100", n)
	}

	if n := ask(20*second, 1, 1, 100); n != 100 {
		t.Errorf("some seconds after one of them has stopped N is %d", n)
	}
}
