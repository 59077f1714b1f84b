package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/internal/store"
	memorystore "github.com/leaseway/leaseway/internal/store/memory"
)

const (
	memoryKeys = 100_000
	// settled is how long nobody asks before idle keys are measured: a holder keeps a key for 2 s.
	settled = 3 * time.Second
)

// calm is a limit that is not reached by one request: what most keys look like at any time.
func calm() quota { return quota{limit: 100, window: time.Hour} }

// memory measures bytes a key. What other projects keep goes on for as long as the process lives, unless one clears it.
func memory() contest {
	c := contest{
		name: "memory", title: "Memory a key", rounds: 1,
		about: "Heap in bytes, for each of 100,000 keys of 11 bytes, their text included, under 100 an hour: " +
			"just after one request of each, and when nobody has asked for three seconds. Of a holder alone what its coordinator " +
			"keeps is not counted; the first measure is 0.3 s after the requests, and where it has leases they live for a minute. " +
			"By Zipf's law 20,000 requests a second come for three seconds, for a million keys under 6,000 a minute: some of them " +
			"are leased, most are not, and the bytes are those of a key that the holder knows when they are counted.",
		columns: []string{"bytes, just asked", "bytes, idle"},
		entrants: []entrant{
			{name: "Leaseway's memory store, as of a coordinator", side: ours, measure: heap(storeAlone)},
		},
	}

	c.entrants = append(c.entrants, holdings()...)

	for _, d := range deciders() {
		if d.name == leasewayDecideName {
			continue // as Rule.Take
		}

		name := d.name
		if d.side == ours {
			name = "Leaseway, holder and memory store in one process"
		}

		c.entrants = append(c.entrants, entrant{name: name, side: d.side, measure: heap(d.make)})
	}

	return c
}

// heap measures what the keys of a limiter take, in use (column 0) or idle.
func heap(open func(q quota) (limiter, error)) func(column int) (sample, error) {
	return func(column int) (sample, error) {
		before := heapInUse()

		l, err := open(calm())
		if err != nil {
			return sample{}, err
		}

		for i := range memoryKeys {
			if !l.take(fmt.Sprintf("user-%06d", i)) {
				return sample{}, fmt.Errorf("key %d was refused", i)
			}
		}

		if column == 1 {
			<-time.After(settled)
		}

		after := heapInUse()

		runtime.KeepAlive(l)

		if l.close != nil {
			l.close()
		}

		return sample{value: max(0, float64(after)-float64(before)) / memoryKeys}, nil
	}
}

func heapInUse() uint64 {
	var m runtime.MemStats

	for range 4 { // what pools and ended goroutines let go of needs more than one collection
		runtime.GC()
		<-time.After(10 * time.Millisecond)
	}

	runtime.ReadMemStats(&m)

	return m.HeapAlloc
}

// storeAlone asks the store for single tokens, as holders do for keys that are seen rarely.
func storeAlone(q quota) (limiter, error) {
	s, err := memorystore.New(memorystore.Config{})
	if err != nil {
		return limiter{}, err
	}

	terms, err := termsOf(q)
	ctx, seq := context.Background(), uint64(0)
	ops, results := make([]store.Op, 1), make([]store.Result, 1)

	return limiter{take: func(key string) bool {
		seq++
		ops[0] = store.Op{
			Key: store.Key{Rule: "r", Key: key}, Terms: terms,
			Ask: ledger.Ask{Holder: 1, Seq: seq, Takes: []int64{1}},
		}
		s.Apply(ctx, ops, results)

		return results[0].Err == nil && results[0].Answer.Taken == 1
	}, close: func() { _ = s.Close(ctx) }}, err
}

func termsOf(q quota) (ledger.Terms, error) {
	bucket, err := rate.NewBucket(int64(q.limit), q.window.Microseconds(), int64(q.limit))

	return ledger.Terms{Bucket: bucket, Version: 1, TTL: (500 * time.Millisecond).Microseconds()}, err
}
