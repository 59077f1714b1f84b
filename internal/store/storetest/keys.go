package storetest

import (
	"context"
	"encoding/binary"
	"strings"
	"time"

	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/internal/store"
)

func newKeyIsFull(r *rig) {
	h := r.holder(1, store.Key{Rule: "r", Key: "k"}, still(r.T, 10))

	a := h.send(r.T, h.op())
	if a.Level != (rate.Time{}) || a.Others != 0 || a.Holders > 1 {
		r.Errorf("a first look at a key found level %v, %d tokens with others, %d holders; want a full bucket that nobody holds",
			a.Level, a.Others, a.Holders)
	}

	if got := h.drain(r.T, 100); got != 10 {
		r.Errorf("a new key gave %d tokens, want its burst of 10", got)
	}
}

func bucketRefills(r *rig) {
	const refill = 20 * time.Millisecond // of one token of ten

	h := r.holder(1, store.Key{Rule: "r", Key: "k"}, terms(r.T, 10, 10*refill, time.Second))

	if !h.take(r.T, 10) {
		r.Fatal("a full bucket did not give its burst")
	}

	if r.clock.virtual {
		r.advance(refill - time.Microsecond)

		if h.take(r.T, 1) {
			r.Error("a token came a microsecond early")
		}

		r.advance(time.Microsecond)
	} else {
		r.advance(refill)
	}

	if !h.take(r.T, 1) {
		r.Error("after the time of one token there was none")
	}

	r.advance(20 * refill)

	if !h.take(r.T, 10) {
		r.Error("after twice its window the bucket was not full")
	}
}

// keysAreIndependent empties the bucket of each key in turn: one that shared a
// ledger would find it empty already, and a ledger that is confused with one
// that comes later would show on the second round.
func keysAreIndependent(r *rig) {
	length := string(binary.LittleEndian.AppendUint64(nil, 1))
	keys := []store.Key{
		{Rule: "", Key: ""}, {Rule: "", Key: "a"}, {Rule: "a", Key: ""}, {Rule: "a", Key: "a"},
		{Rule: "rule", Key: "key"}, {Rule: "rulek", Key: "ey"}, {Rule: "rul", Key: "ekey"},
		{Rule: "rulekey", Key: ""}, {Rule: "", Key: "rulekey"},
		{Rule: "other", Key: "key"}, {Rule: "key", Key: "rule"},
		{Rule: "r", Key: "\x00"}, {Rule: "r", Key: "\x00\x00"}, {Rule: "r", Key: ""},
		{Rule: "r\x00", Key: ""}, {Rule: "r\x00", Key: "\x00"},
		{Rule: "r", Key: strings.Repeat("\x00", 7)}, {Rule: "r", Key: strings.Repeat("\x00", 8)},
		{Rule: "r", Key: strings.Repeat("\x00", 9)},
		{Rule: "a", Key: length + "a"}, {Rule: "a" + length, Key: "a"}, {Rule: "a" + length + "a", Key: ""},
		{Rule: "a", Key: "1:a"}, {Rule: "a1:", Key: "a"}, {Rule: "a:b", Key: "c"}, {Rule: "a", Key: "b:c"},
		{Rule: "a}", Key: "{b"}, {Rule: "{a}", Key: "b"},
		{Rule: "r", Key: "\xff\xfe"}, {Rule: "r", Key: "\r\n"}, {Rule: "r", Key: "*"}, {Rule: "r", Key: "K"}, {Rule: "r", Key: "k"},
		{Rule: "r", Key: "é"}, {Rule: "r", Key: "e\u0301"}, {Rule: "r", Key: "k "}, {Rule: "r", Key: " k"},
	}

	for round := range 2 {
		for _, key := range keys {
			h := r.holder(uint64(round+1), key, still(r.T, 3))
			if got, want := h.drain(r.T, 10), int64(3*(1-round)); got != want {
				r.Errorf("round %d: %q gave %d tokens, want %d", round, key, got, want)
			}
		}
	}
}

func longKeys(r *rig) {
	const size = 64 << 10

	long := strings.Repeat("x", size-1)

	for _, key := range []string{long + "a", long + "b", long, "a" + long, long + "\x00"} {
		h := r.holder(1, store.Key{Rule: "r", Key: key}, still(r.T, 2))
		if got := h.drain(r.T, 10); got != 2 {
			r.Errorf("a key of %d bytes that ends in %q gave %d tokens, want its burst of 2", len(key), key[len(key)-1], got)
		}
	}
}

func opsInOrder(r *rig) {
	key := store.Key{Rule: "r", Key: "k"}
	other := store.Key{Rule: "r", Key: "other"}
	a, b, c := r.holder(1, key, still(r.T, 10)), r.holder(2, key, still(r.T, 10)), r.holder(3, other, still(r.T, 10))

	first := a.op()
	first.Ask.Takes = []int64{7}
	between := c.op()
	between.Ask.Takes = []int64{10}
	second := b.op()
	second.Ask.Takes = []int64{7}
	third := a.op()
	third.Ask.Takes = []int64{3}

	answers := apply(r.T, r.store, first, between, second, third)

	for i, want := range []uint64{1, 1, 0, 1} {
		if answers[i].Taken != want {
			r.Errorf("op %d: taken is %b, want %b: of 10 tokens the ops take 7, (another key's 10,) 7 and 3", i, answers[i].Taken, want)
		}
	}
}

func badOp(r *rig) {
	good, bad := r.holder(1, store.Key{Rule: "r", Key: "good"}, still(r.T, 2)), r.holder(1, store.Key{Rule: "r", Key: "bad"}, still(r.T, 2))
	ops := []store.Op{good.op(), bad.op(), good.op()}
	ops[0].Ask.Takes = []int64{1}
	ops[1].Ask.Takes = []int64{1}
	ops[1].Terms.Bucket = rate.Bucket{}
	ops[2].Ask.Takes = []int64{1}

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // as in apply
	defer cancel()

	results := make([]store.Result, len(ops))
	r.store.Apply(ctx, ops, results)

	if results[1].Err == nil {
		r.Error("an op with terms that no bucket has got an answer")
	}

	for _, i := range []int{0, 2} {
		if results[i].Err != nil || results[i].Answer.Taken != 1 {
			r.Errorf("op %d, beside a bad one: %+v, want its token", i, results[i])
		}
	}
}

func canceledCall(r *rig) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()

	h := r.holder(1, store.Key{Rule: "r", Key: "k"}, still(r.T, 2))
	results := make([]store.Result, 1)
	r.store.Apply(ctx, []store.Op{h.op()}, results)

	if results[0].Err == nil {
		r.Error("an op of a canceled call has no error")
	}
}
