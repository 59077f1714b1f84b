package main

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"
)

// load is which requests come, how many a second, and for how long they are measured.
type load struct {
	keys  func(*rand.Rand) func() string
	rate  float64
	lasts time.Duration
}

func zipfKeys(r *rand.Rand) func() string {
	z := rand.NewZipf(r, 1.1, 1, fleetKeys-1)

	return func() string { return "user-" + strconv.FormatUint(z.Uint64(), 10) }
}

func oneKey(*rand.Rand) func() string { return func() string { return hotKey } }

// tally is what became of the requests of one or all workers.
type tally struct {
	decisions, alone int64
	all, cold        durations
}

// durations are how long some decisions took, one of so many that they fit.
type durations struct {
	seen   int
	sample []int64 // ns
}

const keptDurations = 2_000 // of each worker

func (d *durations) add(ns int64) {
	d.seen++
	if len(d.sample) < keptDurations {
		d.sample = append(d.sample, ns)
	} else if i := rand.IntN(d.seen); i < keptDurations {
		d.sample[i] = ns
	}
}

// join takes in those of another worker, who had as many to choose from.
func (d *durations) join(o *durations) { d.sample = append(d.sample, o.sample...) }

// percentile returns the p-th, µs; 0 of none.
func (d *durations) percentile(p int) float64 {
	if len(d.sample) == 0 {
		return 0
	}

	slices.Sort(d.sample)

	return float64(d.sample[min(len(d.sample)-1, len(d.sample)*p/100)]) / 1e3
}

// send sends requests for d, at the rate of l or as many as get through: a worker catches up with what it should have
// sent. Each has a time of its own for its requests, so that it is woken no more often than it has one to send.
func (h *holders) send(l load, d time.Duration) *tally {
	var (
		work sync.WaitGroup
		mu   sync.Mutex
		sum  tally
	)

	workers := len(h.take) * fleetWorkers
	between := time.Duration(float64(workers) / l.rate * float64(time.Second))
	began := time.Now()

	for w := range workers {
		work.Go(func() {
			var own tally

			next, take := l.keys(rand.New(rand.NewPCG(uint64(w), 7))), h.take[w%len(h.take)]
			wake := time.NewTimer(0)
			defer wake.Stop()

			for due := between * time.Duration(w) / time.Duration(workers); due < d; due += between {
				if early := due - time.Since(began); early > 0 {
					wake.Reset(early)
					<-wake.C
				} else if -early > d-due {
					break // it is over, and this one is late
				}

				own.one(take, next())
			}

			mu.Lock()
			defer mu.Unlock()

			sum.add(&own)
		})
	}

	work.Wait()

	return &sum
}

func (t *tally) one(take func(string) int, key string) {
	began := time.Now()
	origin := take(key)
	took := int64(time.Since(began))

	t.decisions++
	t.all.add(took)

	switch origin {
	case fromStore:
		t.cold.add(took)
	case fromNowhere:
		t.alone++
	}
}

func (t *tally) add(o *tally) {
	t.decisions += o.decisions
	t.alone += o.alone

	t.all.join(&o.all)
	t.cold.join(&o.cold)
}
