package table

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

// BenchmarkFloor is what no decision can be faster than: 100,000 keys by a Zipf
// distribution, each looked up, and one atomic operation. "keys" looks them up in
// the table of keys here, "sync.Map" in that of the standard library.
func BenchmarkFloor(b *testing.B) {
	const n = 1 << 20

	names := make([]string, n)
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 1, 99_999)

	for i := range names {
		names[i] = fmt.Sprintf("user-%d", zipf.Uint64())
	}

	var (
		k   keys
		std sync.Map
	)

	k.init(newSecret())

	for _, name := range names {
		if k.find(name) == nil {
			k.add(keyed(name))
			std.Store(name, new(atomic.Int64))
		}
	}

	b.Run("keys", func(b *testing.B) {
		for i := range b.N {
			k.find(names[i%n]).entry().Spend(0, 0)
		}
	})

	b.Run("sync.Map", func(b *testing.B) {
		for i := range b.N {
			v, _ := std.Load(names[i%n])
			v.(*atomic.Int64).Add(1)
		}
	})
}
