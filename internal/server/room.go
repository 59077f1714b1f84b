package server

import (
	"math"
	"runtime"
	"runtime/metrics"
)

// garbageRoom is how many bytes of garbage a process may gather before they are collected, however little of its memory is in use.
const garbageRoom = 48 << 20

// room is memory that nobody touches, so that the system never has to provide it. The collector starts when garbage is as much as
// what is in use; a proxy has next to nothing in use, and would collect dozens of times a second. To count this as in use makes
// it seldom, at a tenth of the processor time of a request.
type room []byte

// newRoom returns none where somebody has set GOGC or GOMEMLIMIT, who knows better.
func newRoom() room {
	samples := []metrics.Sample{{Name: "/gc/gogc:percent"}, {Name: "/gc/gomemlimit:bytes"}}
	metrics.Read(samples)

	for i, standard := range []uint64{100, math.MaxInt64} {
		if samples[i].Value.Kind() != metrics.KindUint64 || samples[i].Value.Uint64() != standard {
			return nil
		}
	}

	return make(room, garbageRoom)
}

// hold keeps the room until then.
func (r room) hold() { runtime.KeepAlive(r) }
