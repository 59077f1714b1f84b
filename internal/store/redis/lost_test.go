package redis

import (
	"testing"
	"time"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/store"
	"github.com/leaseway/leaseway/internal/store/redis/redistest"
)

// What a failover lost is counted once it shows, and all is charged that a holder says it spent.
func TestLostWritesAreCounted(t *testing.T) {
	server := redistest.NewServer(t)
	s := openAt(t, []string{server.Address})
	key := store.Key{Rule: "r", Key: "k"}
	at := s.names.place(key)
	seq := uint64(0)

	ask := func(a ledger.Ask) ledger.Answer {
		t.Helper()

		seq++
		a.Holder, a.Seq, a.Keep = 7, seq, true

		terms := hourly(100)
		terms.TTL = 60_000_000

		result := applied(s, store.Op{Key: key, Terms: terms, Ask: a})[0]
		if result.Err != nil {
			t.Fatal(result.Err)
		}

		return result.Answer
	}
	expect := func(slots, leases, tokens int64) {
		t.Helper()

		if got := s.Stats(); got.LostSlots != slots || got.LostLeases != leases || got.LostTokens != tokens {
			t.Errorf("%d slots, %d leases and %d tokens are counted as lost, want %d, %d and %d",
				got.LostSlots, got.LostLeases, got.LostTokens, slots, leases, tokens)
		}
	}

	first := ask(ledger.Ask{RaiseTo: 10})

	behind, err := s.client.Do(t.Context(), s.client.B().Get().Key(at.held).Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}

	more := ask(ledger.Ask{Lease: first.Lease, RaiseTo: 50})
	if more.Granted != 50 {
		t.Fatalf("%d of 50 were granted", more.Granted)
	}

	expect(0, 0, 0)

	// A replica takes over that had heard of the first grant only.
	if err := server.Do(t.Context(), "SET", at.held, behind, "PX", "60000"); err != nil {
		t.Fatal(err)
	}

	if a := ask(ledger.Ask{Lease: first.Lease, Spent: 45, RaiseTo: 45}); a.Granted != 45 || a.Level.Micros < 45*36_000_000_000-60_000_000 {
		t.Errorf("after 45 were spent: %+v", a)
	}

	expect(0, 0, 35)

	// One that had heard of none.
	if err := server.Do(t.Context(), "DEL", at.held, at.group); err != nil {
		t.Fatal(err)
	}

	ask(ledger.Ask{Lease: first.Lease, Spent: 45, RaiseTo: 60})
	expect(0, 1, 35)

	// And one that lost its data, which the mark shows.
	if err := server.Do(t.Context(), "DEL", at.held, at.group, at.mark); err != nil {
		t.Fatal(err)
	}

	ask(ledger.Ask{})
	expect(1, 1, 35)
}

// Once one slot is found to have lost its data, all are marked, so that a client that comes long after does not begin with nothing.
func TestALossIsOfTheTimeAtWhichItWasFoundAnywhere(t *testing.T) {
	server := redistest.NewServer(t)
	s := openAt(t, []string{server.Address})
	reader := openReader(t, Config{Addresses: []string{server.Address}})
	q := &taker{T: t, store: s}

	data := func() Data {
		t.Helper()

		beat(t, s, []uint64{1}, time.Minute)

		survey, err := reader.Survey(t.Context())
		if err != nil || survey.Data.Err != nil {
			t.Fatalf("%+v, %v", survey, err)
		}

		return survey.Data
	}

	if d := data(); d.Missing != 0 || d.Lost != 0 {
		t.Fatalf("at the beginning %d marks are missing, and %d tell of a loss", d.Missing, d.Lost)
	}

	if err := server.Do(t.Context(), "FLUSHALL"); err != nil {
		t.Fatal(err)
	}

	if got := q.drain("a", hourly(10), 10); got != 0 {
		t.Errorf("%d were left after the loss", got)
	}

	before := data()
	if before.Missing != 0 || before.Lost != before.Marks || before.LastLoss == 0 {
		t.Errorf("%d of %d marks are missing, and %d tell of a loss", before.Missing, before.Marks, before.Lost)
	}

	if got := q.drain("another", hourly(10), 10); got != 0 {
		t.Errorf("%d were left of a key that nobody had asked for", got)
	}

	if again := data(); again.LastLoss != before.LastLoss {
		t.Errorf("the loss was at %d, and now at %d", before.LastLoss, again.LastLoss)
	}
}
