package server

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
)

// Whoever sets how often garbage is collected, or how much memory there is, is obeyed.
func TestRoomIsForTheDefaultsOfTheCollector(t *testing.T) {
	percent, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(math.MaxInt64)

	defer func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}()

	if got := len(newRoom()); got != garbageRoom {
		t.Errorf("a room of %d bytes, want %d", got, garbageRoom)
	}

	debug.SetGCPercent(50)

	if got := len(newRoom()); got != 0 {
		t.Errorf("under GOGC=50 a room of %d bytes", got)
	}

	debug.SetGCPercent(100)
	debug.SetMemoryLimit(64 << 20)

	if got := len(newRoom()); got != 0 {
		t.Errorf("under a memory limit a room of %d bytes", got)
	}
}

// A process with little in use collects seldom as long as the room is held, and as ever after it.
func TestRoomIsHeld(t *testing.T) {
	percent, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(math.MaxInt64)

	defer func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}()

	room := newRoom()

	runtime.GC()

	var before, after runtime.MemStats

	runtime.ReadMemStats(&before)
	litter(garbageRoom / 2)
	runtime.ReadMemStats(&after)

	if n := after.NumGC - before.NumGC; n != 0 {
		t.Errorf("%d collections of half a room of garbage", n)
	}

	room.hold()
}

// litter leaves n bytes of garbage.
func litter(n int) {
	for range n >> 10 {
		sink = make([]byte, 1<<10)
	}

	sink = nil
}

// sink has its values made on the heap.
var sink []byte
