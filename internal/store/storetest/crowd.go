package storetest

import (
	"math/rand/v2"
	"strconv"
	"sync"

	"github.com/leaseway/leaseway/internal/store"
)

// crowd is how many goroutines meet on one key, each as a holder of its own.
const crowd = 16

// together runs one function for each holder of a crowd at once, and adds up what they return.
func (r *rig) together(run func(n int) int64) int64 {
	var (
		wait  sync.WaitGroup
		start = make(chan struct{})
		sums  [crowd]int64
		total int64
	)

	for n := range crowd {
		wait.Go(func() {
			<-start

			sums[n] = run(n)
		})
	}

	close(start)
	wait.Wait()

	for _, sum := range sums {
		total += sum
	}

	return total
}

func manyTakes(r *rig) {
	const burst = 5000

	key := store.Key{Rule: "r", Key: "k"}
	total := r.together(func(n int) int64 {
		return r.holder(uint64(n+1), key, still(r.T, burst)).drain(r.T, burst)
	})

	if total != burst {
		r.Errorf("%d holders took %d tokens of a bucket of %d, want all and no more", crowd, total, burst)
	}
}

// manyLeases has a crowd lease, spend, return and take at random. When all is
// settled, a last holder finds exactly what is left: not one token came or went.
func manyLeases(r *rig) {
	const burst, rounds = 5000, 300

	key := store.Key{Rule: "r", Key: "k"}
	admitted := r.together(func(n int) int64 {
		h := r.holder(uint64(n+1), key, still(r.T, burst))
		random := rand.New(rand.NewPCG(1, uint64(n)))

		var sum int64

		for range rounds {
			op := h.op()
			op.Ask.Keep = true
			op.Ask.RaiseTo = h.spent + random.Int64N(8)
			op.Ask.Takes = []int64{1, 1}[:random.IntN(3)]

			// What is returned is struck from the balance before it is asked.
			h.granted = min(h.granted, op.Ask.RaiseTo)
			sum += given(h.send(r.T, op))

			use := random.Int64N(h.granted - h.spent + 1)
			h.spent += use
			sum += use
		}

		h.raise(r.T, h.spent)

		return sum
	})

	if admitted > burst {
		r.Fatalf("%d holders admitted %d of a bucket of %d", crowd, admitted, burst)
	}

	rest := r.holder(crowd+1, key, still(r.T, burst)).drain(r.T, 2*burst)
	if admitted+rest != burst {
		r.Errorf("the crowd admitted %d and left %d: %d in all, want the burst of %d", admitted, rest, admitted+rest, burst)
	}

	if admitted == 0 || rest == burst {
		r.Error("the crowd got nothing, so this showed nothing")
	}
}

// manyBatches sends calls with many keys, each key twice, from all at once.
func manyBatches(r *rig) {
	const keys, burst, calls = 40, 100, 20

	total := r.together(func(n int) int64 {
		holders := make([]*holder, 2*keys)
		for i := range holders {
			holders[i] = r.holder(uint64(n+1), store.Key{Rule: "r", Key: strconv.Itoa(i % keys)}, still(r.T, burst))
		}

		var sum int64

		for call := range calls {
			ops := make([]store.Op, len(holders))
			for i, h := range holders {
				h.seq = uint64(2*call + i/keys)
				ops[i] = h.op()
				ops[i].Ask.Takes = []int64{1}
			}

			for _, a := range apply(r.T, r.store, ops...) {
				sum += given(a)
			}
		}

		return sum
	})

	if total != keys*burst {
		r.Errorf("%d holders took %d tokens of %d buckets of %d, want %d", crowd, total, keys, burst, keys*burst)
	}
}
