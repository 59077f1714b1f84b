package redis

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/internal/slots"
	"github.com/leaseway/leaseway/internal/store"
	"github.com/leaseway/leaseway/internal/store/redis/redistest"
)

func openReader(tb testing.TB, cfg Config) *Reader {
	tb.Helper()

	r, err := NewReader(tb.Context(), cfg)
	if err != nil {
		tb.Fatal(err)
	}

	tb.Cleanup(r.Close)

	return r
}

// shown is what of a ledger a reader must see.
type shown struct {
	tat    rate.Time
	window rate.Window
	log    []rate.Admission
	now    int64
	terms  ledger.Terms
	leases []ledger.Lease
	old    []ledger.Lease
	ahead  ledger.Ahead
	slots  slots.State
}

// show sorts what has no order, and takes no list for an empty one.
func show(s *ledger.State) shown {
	byHolder := func(list []ledger.Lease) []ledger.Lease {
		list = slices.Clone(list)
		slices.SortFunc(list, func(a, b ledger.Lease) int { return int(a.Holder) - int(b.Holder) })

		return append([]ledger.Lease{}, list...)
	}

	v := shown{
		tat: s.TAT, window: s.Window, log: append([]rate.Admission{}, s.Log...), now: s.Now, terms: s.Terms,
		leases: byHolder(s.Leases), old: byHolder(s.Old), ahead: ledger.Ahead{Start: s.Ahead.Start, Used: s.Ahead.Used, Leases: byHolder(s.Ahead.Leases)},
		slots: slots.State{Closed: s.Slots.Closed, Sum: s.Slots.Sum, At: s.Slots.At, Holdings: append([]slots.Holding{}, s.Slots.Holdings...)},
	}
	slices.SortFunc(v.slots.Holdings, func(a, b slots.Holding) int { return int(a.Holder) - int(b.Holder) })

	if v.ahead.Used == 0 && len(v.ahead.Leases) == 0 {
		v.ahead.Start = 0 // all of it was given back: what is at rest says nothing of it
	}

	return v
}

// Whatever was asked of a ledger, a reader sees in Redis what a plain ledger has.
func TestReaderSeesLedgers(t *testing.T) {
	p, prefix := newPlayer(0), servers.Prefix()
	clock := func() int64 { return p.now }
	s := open(t, prefix, clock)
	r := openReader(t, Config{Addresses: servers.Shared(t).Addresses(), Prefix: prefix, Clock: clock})
	run, kept := uint64(0), map[string]int{}

	rapid.Check(t, func(t *rapid.T) {
		run++
		*p = *newPlayer(run)
		twins, asked := twins{}, map[store.Key]bool{}

		play(t, p, s, func(op store.Op) ledger.Answer {
			asked[op.Key] = true

			return twins.apply(p.now, &op)
		})

		for key := range asked {
			twin := twins[key]
			if twin == nil {
				twin = &ledger.State{}
			}

			found, err := r.Ledger(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}

			kept[found.Kept]++

			if got, want := show(&found.State), show(twin); !reflect.DeepEqual(got, want) {
				t.Fatalf("%v is kept as %q:\n got %+v\nwant %+v", key, found.Kept, got, want)
			}

			if (found.Kept != KeptNowhere) != (found.Lives > 0) {
				t.Fatalf("%v is kept as %q and lives for %d ms", key, found.Kept, found.Lives)
			}
		}
	})

	for _, how := range []string{KeptNowhere, KeptAtRest, KeptHeld} {
		if kept[how] == 0 {
			t.Errorf("no ledger was kept as %q, so nothing is known of how they are read", how)
		}
	}
}

// A reader changes nothing, and a Redis without data stays so.
func TestReaderBeginsNothing(t *testing.T) {
	server := redistest.NewServer(t)
	r := openReader(t, Config{Addresses: []string{server.Address}})

	found, err := r.Ledger(t.Context(), store.Key{Rule: "r", Key: "k"})
	if err != nil || found.Kept != KeptNowhere || found.Lost != 0 {
		t.Errorf("found %+v (%v)", found, err)
	}

	if size, err := server.Ask(t.Context(), "INFO", "keyspace"); err != nil || strings.Contains(size, "db0") {
		t.Errorf("there are keys now: %s (%v)", size, err)
	}
}

// After a loss a reader says when it was, and what cannot be read is an error.
func TestReaderSeesALoss(t *testing.T) {
	server := redistest.NewServer(t)
	s := openAt(t, []string{server.Address})
	r := openReader(t, Config{Addresses: []string{server.Address}})
	q := &taker{T: t, store: s}
	key := store.Key{Rule: "r", Key: "k"}

	q.drain("k", hourly(10), 3)

	if err := server.Do(t.Context(), "FLUSHALL"); err != nil {
		t.Fatal(err)
	}

	q.drain("k", hourly(10), 3)

	found, err := r.Ledger(t.Context(), key)
	if err != nil || found.Lost == 0 || found.Lost > found.Now || found.State.Avail() != 0 {
		t.Errorf("after a loss: %+v (%v)", found, err)
	}

	at := s.names.place(key)
	for _, bad := range []string{"x", "\x01", "\x02" + strings.Repeat("\x00", 300), "\x01" + strings.Repeat("\xff", 300)} {
		if err := server.Do(t.Context(), "SET", at.held, bad); err != nil {
			t.Fatal(err)
		}

		if _, err := r.Ledger(t.Context(), key); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

// Nothing that is kept, by whomever, makes a reader panic.
func FuzzReadHeld(f *testing.F) {
	f.Add("\x01")
	f.Add("\x01" + strings.Repeat("\x00", 200))
	f.Fuzz(func(t *testing.T, text string) {
		s, err := readHeld(text)
		if err == nil && len(s.Leases) > len(text) {
			t.Errorf("%d leases in %d bytes", len(s.Leases), len(text))
		}

		_, _ = readRest(text, s.Terms)
	})
}
