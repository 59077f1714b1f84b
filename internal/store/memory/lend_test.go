package memory

import (
	"context"
	"strconv"
	"testing"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/internal/store"
)

// debtor has buckets of a store until they are recalled; meanwhile so many tokens of each are spent.
type debtor struct {
	store    *Store
	has      map[store.Key]ledger.Lent
	began    ledger.Lent // the last one
	spent    int64
	recalled int
}

func (d *debtor) Begin(ruleID, key string, lent *ledger.Lent) {
	d.began = *lent
	d.has[store.Key{Rule: ruleID, Key: key}] = *lent
}

func (d *debtor) Recall(ruleID, key string) (back ledger.Lent, ok bool) {
	k := store.Key{Rule: ruleID, Key: key}
	if back, ok = d.has[k]; ok {
		d.recalled++
		back.TAT = back.Terms.Bucket.Add(back.TAT, d.spent)
		delete(d.has, k)
	}

	return back, ok
}

func (d *debtor) ReturnAll() {
	for key := range d.has {
		d.store.Return(key, d)
	}
}

func hourly(burst int64) ledger.Terms {
	bucket, _ := rate.NewBucket(burst, 3_600_000_000, burst)

	return ledger.Terms{Bucket: bucket, Version: 1, TTL: 500_000}
}

// lendingStore is a store whose time stands still, and a bucket of ten that one borrower has.
func lendingStore(t *testing.T, cfg Config) (s *Store, key store.Key, d *debtor) {
	t.Helper()

	cfg.Clock = func() int64 { return 1_000_000_000 }

	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}

	key = store.Key{Rule: "r", Key: "k"}

	return s, key, borrow(t, s, key, 3)
}

// borrow returns one that has borrowed a bucket of ten.
func borrow(t *testing.T, s *Store, key store.Key, spent int64) *debtor {
	t.Helper()

	d := &debtor{store: s, has: map[store.Key]ledger.Lent{}, spent: spent}
	if !s.Lend(&store.Loan{Key: key, Terms: hourly(10), MostQ: 1}, d) {
		t.Fatal("it is not lent")
	}

	return d
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

	for name, want := range map[string]func(t *testing.T, s *Store, key store.Key, d *debtor) *Store{
		"an op": func(*testing.T, *Store, store.Key, *debtor) *Store { return nil },
		"its return": func(t *testing.T, s *Store, key store.Key, d *debtor) *Store {
			t.Helper()
			s.Return(key, &debtor{}) // of another one that has nothing
			s.Return(key, borrow(t, s, store.Key{Rule: "r", Key: "other"}, 1))
			s.Return(key, d)

			return nil
		},
		"another borrower": func(t *testing.T, s *Store, key store.Key, d *debtor) *Store {
			t.Helper()

			next := borrow(t, s, key, 0)

			if d.recalled != 1 || next.began.TAT != d.began.Terms.Bucket.Add(d.began.TAT, 3) || next.began.Full || !d.began.Full {
				t.Errorf("recalled %d times, and lent on as %+v", d.recalled, next.began)
			}

			return nil
		},
		"a copy": func(t *testing.T, s *Store, _ store.Key, _ *debtor) *Store {
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

			s, key, d := lendingStore(t, Config{})

			if other := want(t, s, key, d); other != nil {
				s = other
			}

			if got := left(t, s, key); got != 7 || d.recalled != 1 {
				t.Errorf("%d left, recalled %d times; want 7, once", got, d.recalled)
			}
		})
	}
}

// A stop takes back what is lent, and the next start has it.
func TestALentLedgerIsInTheSnapshot(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	s, key, d := lendingStore(t, Config{Dir: dir})

	if err := s.Close(t.Context()); err != nil || d.recalled != 1 {
		t.Fatal(err, d.recalled)
	}

	if s.Lend(&store.Loan{Key: key, Terms: hourly(10), MostQ: 1}, d) {
		t.Error("a closed store lends")
	}

	s.Return(key, d)

	next, err := New(Config{Dir: dir, Clock: func() int64 { return 1_000_000_000 }})
	if err != nil {
		t.Fatal(err)
	}

	defer next.Close(context.Background())

	if got := left(t, next, key); got != 7 {
		t.Errorf("%d left after a restart, want 7", got)
	}
}

// What is lent needs no room in a store that is full, nor does what comes back as nobody spent of it.
func TestALentLedgerNeedsNoRoom(t *testing.T) {
	t.Parallel()

	s, key, d := lendingStore(t, Config{MaxKeys: 2})
	other, third := store.Key{Rule: "r", Key: "full"}, store.Key{Rule: "r", Key: "third"}
	unspent, spent := borrow(t, s, other, 0), borrow(t, s, third, 9)

	if got := s.Stats().Keys; got != 3 {
		t.Errorf("%d keys, want the three that are lent", got)
	}

	s.Return(key, d)
	s.Return(third, spent)
	s.Return(other, unspent)

	if got := s.Stats(); got.Keys != 2 || got.Evicted != 0 {
		t.Errorf("%d keys, and %d evicted; want the two that were spent of", got.Keys, got.Evicted)
	}

	if got := left(t, s, key); got != 7 {
		t.Errorf("%d left, want 7", got)
	}
}

// Borrowers that have nothing any more are forgotten.
func TestBorrowersAreForgotten(t *testing.T) {
	t.Parallel()

	s, key, d := lendingStore(t, Config{})

	for range 100 {
		s.Return(key, d)

		d = borrow(t, s, key, 1)
	}

	if got := len(s.borrowers.all()); got != 1 {
		t.Errorf("%d borrowers, want the last one", got)
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
		if s.Lend(&loan, &debtor{}) {
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
		key := store.Key{Rule: "r", Key: strconv.Itoa(i)}
		s.Return(key, borrow(t, s, key, 1))

		now += 360_000_000 / keys // a token comes back in the time of so many keys
	}

	if got := s.Stats().Keys; got > 3*keys {
		t.Errorf("%d ledgers are kept, of which %d are not full", got, keys)
	}
}
