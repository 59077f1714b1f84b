package memory

import (
	"context"
	"strconv"
	"testing"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/internal/store"
)

// borrower has a bucket until it is recalled; meanwhile spent tokens of it are spent.
type borrower struct {
	lent     ledger.Lent
	spent    int64
	recalled int
}

func (b *borrower) Recall() rate.Time {
	b.recalled++

	return b.lent.Terms.Bucket.Add(b.lent.TAT, b.spent)
}

func hourly(burst int64) ledger.Terms {
	bucket, _ := rate.NewBucket(burst, 3_600_000_000, burst)

	return ledger.Terms{Bucket: bucket, Version: 1, TTL: 500_000}
}

// lending is a store whose time stands still, and a bucket of ten that one borrower has.
func lendingStore(t *testing.T, cfg Config) (s *Store, key store.Key, b *borrower) {
	t.Helper()

	cfg.Clock = func() int64 { return 1_000_000_000 }

	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}

	key, b = store.Key{Rule: "r", Key: "k"}, &borrower{spent: 3}
	borrow(t, s, key, b)

	return s, key, b
}

func borrow(t *testing.T, s *Store, key store.Key, b *borrower) {
	t.Helper()

	var ok bool
	if b.lent, ok = s.Lend(&store.Loan{Key: key, Terms: hourly(10), MostQ: 1}, b); !ok {
		t.Fatal("it is not lent")
	}
}

// left asks for a token that nobody has, and returns what the answer says is left.
func left(t *testing.T, s *Store, key store.Key) int64 {
	t.Helper()

	var results [1]store.Result

	s.Apply(t.Context(), []store.Op{{Key: key, Terms: hourly(10), Ask: ledger.Ask{Holder: 9, Seq: 1}}}, results[:])

	if results[0].Err != nil {
		t.Fatal(results[0].Err)
	}

	b := hourly(10).Bucket

	return b.Avail(0, results[0].Answer.Level)
}

// Whatever wants a ledger that is lent takes it back first, with what was spent meanwhile.
func TestALentLedgerIsTakenBack(t *testing.T) {
	t.Parallel()

	for name, want := range map[string]func(t *testing.T, s *Store, key store.Key, b *borrower) *Store{
		"an op": func(*testing.T, *Store, store.Key, *borrower) *Store { return nil },
		"its return": func(_ *testing.T, s *Store, key store.Key, b *borrower) *Store {
			s.Return(key, &borrower{}) // another's is none
			s.Return(key, b)

			return nil
		},
		"another borrower": func(t *testing.T, s *Store, key store.Key, b *borrower) *Store {
			t.Helper()

			next := &borrower{}
			borrow(t, s, key, next)

			if b.recalled != 1 || next.lent.TAT != b.lent.Terms.Bucket.Add(b.lent.TAT, 3) || next.lent.Full || !b.lent.Full {
				t.Errorf("recalled %d times, and lent on as %+v", b.recalled, next.lent)
			}

			return nil
		},
		"a copy": func(t *testing.T, s *Store, _ store.Key, _ *borrower) *Store {
			t.Helper()

			c, err := s.Copy(context.Background(), Config{Clock: func() int64 { return 1_000_000_000 }})
			if err != nil {
				t.Fatal(err)
			}

			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s, key, b := lendingStore(t, Config{})

			if other := want(t, s, key, b); other != nil {
				s = other
			}

			if got := left(t, s, key); got != 7 || b.recalled != 1 {
				t.Errorf("%d left, recalled %d times; want 7, once", got, b.recalled)
			}

			if s.shards[0].lent.len() != 0 {
				t.Errorf("%d ledgers are lent", s.shards[0].lent.len())
			}
		})
	}
}

// A stop takes back what is lent, and the next start has it.
func TestALentLedgerIsInTheSnapshot(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	s, key, b := lendingStore(t, Config{Dir: dir})

	if err := s.Close(t.Context()); err != nil || b.recalled != 1 {
		t.Fatal(err, b.recalled)
	}

	if _, ok := s.Lend(&store.Loan{Key: key, Terms: hourly(10), MostQ: 1}, b); ok {
		t.Error("a closed store lends")
	}

	s.Return(key, b)

	next, err := New(Config{Dir: dir, Clock: func() int64 { return 1_000_000_000 }})
	if err != nil {
		t.Fatal(err)
	}

	defer next.Close(context.Background())

	if got := left(t, next, key); got != 7 {
		t.Errorf("%d left after a restart, want 7", got)
	}
}

// A store that is full takes back what is lent before it judges what to forget, and one that nobody spent of goes first.
func TestALentLedgerMakesRoom(t *testing.T) {
	t.Parallel()

	s, key, b := lendingStore(t, Config{MaxKeys: 2})
	full, other := &borrower{}, store.Key{Rule: "r", Key: "full"}
	borrow(t, s, other, full)
	borrow(t, s, store.Key{Rule: "r", Key: "third"}, &borrower{spent: 9})

	if full.recalled != 1 {
		t.Errorf("the one that nobody spent of was recalled %d times", full.recalled)
	}

	if got := left(t, s, key); got != 7 {
		t.Errorf("%d left of the one that was spent of, want 7 (recalled %d times)", got, b.recalled)
	}
}

// What is not a bucket, what somebody has a lease of, and what a borrower cannot count with is not lent.
func TestWhatIsNotLent(t *testing.T) {
	t.Parallel()

	s, err := New(Config{Clock: func() int64 { return 1_000_000_000 }})
	if err != nil {
		t.Fatal(err)
	}

	window, fine, older := hourly(10), hourly(10), hourly(10)
	window.Algorithm, window.Length = rate.FixedWindow, 3_600_000_000
	fine.Bucket, _ = rate.NewBucket(7, 1_000_000, 7)
	older.Version = 0

	leased := store.Key{Rule: "r", Key: "leased"}

	var results [1]store.Result

	s.Apply(t.Context(), []store.Op{{Key: leased, Terms: hourly(10), Ask: ledger.Ask{Holder: 9, Seq: 1, RaiseTo: 5}}}, results[:])

	for name, loan := range map[string]store.Loan{
		"a window":            {Key: store.Key{Key: "w"}, Terms: window, MostQ: 1},
		"leased":              {Key: leased, Terms: hourly(10), MostQ: 1},
		"older terms":         {Key: leased, Terms: older, MostQ: 1},
		"too fine":            {Key: store.Key{Key: "f"}, Terms: fine, MostQ: 6},
		"of impossible terms": {Key: store.Key{Key: "i"}, MostQ: 1},
	} {
		if _, ok := s.Lend(&loan, &borrower{}); ok {
			t.Errorf("%s: it is lent", name)
		}
	}

	if n := s.Stats().Keys; n != 1 {
		t.Errorf("%d ledgers are kept, want the one that is leased", n)
	}
}

// Keys that were only ever lent are forgotten once they are full again, though nobody ever sends an op.
func TestLentLedgersAreSweptWithoutOps(t *testing.T) {
	t.Parallel()

	now := int64(1_000_000_000)

	s, err := New(Config{Clock: func() int64 { return now }})
	if err != nil {
		t.Fatal(err)
	}

	const keys = 20_000

	for i := range 10 * keys {
		key, b := store.Key{Rule: "r", Key: strconv.Itoa(i)}, &borrower{spent: 1}
		borrow(t, s, key, b)
		s.Return(key, b)

		now += 360_000_000 / keys // a token comes back in the time of so many keys
	}

	if got := s.Stats().Keys; got > 3*keys {
		t.Errorf("%d ledgers are kept, of which %d are not full", got, keys)
	}
}
