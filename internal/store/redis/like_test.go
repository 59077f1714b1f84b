package redis

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/internal/store"
	"github.com/leaseway/leaseway/internal/store/memory"
	"github.com/leaseway/leaseway/internal/store/redis/redistest"
)

// player draws what holders ask, as holders would and as none would.
type player struct {
	unruly  bool // terms may be older than what the ledger knows, and the clock may step back
	now     int64
	run     uint64
	keys    []string // of the ops; two of the run if there are none
	version uint64
	seqs    map[uint64]uint64
	known   map[store.Key]map[uint64]ledger.Answer
	ended   map[store.Key]map[uint64]uint64
	present bool // nothing is asked of the next window, and nothing for long
	bucket  bool // all terms are of token buckets
}

func newPlayer(run uint64) *player {
	return &player{
		now: 1_800_000_000_000_000, run: run, version: 1, seqs: map[uint64]uint64{},
		known: map[store.Key]map[uint64]ledger.Answer{}, ended: map[store.Key]map[uint64]uint64{},
	}
}

// terms draws terms, half of the time those that are likely to meet a border.
func (p *player) terms(t *rapid.T) ledger.Terms {
	terms := ledger.Terms{
		Algorithm: rate.Algorithm(rapid.IntRange(0, int(rate.Concurrency)).Draw(t, "algorithm")),
		Version:   p.version,
		TTL:       rapid.SampledFrom([]int64{0, 1, 50_000, 500_000, 10_000_000}).Draw(t, "ttl"),
		Whole:     rapid.Bool().Draw(t, "whole"),
	}

	if p.bucket {
		terms.Algorithm = rate.TokenBucket
	}

	if p.unruly {
		terms.Version -= rapid.Uint64Range(0, 1).Draw(t, "older")
		terms.Revision = rapid.Uint64Range(0, 1).Draw(t, "revision")
	}

	limit := rapid.OneOf(rapid.Int64Range(1, 20), rapid.SampledFrom([]int64{100, 999_983, 999_999_999_989, rate.MaxLimit})).Draw(t, "limit")
	window := rapid.SampledFrom([]int64{1, 999, 200_000, 1_000_000, 7_000_000, 60_000_000, 86_400_000_000, 2_678_400_000_000}).Draw(t, "window")
	burst := max(1, limit*rapid.Int64Range(1, 4).Draw(t, "quarters")/4)

	switch b, err := rate.NewBucket(limit, window, burst); terms.Algorithm {
	case rate.Concurrency:
		terms.Bucket = rate.Bucket{P: 1, Q: 1, Burst: burst}
		terms.Share = rapid.SampledFrom([]int64{0, 0, 80}).Draw(t, "share")
	case rate.TokenBucket, rate.LeakyBucket:
		if err != nil {
			b = rate.Bucket{P: 1, Q: 3, Burst: burst}
		}

		terms.Bucket = b
	case rate.FixedWindow, rate.SlidingWindow, rate.SlidingLog:
		terms.Bucket, _ = rate.Average(limit, window, limit)
		terms.Length = window

		if terms.Algorithm == rate.FixedWindow && rapid.Bool().Draw(t, "calendar") {
			start := p.now - p.now%window
			terms.Length, terms.Calendar = 0, ledger.Calendar{Start: start, End: start + window, Next: start + 2*window + window/3 + 1}
		}
	}

	return terms
}

// costs draws what is asked for of a capacity, most often a little.
func costs(burst int64) *rapid.Generator[int64] {
	return rapid.OneOf(rapid.Int64Range(0, 4), rapid.Int64Range(0, 4), rapid.Int64Range(0, burst+1))
}

func (p *player) key(t *rapid.T) store.Key {
	if p.keys != nil {
		return store.Key{Rule: "r", Key: rapid.SampledFrom(p.keys).Draw(t, "key")}
	}

	return store.Key{Rule: "r", Key: string(binary.AppendUvarint([]byte{byte(rapid.IntRange(0, 1).Draw(t, "key"))}, p.run))}
}

func (p *player) op(t *rapid.T, terms ledger.Terms) store.Op {
	key := p.key(t)
	holder := p.run<<8 | rapid.Uint64Range(1, 4).Draw(t, "holder")

	if rapid.IntRange(0, 5).Draw(t, "repeat") > 0 || p.seqs[holder] == 0 {
		p.seqs[holder] += rapid.Uint64Range(1, 2).Draw(t, "step")
	}

	last := p.known[key][holder]
	cost := costs(terms.Bucket.Burst)
	ask := ledger.Ask{
		Holder: holder, Seq: p.seqs[holder], Lease: last.Lease,
		Spent:     last.Spent + min(cost.Draw(t, "spent"), max(0, last.Granted-last.Spent)),
		Lag:       rapid.Int64Range(-100_000, 300_000).Draw(t, "lag"),
		LagFrac:   rapid.OneOf(rapid.Int64Range(0, 9), rapid.Int64Range(0, rate.MaxLimit)).Draw(t, "lagFrac"),
		Debt:      last.Debt + rapid.SampledFrom([]int64{0, 0, 0, 1, 7, -1, -3}).Draw(t, "debt"),
		DebtAcked: last.Debt,
		Takes:     rapid.SliceOfN(cost, 0, rapid.SampledFrom([]int{3, 3, 3, ledger.MaxTakes}).Draw(t, "most takes")).Draw(t, "takes"),
		Needs:     rapid.SliceOfN(cost, 0, 2).Draw(t, "needs"),
		Keep:      rapid.Bool().Draw(t, "keep"),
		Long:      rapid.Bool().Draw(t, "long") && !p.present,
		Ahead:     rapid.IntRange(0, 7).Draw(t, "ahead") == 0,
		Slots:     (terms.Algorithm == rate.Concurrency) != (rapid.IntRange(0, 9).Draw(t, "other") == 0),
		Offer:     rapid.SampledFrom([]int64{0, 5, 1_000_003}).Draw(t, "offer"),
		Name:      rapid.Uint64Range(0, 2).Draw(t, "name"),
	}
	ask.RaiseTo = ask.Spent + cost.Draw(t, "raiseTo")
	ask.Ahead = ask.Ahead && !p.present

	if rapid.IntRange(0, 9).Draw(t, "wild") == 0 {
		ask.Spent, ask.Lease = cost.Draw(t, "any spent"), rapid.SampledFrom([]uint64{0, 1, ask.Lease}).Draw(t, "any lease")
	}

	if rapid.IntRange(0, 2).Draw(t, "end") == 0 && !p.present {
		ask.Ended, ask.EndedSpent = p.ended[key][holder], cost.Draw(t, "endedSpent")
	}

	// What holders ask for keys that they do not lease has a way of its own.
	if rapid.IntRange(0, 3).Draw(t, "plain") == 0 {
		ask = ledger.Ask{Holder: holder, Seq: ask.Seq, Debt: ask.Debt, DebtAcked: ask.Debt, Takes: []int64{cost.Draw(t, "take")}}
	}

	return store.Op{Key: key, Terms: terms, Ask: ask}
}

// heard notes an answer, so that what is asked next makes sense.
func (p *player) heard(op store.Op, a ledger.Answer) {
	if p.known[op.Key] == nil {
		p.known[op.Key], p.ended[op.Key] = map[uint64]ledger.Answer{}, map[uint64]uint64{}
	}

	if last := p.known[op.Key][op.Ask.Holder]; last.Lease != 0 && last.Lease != a.Lease {
		p.ended[op.Key][op.Ask.Holder] = last.Lease
	}

	p.known[op.Key][op.Ask.Holder] = a
}

// applied applies ops in one call, and returns their results. It has far more time than a request: what is shown is arithmetic, and
// a store may leave out a node that is slow, as every one is now and then on a machine that has other things to do.
func applied(s store.Store, ops ...store.Op) []store.Result {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	results := make([]store.Result, len(ops))
	s.Apply(ctx, ops, results)

	return results
}

// play sends random calls to the store, and wants of each op what twin says.
func play(t *rapid.T, p *player, s store.Store, twin func(store.Op) ledger.Answer) {
	terms := p.terms(t)

	for range rapid.IntRange(1, 30).Draw(t, "calls") {
		p.now += rapid.SampledFrom([]int64{0, 0, 1, 999, 20_000, 130_000, 550_000, 2_000_000, 61_000_000}).Draw(t, "µs")

		if p.unruly && rapid.IntRange(0, 9).Draw(t, "back") == 0 {
			p.now -= rapid.SampledFrom([]int64{1, 70_000, 3_000_000, 90_000_000}).Draw(t, "back µs")
		}

		if rapid.IntRange(0, 9).Draw(t, "change") == 0 {
			p.version += rapid.Uint64Range(0, 1).Draw(t, "version")
			terms = p.terms(t)
		}

		ops := make([]store.Op, rapid.IntRange(1, 3).Draw(t, "ops"))

		for i := range ops {
			ops[i] = p.op(t, terms)
		}

		for i, got := range applied(s, ops...) {
			if want := twin(ops[i]); got.Err != nil || got.Answer != want {
				t.Fatalf("op %d %+v:\n got %+v (%v)\nwant %+v", i, ops[i], got.Answer, got.Err, want)
			}

			p.heard(ops[i], got.Answer)
		}
	}
}

// twins are plain ledgers, each forgotten when it says nothing.
type twins map[store.Key]*ledger.State

func (t twins) apply(now int64, op *store.Op) ledger.Answer {
	if t[op.Key] == nil {
		t[op.Key] = &ledger.State{}
	}

	answer := t[op.Key].Apply(now, op.Terms, op.Ask)

	if t[op.Key].Idle(now) {
		delete(t, op.Key)
	}

	return answer
}

// Whatever is asked of it, the store in Redis gives the answers of a plain
// ledger that is forgotten when it says nothing.
func TestLikeLedger(t *testing.T) {
	p := newPlayer(0)
	s := open(t, servers.Prefix(), func() int64 { return p.now })
	run := uint64(0)

	rapid.Check(t, func(t *rapid.T) {
		run++
		*p = *newPlayer(run)
		p.unruly = true
		twins := twins{}

		play(t, p, s, func(op store.Op) ledger.Answer { return twins.apply(p.now, &op) })
	})
}

// The same of buckets, which mostly are leased to some: renewals of those, and takes beside them, have a way of their own.
func TestLikeLedgerOfBuckets(t *testing.T) {
	p := newPlayer(0)
	s := openWith(t, Config{Addresses: []string{redistest.NewServer(t).Address}, Clock: func() int64 { return p.now }})
	run := uint64(0)

	rapid.Check(t, func(t *rapid.T) {
		run++
		*p = *newPlayer(run)
		p.bucket, p.unruly = true, rapid.IntRange(0, 3).Draw(t, "unruly") == 0
		twins := twins{}

		play(t, p, s, func(op store.Op) ledger.Answer { return twins.apply(p.now, &op) })
	})
}

// Under the same time, the store in Redis gives the answers of the store in
// memory, to the last bit, whatever is asked of it.
func TestLikeMemory(t *testing.T) {
	p := newPlayer(0)
	clock := func() int64 { return p.now }
	s := open(t, servers.Prefix(), clock)

	other, err := memory.New(memory.Config{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}

	run, now := uint64(0), p.now

	rapid.Check(t, func(t *rapid.T) {
		run++ // new keys and holders, on the same stores
		*p = *newPlayer(run)
		p.now = now

		defer func() { now = p.now }() // a store in memory never steps back

		play(t, p, s, func(op store.Op) ledger.Answer {
			result := applied(other, op)[0]
			if result.Err != nil {
				t.Fatal(result.Err)
			}

			return result.Answer
		})
	})
}
