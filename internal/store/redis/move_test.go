package redis

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/store"
	"github.com/leaseway/leaseway/internal/store/redis/redistest"
)

const (
	manyKeys = 50 // in a slot with 64 groups
	moves    = 20 // at random; each takes a fifth of a second
)

// slotOf returns the hash slot of a ledger's keys, and which of the three masters has it at first.
func (n *names) slotOf(key store.Key) (slot, master int) {
	tag := strings.Trim(strings.TrimPrefix(n.place(key).mark, n.prefix), "{}")
	slot = int(crc16(tag) % clusterSlots)

	return slot, slot * 3 / clusterSlots
}

// sameSlot returns keys of rule r that begin with prefix and are in one hash slot, any if want is negative, each in a
// group of its own: one that says nothing is forgotten when another of its group looks, which no twin knows.
func (n *names) sameSlot(prefix string, count, want int) (keys []string, slot int) {
	groups := map[string]bool{}

	for i := 0; len(keys) < count; i++ {
		key := store.Key{Rule: "r", Key: string(binary.AppendUvarint([]byte(prefix), uint64(i)))}
		at := n.place(key)

		if s, _ := n.slotOf(key); (want < 0 || s == want) && !groups[at.group] {
			keys, want = append(keys, key.Key), s
			groups[at.group] = true
		}
	}

	return keys, want
}

// A slot moves to another node, under load of many keys: each op is answered, and none is counted twice or forgotten.
func TestSlotMovesUnderLoad(t *testing.T) {
	cluster := redistest.New(t)
	s, other := openAt(t, cluster.Addresses()), openAt(t, cluster.Addresses()) // two coordinators
	keys, slot := s.names.sameSlot("k", manyKeys, -1)
	from := slot * 3 / clusterSlots

	var (
		work     sync.WaitGroup
		stop     = make(chan struct{})
		taken    [manyKeys]atomic.Int64
		answered atomic.Int64
		progress = make(chan struct{}, 1)
	)

	const burst = 100_000

	for w, st := range []*Store{s, other, s, other} {
		q := &taker{T: t, store: st, last: uint64(w) << 32}

		work.Go(func() {
			for i := w; ; i++ {
				select {
				case <-stop:
					return
				default:
				}

				// Half of the keys are new in the course of the move. A call has one to four of them.
				known := min(manyKeys, manyKeys/2+i/500)
				some := make([]string, 1+i%4)

				for k := range some {
					some[k] = keys[(i+k)%known]
				}

				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				results := q.takes(ctx, hourly(burst), some...)

				cancel()

				for k := range results {
					if results[k].Err != nil {
						t.Error(results[k].Err)

						return
					}

					taken[(i+k)%known].Add(int64(results[k].Answer.Taken))
				}

				answered.Add(1)

				select {
				case progress <- struct{}{}:
				default:
				}
			}
		})
	}

	some := func() { // are answered before the next step
		for to := answered.Load() + 200; answered.Load() < to && !t.Failed(); {
			<-progress
		}
	}

	some()

	for i := range 3 { // there, on, and back
		move := redistest.Move{From: cluster.Masters[(from+i)%3], To: cluster.Masters[(from+i+1)%3], During: some}
		if err := cluster.MoveSlot(t.Context(), slot, move); err != nil {
			t.Fatal(err)
		}
	}

	some()
	close(stop)
	work.Wait()

	t.Logf("%d answers, of them %d in the slot while it was on its way", answered.Load(), s.Stats().Again+other.Stats().Again)

	for k, key := range keys {
		if left, want := available(t, s, key, hourly(burst)), burst-taken[k].Load(); left != want {
			t.Errorf("%s: %d are left, want %d", key, left, want)
		}
	}

	if s.Stats().Again == 0 {
		t.Error("nothing was asked while the slot was on its way")
	}
}

// available returns how many tokens a key has.
func available(t *testing.T, s *Store, key string, terms ledger.Terms) int64 {
	t.Helper()

	result := applied(s, store.Op{Key: store.Key{Rule: "r", Key: key}, Terms: terms, Ask: ledger.Ask{Holder: 9, Seq: 1}})[0]
	if result.Err != nil {
		t.Fatal(result.Err)
	}

	level := result.Answer.Level

	return terms.Bucket.Burst - (level.Micros*terms.Bucket.Q+level.Frac+terms.Bucket.P-1)/terms.Bucket.P
}

// Whatever is asked of ledgers whose slot is on its way, the answers are those of a plain ledger.
func TestLikeLedgerWhileSlotMoves(t *testing.T) {
	cluster := redistest.New(t)
	p := newPlayer(0)
	s := openWith(t, Config{Addresses: cluster.Addresses(), Clock: func() int64 { return p.now }})
	slot := -1
	at := -1 // the master that has it
	run := uint64(0)

	rapid.Check(t, func(r *rapid.T) {
		run++
		if run > moves {
			return
		}

		*p = *newPlayer(run)
		p.unruly = true

		p.keys, slot = s.names.sameSlot(fmt.Sprint(run, "-"), 4, slot)
		if at < 0 {
			at = slot * 3 / clusterSlots
		}

		twins := twins{}
		during := func() { playOn(r, p, s, twins) }

		during()

		move := redistest.Move{From: cluster.Masters[at], To: cluster.Masters[(at+1)%3], Batch: 1, During: during}
		if err := cluster.MoveSlot(t.Context(), slot, move); err != nil {
			r.Fatal(err)
		}

		at = (at + 1) % 3

		during()
	})

	if s.Stats().Again == 0 {
		t.Error("nothing was asked while the slot was on its way")
	}
}

// playOn sends a few random ops to the store, and wants what a plain ledger says.
func playOn(r *rapid.T, p *player, s *Store, twins twins) {
	terms := p.terms(r)

	for range rapid.IntRange(1, 6).Draw(r, "calls") {
		p.now += rapid.SampledFrom([]int64{0, 1, 20_000, 130_000, 550_000}).Draw(r, "µs")

		if rapid.IntRange(0, 9).Draw(r, "change") == 0 {
			p.version++
			terms = p.terms(r)
		}

		var ops []store.Op

		for range rapid.IntRange(1, 4).Draw(r, "ops") {
			// Of each key once: what of an op is refused, and sent again, may come after what was not.
			if op := p.op(r, terms); !slices.ContainsFunc(ops, func(o store.Op) bool { return o.Key == op.Key }) {
				ops = append(ops, op)
			}
		}

		for i, got := range applied(s, ops...) {
			if want := twins.apply(p.now, &ops[i]); got.Err != nil || got.Answer != want {
				r.Fatalf("op %+v:\n got %+v (%v)\nwant %+v", ops[i], got.Answer, got.Err, want)
			}

			p.heard(ops[i], got.Answer)
		}
	}
}
