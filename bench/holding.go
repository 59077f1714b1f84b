package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leaseway/leaseway/internal/coordinator"
	memorystore "github.com/leaseway/leaseway/internal/store/memory"
	"github.com/leaseway/leaseway/internal/table"
	"github.com/leaseway/leaseway/rule"
)

const (
	askers = 64 // that wait for calls at once, as requests of a server do
	// block is how many keys are asked for before the same ones come again: soon enough for a lease to be worth it.
	block = 10_000
	// rested is how long nobody asks before keys without a lease are at rest.
	rested = 300 * time.Millisecond
	// What each of the askers asks for, by Zipf's law: 20,000 requests a second of all of them.
	mixFor  = 3 * time.Second
	mixEach = 20_000 * int(mixFor/time.Second) / askers
	mixSkew = 1.1
)

// holdings are the rows of a holder whose coordinator is elsewhere: here it is in this process, asked by calls that carry
// many keys, and what it keeps is not counted.
func holdings() []entrant {
	const seldom = "limit: 100, window: 1h"

	return []entrant{
		{name: "Leaseway, a holder of keys that are asked for seldom", side: ours, measure: holding(seldom, 1)},
		{name: "Leaseway, a holder of a lease of each key", side: ours, measure: holding("limit: 100000, window: 1h, lease: {ttl: 1m}", 2)},
		{name: "Leaseway, a holder of keys by Zipf's law", side: ours, measure: mixedHolding},
	}
}

// holding measures what a holder takes for keys that were asked for so often under a rule, in use (column 0) or idle.
func holding(limit string, times int) func(column int) (sample, error) {
	return func(column int) (sample, error) {
		h, err := newHolding(limit)
		if err != nil {
			return sample{}, err
		}

		defer h.close()

		for i := range int64(times * memoryKeys / block) {
			if err := h.ask(i / int64(times) * block); err != nil {
				return sample{}, err
			}
		}

		<-time.After([]time.Duration{rested, settled}[column])

		if n := h.table.Stats().Leases; times > 1 && n < memoryKeys*95/100 { // a machine that is slow forgets some demand
			return sample{}, fmt.Errorf("%d leases, not of nearly every key", n)
		}

		with, keys := heapInUse(), int64(memoryKeys)

		if column == 0 {
			keys = h.table.Stats().Keys // a machine that is slow has let some leave
		}

		h.stop()
		without := heapInUse()

		return sample{value: (float64(with) - float64(without)) / float64(keys)}, nil
	}
}

// mixedHolding measures what a holder takes as one does in use: for three seconds its keys come by Zipf's law, so that
// some are leased, and of most nothing is. What it takes is divided by the keys that it knows then.
func mixedHolding(column int) (sample, error) {
	h, err := newHolding("limit: 6000, window: 1m")
	if err != nil {
		return sample{}, err
	}

	defer h.close()

	h.mix()

	keys := h.table.Stats().Keys

	if column == 1 {
		<-time.After(settled)
	}

	with := heapInUse()

	if column == 0 {
		keys = h.table.Stats().Keys // a busy machine takes its time for the heap, in which some have left
	}

	h.stop()
	without := heapInUse()

	return sample{value: max(0, float64(with)-float64(without)) / float64(keys)}, nil
}

type holdingRig struct {
	store *memorystore.Store
	coord *coordinator.Coordinator
	table *table.Table
	end   context.CancelFunc
	work  sync.WaitGroup
}

func newHolding(limit string) (*holdingRig, error) {
	set, err := rule.Parse("rules.yaml", []byte("rules: [{id: r, keyBy: user, "+limit+"}]"))
	if err != nil {
		return nil, err
	}

	s, err := memorystore.New(memorystore.Config{})
	if err != nil {
		return nil, err
	}

	book := coordinator.NewBook(nil)
	_, wrong := book.Apply(set)
	c, err := coordinator.New(coordinator.Config{Store: s, Book: book})

	if err = errors.Join(wrong, err); err != nil {
		return nil, errors.Join(err, s.Close(context.Background()))
	}

	h := &holdingRig{store: s, coord: c, table: table.New(c, table.Config{Deadline: time.Second})}
	ctx, end := context.WithCancel(context.Background())
	h.end = end
	tb := h.table
	h.work.Go(func() { tb.Run(ctx) })

	return h, tb.SetRules(book.Current())
}

// ask asks once for every key of a block.
func (h *holdingRig) ask(from int64) error {
	var (
		wg      sync.WaitGroup
		next    atomic.Int64
		refused atomic.Int64
	)

	r := h.table.Rule("r")

	for range askers {
		wg.Go(func() {
			var out table.Outcome

			for i := next.Add(1); i <= block; i = next.Add(1) {
				out = table.Outcome{}
				r.Take(context.Background(), fmt.Sprintf("user-%06d", from+i), 1, &out)

				if out.Kind != table.Allowed || out.Origin > table.FromStore {
					refused.Add(1)
				}
			}
		})
	}

	wg.Wait()

	if n := refused.Load(); n > 0 {
		return fmt.Errorf("%d requests were not decided by a lease or by the store", n)
	}

	return nil
}

// mix asks by Zipf's law, at a rate that a slow machine keeps up with.
func (h *holdingRig) mix() {
	var wg sync.WaitGroup

	r, begin := h.table.Rule("r"), time.Now()

	for i := range askers {
		wg.Go(func() {
			var out table.Outcome

			keys := rand.NewZipf(rand.New(rand.NewPCG(1, uint64(i))), mixSkew, 1, 10*memoryKeys-1)

			for n := range mixEach {
				<-time.After(time.Until(begin.Add(mixFor * time.Duration(n) / time.Duration(mixEach))))

				out = table.Outcome{}
				r.Take(context.Background(), fmt.Sprintf("user-%06d", keys.Uint64()), 1, &out)
			}
		})
	}

	wg.Wait()
}

// stop lets the holder go, and keeps its coordinator.
func (h *holdingRig) stop() {
	h.end()
	h.work.Wait()
	h.table = nil
}

func (h *holdingRig) close() {
	h.end()
	h.work.Wait()
	runtime.KeepAlive(h.coord)
	_ = h.store.Close(context.Background())
}
