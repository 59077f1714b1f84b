package redis

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/internal/store"
	"github.com/leaseway/leaseway/internal/store/redis/redistest"
)

// What a bucket is asked while several have leases of it goes the short way: they are opened, renewed, given back and ended there, and
// those who have none take beside them. The long way gives the same answers, and only takes longer: so here it fails.
func TestLeasedBucketsGoTheShortWay(t *testing.T) {
	const theLongWay = "  local s, was = load(at, now, bytes)\n"

	body, err := libraryBody()
	if err != nil || strings.Count(body, theLongWay) != 1 {
		t.Fatalf("where is the long way? (%v)", err)
	}

	const now = 1_800_000_000_000_000

	cfg := Config{Addresses: []string{redistest.NewServer(t).Address}, Clock: func() int64 { return now }}
	open, short := openWith(t, cfg), openWith(t, cfg)
	short.library = libraryOf(strings.Replace(body, theLongWay, "  error('the long way')\n", 1))
	seq, twin := uint64(0), &ledger.State{}

	ask := func(s *Store, ask ledger.Ask) ledger.Answer {
		seq++
		ask.Seq = seq

		op := store.Op{Key: store.Key{Rule: "r", Key: "k"}, Terms: hourly(200), Ask: ask}

		result, want := applied(s, op)[0], twin.Apply(now, op.Terms, ask)
		if result.Err != nil || result.Answer != want {
			t.Fatalf("%+v:\n got %+v (%v)\nwant %+v", ask, result.Answer, result.Err, want)
		}

		return result.Answer
	}

	one := ask(open, ledger.Ask{Holder: 1, RaiseTo: 20, Keep: true}).Lease
	two := ask(short, ledger.Ask{Holder: 2, RaiseTo: 20, Keep: true}).Lease
	ask(short, ledger.Ask{Holder: 3, Takes: []int64{1, 2}})
	ask(short, ledger.Ask{Holder: 3, Takes: slices.Repeat([]int64{1}, ledger.MaxTakes)})
	ask(short, ledger.Ask{Holder: 3, Takes: []int64{190}})
	ask(short, ledger.Ask{Holder: 1, Lease: one, Spent: 20, RaiseTo: 70, Needs: []int64{1}, Keep: true})
	ask(short, ledger.Ask{Holder: 1, Lease: one, Spent: 21, RaiseTo: 70, Debt: 3, Keep: true})
	ask(short, ledger.Ask{Holder: 2, Lease: two, Spent: 1, RaiseTo: 5, Keep: true})
	ask(short, ledger.Ask{Holder: 2, Lease: two, Spent: 2, RaiseTo: 2})
}

// Of a budget that a crowd of holders share each is given what a plain ledger gives, in plenty and while they wait for their turns:
// of a bucket by either way, and of windows, which have only the long one.
func TestLikeLedgerOfACrowd(t *testing.T) {
	const theShortWay = "bytes and held(at, now, bytes)\n"

	body, err := libraryBody()
	if err != nil || strings.Count(body, theShortWay) != 1 {
		t.Fatalf("where is the short way? (%v)", err)
	}

	now := int64(1_800_000_000_000_000)
	s := openWith(t, Config{Addresses: []string{redistest.NewServer(t).Address}, Clock: func() int64 { return now }})
	usual, long := s.library, libraryOf(strings.Replace(body, theShortWay, "nil\n", 1))
	run := 0

	for _, c := range []struct {
		name      string
		algorithm rate.Algorithm
		library   *library
	}{
		{"buckets", rate.TokenBucket, usual},
		{"buckets the long way", rate.TokenBucket, long},
		{"fixed windows", rate.FixedWindow, usual},
		{"sliding windows", rate.SlidingWindow, usual},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.library = c.library

			rapid.Check(t, func(t *rapid.T) {
				run++

				playCrowd(t, crowd{algorithm: c.algorithm, key: store.Key{Rule: "r", Key: strconv.Itoa(run)}, now: &now}, s)

				now += 3_600_000_000 * 24
			})
		})
	}
}

// crowd is holders that share a key, at a time that they move.
type crowd struct {
	algorithm rate.Algorithm
	key       store.Key
	now       *int64
}

// terms draws terms of which holders lease much or little. A bucket may hold less than comes in a second.
func (c *crowd) terms(t *rapid.T, version uint64) ledger.Terms {
	limit := rapid.SampledFrom([]int64{1, 60, 100, 1_000, 1_000_000}).Draw(t, "limit")
	window := rapid.SampledFrom([]int64{1_000_000, 1_000_000, 60_000_000, 3_600_000_000}).Draw(t, "window")
	terms := ledger.Terms{Algorithm: c.algorithm, Version: version, TTL: rapid.SampledFrom([]int64{500_000, 500_000, 10_000_000}).Draw(t, "ttl")}

	if c.algorithm == rate.TokenBucket {
		terms.Bucket, _ = rate.NewBucket(limit, window, max(20, limit/rapid.SampledFrom([]int64{1, 1, 10}).Draw(t, "part")))
	} else {
		terms.Bucket, _ = rate.Average(limit, window, limit)
		terms.Length = window
	}

	return terms
}

// playCrowd has the crowd ask the store, and wants of each ask what a plain ledger says.
func playCrowd(t *rapid.T, c crowd, s *Store) {
	now, terms := c.now, c.terms(t, 1)
	known := make([]ledger.Answer, rapid.SampledFrom([]int{3, 50, 2, 20, 7}).Draw(t, "holders"))
	twins := twins{}
	comes := make([]int64, len(known))               // when each may ask again
	greedy := rapid.Bool().Draw(t, "greedy")         // all of them want as much as they can get
	turns := greedy && rapid.Bool().Draw(t, "turns") // and come when they were told to, or some time thereafter
	step := rapid.SampledFrom([]int64{100, 2_000, 20_000}).Draw(t, "µs between two")

	for seq := range len(known) * rapid.SampledFrom([]int{1, 8, 4}).Draw(t, "rounds") {
		*now += step

		if rapid.IntRange(0, 50).Draw(t, "change") == 0 {
			terms = c.terms(t, terms.Version+1)
		}

		i := (seq + rapid.IntRange(0, len(known)-1).Draw(t, "out of order")) % len(known)

		if turns {
			*now = max(*now, slices.Min(comes)) + rapid.SampledFrom([]int64{0, 0, 1, 5_000, 20_000}).Draw(t, "late")

			for comes[i] > *now {
				i = (i + 1) % len(known)
			}
		}

		last := &known[i]
		ask := ledger.Ask{
			Holder: math.MaxUint64 / uint64(i+1), Seq: uint64(seq + 1), Lease: last.Lease, Keep: rapid.IntRange(0, 3).Draw(t, "keep") > 0,
			Spent: last.Spent + rapid.Int64Range(0, max(0, last.Granted-last.Spent)).Draw(t, "spent"),
			Lag:   rapid.Int64Range(0, step).Draw(t, "lag"), LagFrac: rapid.SampledFrom([]int64{0, 1, terms.Bucket.Q - 1, terms.Bucket.Q}).Draw(t, "lagFrac"),
			Long: rapid.Bool().Draw(t, "long"),
		}
		long := terms.LongSize(int64(len(known)))
		ask.RaiseTo = ask.Spent + rapid.SampledFrom([]int64{0, 5, 20, 50, long, long + 1}).Draw(t, "more")

		if greedy {
			ask.Spent, ask.RaiseTo, ask.Keep = last.Granted, last.Granted+50, true
		}

		op := store.Op{Key: c.key, Terms: terms, Ask: ask}

		result, want := applied(s, op)[0], twins.apply(*now, &op)
		if result.Err != nil || result.Answer != want {
			t.Fatalf("%+v:\n got %+v (%v)\nwant %+v", ask, result.Answer, result.Err, want)
		}

		*last, comes[i] = want, *now+want.AskAgain+want.AskAgain*rapid.SampledFrom([]int64{0, 0, 0, 0, 1, 3, 5}).Draw(t, "tenths late")/10
	}
}

// A ledger is kept until the last of its leases has ended, whoever asked last, and then until what they had has come back.
func TestALeasedBucketLivesAsLongAsItsLeases(t *testing.T) {
	const usual, long = 600, 8_100 // ms, at most

	s := openAt(t, []string{redistest.NewServer(t).Address}) // at Redis's own time
	bucket, _ := rate.NewBucket(6_400_000, 1_000_000, 6_400_000)
	op := store.Op{Key: store.Key{Rule: "r", Key: "k"}, Terms: ledger.Terms{Bucket: bucket, Version: 1, TTL: 500_000}}
	leases := map[uint64]uint64{}

	for i, step := range []struct {
		ask  ledger.Ask
		most int64
	}{
		{ledger.Ask{Holder: 1, RaiseTo: 10, Keep: true}, usual},
		{ledger.Ask{Holder: 2, RaiseTo: 10, Keep: true}, usual},
		{ledger.Ask{Holder: 1, RaiseTo: 20, Keep: true, Long: true}, long},
		{ledger.Ask{Holder: 2, RaiseTo: 20, Keep: true}, long},
		{ledger.Ask{Holder: 3, Takes: []int64{1}}, long},
	} {
		op.Ask, op.Ask.Seq, op.Ask.Lease = step.ask, uint64(i+1), leases[step.ask.Holder]

		result := applied(s, op)[0]
		if result.Err != nil {
			t.Fatal(result.Err)
		}

		leases[op.Ask.Holder] = result.Answer.Lease

		left, err := s.client.Do(t.Context(), s.client.B().Pttl().Key(s.names.place(op.Key).held).Build()).AsInt64()
		if err != nil {
			t.Fatal(err)
		}

		if left > step.most || left < step.most/2 && step.most == long { // a machine may take its time
			t.Errorf("after ask %d it lives for %d ms, want %d", i+1, left, step.most)
		}
	}
}
