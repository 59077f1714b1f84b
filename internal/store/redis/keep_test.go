package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/proctest"
	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/internal/store"
	"github.com/leaseway/leaseway/internal/store/redis/redistest"
)

// kinds are terms of every algorithm with a window of two seconds.
func kinds() []ledger.Terms {
	const window = 2_000_000

	bucket, _ := rate.NewBucket(1000, window, 1000)
	terms := func(a rate.Algorithm, length int64) ledger.Terms {
		return ledger.Terms{Algorithm: a, Bucket: bucket, Length: length, Version: 1, TTL: 500_000}
	}
	slots := terms(rate.Concurrency, 0)
	slots.Bucket = rate.Bucket{P: 1, Q: 1, Burst: 1000}

	return []ledger.Terms{
		terms(rate.TokenBucket, 0), terms(rate.LeakyBucket, 0), terms(rate.FixedWindow, window), terms(rate.SlidingWindow, window),
		terms(rate.SlidingLog, window), slots,
	}
}

// Every key has a time to live that fits what it says: no more than two windows and a lease, and never none.
func TestEveryKeyExpires(t *testing.T) {
	server := redistest.NewServer(t)
	s := openAt(t, []string{server.Address})

	beat(t, s, []uint64{1, 2}, time.Second)

	var ops []store.Op

	for a, terms := range kinds() {
		for i := range 100 {
			ask := ledger.Ask{Holder: 1, Seq: 1, Takes: []int64{900}}

			switch i % 3 {
			case 1:
				ask = ledger.Ask{Holder: 1, Seq: 1, RaiseTo: 700, Keep: true}
			case 2:
				ask = ledger.Ask{Holder: 1, Seq: 1, Ahead: true, RaiseTo: 100}
			}

			if ask.Slots = terms.Algorithm == rate.Concurrency; ask.Slots {
				ask.Ahead = false
				ask.RaiseTo = 7
			}

			ops = append(ops, store.Op{Key: store.Key{Rule: strconv.Itoa(a), Key: strconv.Itoa(i)}, Terms: terms, Ask: ask})
		}
	}

	for i, r := range applied(s, ops...) {
		if r.Err != nil {
			t.Fatalf("%+v: %v", ops[i], r.Err)
		}
	}

	names, err := s.client.Do(t.Context(), s.client.B().Keys().Pattern("*").Build()).AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}

	ledgers := 0

	for _, name := range names {
		ttl, err := s.client.Do(t.Context(), s.client.B().Pttl().Key(name).Build()).AsInt64()
		if err != nil || !strings.HasPrefix(name, DefaultPrefix) {
			t.Fatalf("%s: %v", name, err)
		}

		_, rest, _ := strings.Cut(name, "}")
		most := 2*2_000 + 550*time.Millisecond.Milliseconds()

		if rest == "" || rest == "id" { // marks, and whose data it is
			most = keepData.Milliseconds()
		} else {
			ledgers++
		}

		if ttl == -1 || ttl > most { // -1 is for ever; and one that is gone by now has -2
			t.Errorf("%s lives for %d ms more, want %d at most", name, ttl, most)
		}
	}

	if ledgers < 400 { // some share a group, and some keep nothing
		t.Errorf("there are %d keys of ledgers for %d of them", ledgers, len(ops))
	}

	// All of it ends by itself.
	deadline := time.After(proctest.Patience)

	for left := ledgers; left > 0; {
		select {
		case <-deadline:
			t.Fatalf("%d keys are left", left)
		case <-time.After(100 * time.Millisecond):
		}

		size, err := s.client.Do(t.Context(), s.client.B().Dbsize().Build()).AsInt64()
		if err != nil {
			t.Fatal(err)
		}

		left = int(size) - slotCount - 1
	}
}

// Whatever is asked, no key is left that would stay longer than what it says: two windows, or a bucket that is a
// capacity below empty, and a lease, which may live for 8 s.
func TestEveryKeyExpiresWhateverIsAsked(t *testing.T) {
	const most = 2*2_000 + 8_050 // ms

	server := redistest.NewServer(t)
	s := openAt(t, []string{server.Address})
	p := newPlayer(0)
	run, seen := uint64(0), 0

	beat(t, s, nil, 0)

	rapid.Check(t, func(r *rapid.T) {
		run++
		*p = *newPlayer(run)

		for range rapid.IntRange(1, 40).Draw(r, "ops") {
			terms := rapid.SampledFrom(kinds()).Draw(r, "terms")
			if rapid.IntRange(0, 5).Draw(r, "change") == 0 {
				p.version++
			}

			terms.Version = p.version
			op := p.op(r, terms)

			result := applied(s, op)[0]
			if result.Err != nil {
				r.Fatalf("%+v: %v", op, result.Err)
			}

			p.heard(op, result.Answer)
		}

		names, err := s.client.Do(context.Background(), s.client.B().Keys().Pattern("*}?*").Build()).AsStrSlice()
		if err != nil {
			r.Fatal(err)
		}

		for _, name := range names { // but for the marks
			if strings.HasSuffix(name, "}id") {
				continue
			}

			seen++

			ttl, err := s.client.Do(context.Background(), s.client.B().Pttl().Key(name).Build()).AsInt64()
			if err != nil || ttl == -1 || ttl > most {
				r.Errorf("%s lives for %d ms more, want %d at most (%v)", name, ttl, most, err)
			}
		}
	})

	if seen < 200 {
		t.Errorf("no more than %d keys were looked at", seen)
	}
}

// A group of clients that come once does not keep them for ever, nor terms that nobody has.
func TestGroupsAreSwept(t *testing.T) {
	now := int64(1_800_000_000_000_000)
	s := open(t, servers.Prefix(), func() int64 { return now })
	bucket, _ := rate.NewBucket(10, 1_000_000, 10)

	base := s.names.place(store.Key{Rule: "r"})

	beat(t, s, nil, 0) // which loads the functions

	most := int64(0)

	for i := range 300 {
		at := base
		at.name, at.held = fmt.Sprintf("%012d", i), fmt.Sprint(base.group, ".", i)
		now += 100_000 // a client counts for as long as ten others take to come

		op := store.Op{
			Terms: ledger.Terms{Bucket: bucket, Version: uint64(1 + i/100), TTL: 500_000},
			Ask:   ledger.Ask{Holder: 1, Seq: 1, Takes: []int64{10}},
		}

		if a, err := s.applyAt(t, &op, at, now); err != nil || a.Taken != 1 {
			t.Fatalf("%+v (%v)", a, err)
		}

		n, err := s.client.Do(t.Context(), s.client.B().Hlen().Key(base.group).Build()).AsInt64()
		if err != nil {
			t.Fatal(err)
		}

		most = max(most, n)
	}

	if most > 100 {
		t.Errorf("a group of which ten live had %d entries", most)
	}
}

// applyAt applies an op to a ledger at a place of the test's choice; at Redis's own time if now is 0.
func (s *Store) applyAt(t *testing.T, op *store.Op, at place, now int64) (ledger.Answer, error) {
	t.Helper()

	bytes := appendTerms(nil, &op.Terms)
	n := len(bytes)
	bytes = appendAsk(bytes, &op.Ask)

	call := s.client.B().Fcall().Function(s.library.op).Numkeys(3).Key(at.group, at.held, at.mark).
		Arg(at.name, string(bytes[:n]), string(bytes[n:]))
	if now != 0 {
		call = call.Arg(s.least, decimal(now))
	}

	answer, err := s.client.Do(t.Context(), call.Build()).AsBytes()
	if err != nil {
		return ledger.Answer{}, err
	}

	return readAnswer(answer, op, &s.lost)
}

// A node whose data is gone gives nobody a full bucket: what it had counts as
