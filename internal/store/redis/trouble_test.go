package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/internal/store"
	"github.com/leaseway/leaseway/internal/store/redis/redistest"
)

// hourly are terms of so many tokens, of which at most one comes back in an hour: none while a test runs.
func hourly(burst int64) ledger.Terms {
	bucket, _ := rate.NewBucket(min(burst, 1_000), 3_600_000_000_000, burst) // in 1,000 hours

	return ledger.Terms{Bucket: bucket, Version: 1, TTL: 500_000}
}

// taker takes tokens, each by an ask of its own.
type taker struct {
	*testing.T

	store *Store
	mu    sync.Mutex
	last  uint64
}

func (q *taker) next() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()

	q.last++

	return q.last
}

// take takes one token of key under terms, and reports whether there was one.
func (q *taker) take(ctx context.Context, key string, terms ledger.Terms) (bool, error) {
	result := q.takes(ctx, terms, key)[0]

	return result.Answer.Taken == 1, result.Err
}

// takes is take of several keys, in one call.
func (q *taker) takes(ctx context.Context, terms ledger.Terms, keys ...string) []store.Result {
	ops, results := make([]store.Op, len(keys)), make([]store.Result, len(keys))
	seq := q.next()

	for i, key := range keys {
		ops[i] = store.Op{Key: store.Key{Rule: "r", Key: key}, Terms: terms, Ask: ledger.Ask{Holder: 1, Seq: seq, Takes: []int64{1}}}
	}

	q.store.Apply(ctx, ops, results)

	return results
}

// patiently takes one token: without a deadline a call has a second, which may pass on a machine that has other things to do.
func (q *taker) patiently(key string, terms ledger.Terms) (bool, error) {
	ctx, cancel := context.WithTimeout(q.Context(), time.Minute)
	defer cancel()

	return q.take(ctx, key, terms)
}

// beat notes who lives, with far more time than the second of a call without a deadline.
func beat(t *testing.T, s *Store, holders []uint64, ttl time.Duration) (live int64) {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	live, err := s.Beat(ctx, holders, ttl)
	if err != nil {
		t.Fatal(err)
	}

	return live
}

// drain takes n times, and returns how many tokens there were.
func (q *taker) drain(key string, terms ledger.Terms, n int) (got int) {
	q.Helper()

	for range n {
		ok, err := q.patiently(key, terms)
		if err != nil {
			q.Fatal(err)
		}

		if ok {
			got++
		}
	}

	return got
}

// Whatever bytes a key has, its ledger is in one slot, and no other key's, under every algorithm.
func TestKeysOfAnyBytes(t *testing.T) {
	s := open(t, servers.Prefix(), nil)
	keys := []string{"", "}", "{}", "{a}{b}", "x}y", "{", "{{", "\x00", "\xff{\xfe}", strings.Repeat("{k}", 1000)}

	for i := range 1000 {
		keys = append(keys, fmt.Sprint("u", i+1))
	}

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // so many ops take their time on a busy machine
	defer cancel()

	const year = 365 * 86_400_000_000 // µs: no window ends while this runs

	for _, algorithm := range []rate.Algorithm{
		rate.TokenBucket, rate.LeakyBucket, rate.FixedWindow, rate.SlidingWindow, rate.SlidingLog, rate.Concurrency,
	} {
		terms := hourly(3)
		terms.Algorithm = algorithm

		switch algorithm {
		case rate.FixedWindow, rate.SlidingWindow, rate.SlidingLog:
			terms.Length = year
		case rate.Concurrency:
			terms.Bucket = rate.Bucket{P: 1, Q: 1, Burst: 3}
		case rate.TokenBucket, rate.LeakyBucket:
		}

		for round := range uint64(4) { // all keys in one call
			ops, results := make([]store.Op, len(keys)), make([]store.Result, len(keys))
			for i, key := range keys {
				op := &ops[i]
				op.Key, op.Terms = store.Key{Rule: strconv.Itoa(int(algorithm)), Key: key}, terms
				op.Ask = ledger.Ask{Holder: 1, Seq: round + 1, Takes: []int64{1}}

				if algorithm == rate.Concurrency { // one more in flight each time
					op.Ask = ledger.Ask{Holder: 1, Seq: round + 1, Slots: true, Spent: int64(round), Needs: []int64{1}, RaiseTo: int64(round) + 1}
				}
			}

			s.Apply(ctx, ops, results)

			for i, r := range results {
				got := r.Answer.Taken == 1
				if algorithm == rate.Concurrency {
					got = r.Answer.Granted == int64(round)+1
				}

				if r.Err != nil || got != (round < 3) {
					t.Errorf("algorithm %d, take %d of %q: %v (%v), want 3 of 4", algorithm, round, keys[i], got, r.Err)
				}
			}
		}
	}

	if stats := s.Stats(); stats.Failures != 0 {
		t.Errorf("%d ops had no answer", stats.Failures)
	}
}

// Nodes that have forgotten the functions are told them once, whoever finds out, and nothing is lost.
func TestFunctionsAreForgotten(t *testing.T) {
	cluster := redistest.New(t)
	s := openAt(t, cluster.Addresses())

	q := &taker{T: t, store: s}

	if got := q.drain("k", hourly(100), 10); got != 10 {
		t.Fatalf("%d of 10", got)
	}

	before := s.Stats().Loads

	for _, master := range cluster.Masters {
		for _, command := range [][]string{{"FUNCTION", "FLUSH"}, {"SCRIPT", "FLUSH"}} {
			if err := master.Do(t.Context(), command...); err != nil {
				t.Fatal(err)
			}
		}
	}

	var wait sync.WaitGroup

	for i := range 20 {
		wait.Go(func() {
			for range 10 {
				if _, err := q.patiently(fmt.Sprint("k", i), hourly(100)); err != nil {
					t.Error(err)
				}
			}
		})
	}

	wait.Wait()

	if loads := s.Stats().Loads - before; loads < 1 || loads > 3 {
		t.Errorf("the functions were loaded %d times", loads)
	}

	if got := q.drain("k", hourly(100), 100); got != 90 {
		t.Errorf("%d more, want the 90 that were left", got)
	}
}

// A server that refuses or fails gives an error, never an answer, and no harm is left when it is well again.
func TestRefusalsAreErrors(t *testing.T) {
	const patience = 4 * time.Second // so much that a busy machine does not use up what is left to hear of a server that is silent

	for _, test := range []struct {
		name      string
		bad, good []string
		says      string
	}{
		{name: "out of memory", bad: []string{"CONFIG", "SET", "maxmemory", "1"}, good: []string{"CONFIG", "SET", "maxmemory", "0"}, says: "OOM"},
		{name: "a replica", bad: []string{"REPLICAOF", "127.0.0.1", "1"}, good: []string{"REPLICAOF", "NO", "ONE"}, says: "READONLY"},
		{
			name: "no replicas", bad: []string{"CONFIG", "SET", "min-replicas-to-write", "1"},
			good: []string{"CONFIG", "SET", "min-replicas-to-write", "0"}, says: "NOREPLICAS",
		},
		{name: "busy", bad: []string{"CLIENT", "PAUSE", "60000", "WRITE"}, good: []string{"CLIENT", "UNPAUSE"}, says: "deadline"},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := redistest.NewServer(t)
			s := openAt(t, []string{server.Address})

			q := &taker{T: t, store: s}

			q.drain("k", hourly(10), 5)

			if err := server.Do(t.Context(), test.bad...); err != nil {
				t.Fatal(err)
			}

			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()

			began := time.Now()

			ok, err := q.take(ctx, "new", hourly(10))
			if ok || err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("allowed %v, error %v, want one with %s", ok, err, test.says)
			}

			if took := time.Since(began); test.says == "deadline" && ctx.Err() != nil {
				t.Errorf("the answer took %v, so nobody can hear it", took)
			}

			if _, err := s.Beat(ctx, []uint64{1}, time.Second); err == nil {
				t.Error("a beat was taken")
			}

			if err := server.Do(t.Context(), test.good...); err != nil {
				t.Fatal(err)
			}

			if got := q.drain("k", hourly(10), 10); got != 5 {
				t.Errorf("%d more, want the 5 that were left", got)
			}
		})
	}
}

// However long a call may wait, and whatever is heard meanwhile of those before it, a silent node is asked by one at a time.
func TestASilentNodeIsAskedByOneCall(t *testing.T) {
	const patience, step = 4 * time.Second, 10 * time.Millisecond

	n := &node{}
	for range missesMost {
		n.heard(false, 0)
	}

	began := int64(time.Minute)
	if !n.admits(began, patience) {
		t.Fatal("it is never asked again")
	}

	for at := step; at <= patience; at += step {
		n.heard(false, began) // of a call that left earlier

		if n.admits(began+int64(at), patience) {
			t.Fatalf("it was asked again after %v, while the last call waits", at)
		}
	}

	if !n.admits(began+int64(patience+2*silentFor), patience) {
		t.Error("it is not asked again when the last call has come back")
	}
}

// One node that does not answer takes little time from keys of the others, and soon none: then nothing is asked of it
// but now and then. When it answers again it is asked as before.
func TestOneSlowNode(t *testing.T) {
	cluster := redistest.New(t)
	s := openAt(t, cluster.Addresses())

	const (
		keys     = 60
		slow     = 1               // the node
		deadline = 4 * time.Second // of which others are kept waiting for 600 ms
	)

	ops, results := make([]store.Op, keys), make([]store.Result, keys)
	for i := range ops {
		ops[i] = store.Op{Key: store.Key{Rule: "r", Key: strconv.Itoa(i)}, Terms: hourly(1000), Ask: ledger.Ask{Holder: 1, Takes: []int64{1}}}
	}

	var idle time.Duration // what calls took that did not ask the slow node

	// apply returns how many keys of the slow node and of the others had no answer, and whether it was asked at all.
	apply := func() (missing, others int, asked bool) {
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		defer cancel()

		for i := range ops {
			ops[i].Ask.Seq++
		}

		began := time.Now()
		s.Apply(ctx, ops, results)

		took := time.Since(began)
		if took > deadline/2 {
			t.Errorf("a call took %v of %v", took, deadline)
		}

		for i := range results {
			if results[i].Err == nil {
				continue
			}

			if _, master := s.names.slotOf(ops[i].Key); master != slow {
				others++
			} else {
				missing++

				asked = asked || !errors.Is(results[i].Err, errSilent)
			}
		}

		if !asked {
			idle += took
		}

		return missing, others, asked
	}

	if missing, others, _ := apply(); missing+others > 0 { // all connections are there
		t.Fatalf("%d and %d had no answer while all was well", missing, others)
	}

	if err := cluster.Masters[slow].Do(t.Context(), "CLIENT", "PAUSE", "60000", "WRITE"); err != nil {
		t.Fatal(err)
	}

	idle = 0
	of, calls, noticed := 0, 50, 0

	for i := range ops {
		if _, master := s.names.slotOf(ops[i].Key); master == slow {
			of++
		}
	}

	// The first say that it is silent. Of the rest some go out to ask whether it answers again, one each 50 to 150 ms.
	probes := -missesMost

	for range calls {
		missing, others, asked := apply()
		if asked {
			probes++
		}

		if noticed += others; missing != of {
			t.Errorf("%d of %d keys of the slow node had no answer", missing, of)
		}
	}

	// Some are under way before it is heard of the first, and then none leaves before silentFor/2 are over.
	most := 5 + int(idle/(silentFor/2))
	t.Logf("%d of %d calls waited for a node that is known to be silent, of %d that may in %v", probes, calls, most, idle)

	if probes < 0 || probes > most {
		t.Errorf("%d of %d calls waited for a node that is known to be silent, want %d at most in %v", probes, calls, most, idle)
	}

	if noticed > calls*(keys-of)/50 { // on a machine that has other things to do
		t.Errorf("of %d asks to the other nodes %d had no answer", calls*(keys-of), noticed)
	}

	if err := cluster.Masters[slow].Do(t.Context(), "CLIENT", "UNPAUSE"); err != nil {
		t.Fatal(err)
	}

	until(t, "it is asked again", func() bool {
		missing, others, _ := apply()

		return missing+others == 0
	})
}
