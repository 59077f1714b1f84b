package table

import (
	"math"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/leaseway/leaseway/internal/holder"
)

// Whatever rests, is taken up and is swept, a part has what a map has.
func TestTracesAreAMap(t *testing.T) {
	t.Parallel()

	rapid.Check(t, func(t *rapid.T) {
		var p tracePart

		twin := map[uint64]holder.Trace{}
		now := int64(1)

		// Few, so that they come again; neighbours and those at the end of the table among them.
		hashes := rapid.SampledFrom([]uint64{1, 2, 3, 1 << 40, 1<<40 + 1, 1 << 58, 1<<59 - 2, 1<<59 - 1, math.MaxUint64 - 1, math.MaxUint64})

		for range rapid.IntRange(0, 300).Draw(t, "steps") {
			hash := hashes.Draw(t, "hash")
			_, had := twin[hash]

			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				now += rapid.Int64Range(0, 5).Draw(t, "later")

				more := p.put(slotOf(t, hash, holder.Trace{At: now, Note: uint32(now)}))
				if (more == 1) == had {
					t.Fatalf("put: %d more, and there was one: %v", more, had)
				}

				twin[hash] = holder.Trace{At: now, Note: uint32(now)}
			case 1:
				if got, ok := p.take(hash); ok != had || got != twin[hash] {
					t.Fatalf("take: %+v, want %+v", got, twin[hash])
				}

				delete(twin, hash)
			case 2:
				if got, ok := p.look(hash); ok != had || got != twin[hash] {
					t.Fatalf("look: %+v, want %+v", got, twin[hash])
				}
			default:
				at := now + idleAfter - rapid.Int64Range(0, 20).Draw(t, "kept")
				fewer := int64(0)

				for hash, tr := range twin {
					if tr.At+idleAfter < at {
						delete(twin, hash)

						fewer++
					}
				}

				if got := p.sweep(at, false); got != fewer {
					t.Fatalf("sweep dropped %d, want %d", got, fewer)
				}

				if p.used == 0 && p.each != nil || len(p.each) > slotsAtMost(p.used, tracesFew) {
					t.Fatalf("%d slots for %d after a sweep", len(p.each), p.used)
				}
			}

			if p.used != len(twin) || p.used*100 > len(p.each)*tracesFull {
				t.Fatalf("%d in %d slots, want %d", p.used, len(p.each), len(twin))
			}
		}
	})
}

// A sweep that drops nothing leaves the memory of a part as it is, however many traces there are: that of none is smaller.
func TestASweepLeavesWhatFits(t *testing.T) {
	t.Parallel()

	var p tracePart

	for i := range uint64(3_000) {
		p.put(slotOf(t, (i+1)*0x9e3779b97f4a7c15>>partBits, holder.Trace{At: 1}))
		p.sweep(1, false)

		was := &p.each[0]
		p.sweep(1, false)

		if &p.each[0] != was {
			t.Fatalf("%d traces in %d slots get other memory with each sweep", i+1, len(p.each))
		}
	}
}

// slotOf returns the slot of a trace.
func slotOf(t interface {
	Helper()
	Fatal(args ...any)
}, hash uint64, of holder.Trace,
) *trace {
	t.Helper()

	packed, ok := of.Pack(nil)
	if !ok {
		t.Fatal("it can't be packed")
	}

	return &trace{hash: hash, Packed: packed}
}

// slotsAtMost returns how many slots n traces have if percent of them are in use: as many more as have room in the same memory, and
// those behind the last home.
func slotsAtMost(n, percent int) int { return len(slotsFor(n*100/percent + 1 + tracesMore)) }

// A trace is small, and the slots of a part are nearly all in use.
func TestATraceIsSmall(t *testing.T) {
	t.Parallel()

	if n := unsafe.Sizeof(trace{}); n > 32 {
		t.Errorf("a trace has %d bytes, want 32 at most", n)
	}

	var p tracePart

	for i := range uint64(10_000) {
		p.put(slotOf(t, (i+1)*0x9e3779b97f4a7c15>>partBits, holder.Trace{At: 1}))
	}

	if n := len(p.each); n > slotsAtMost(10_000, tracesAnew) {
		t.Errorf("10000 traces have %d slots", n)
	}
}
