package redis

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leaseway/leaseway/internal/store"
	"github.com/leaseway/leaseway/internal/store/redis/redistest"
)

// used up when that was found out, unless the rule says otherwise.
func TestDataIsLost(t *testing.T) {
	cluster := redistest.New(t)
	s := openAt(t, cluster.Addresses())

	q := &taker{T: t, store: s}

	before := s.ID()
	owner := func(key string) int { // which master has it
		slot := crc16(strings.Trim(strings.TrimPrefix(s.names.place(store.Key{Rule: "r", Key: key}).mark, DefaultPrefix), "{}")) % clusterSlots

		return int(slot) * 3 / clusterSlots
	}

	var lost, kept string

	for i := 0; lost == "" || kept == ""; i++ {
		if key := strconv.Itoa(i); owner(key) == 1 {
			lost = key
		} else {
			kept = key
		}
	}

	for _, key := range []string{lost, kept} {
		if got := q.drain(key, hourly(10), 6); got != 6 {
			t.Fatalf("%d of 6", got)
		}
	}

	if err := cluster.Masters[1].Do(t.Context(), "FLUSHALL"); err != nil {
		t.Fatal(err)
	}

	whole := hourly(10)
	whole.Whole = true

	for key, want := range map[string]int{lost: 0, kept: 4} {
		if got := q.drain(key, hourly(10), 10); got != want {
			t.Errorf("after the loss %d were left, want %d", got, want)
		}
	}

	if got := q.drain("whole "+lost, whole, 20); got != 10 {
		t.Errorf("a rule that is whole after a loss gave %d, want 10", got)
	}

	// Who starts now finds the same.
	other := openAt(t, cluster.Addresses())
	q.store = other

	if got := q.drain(lost, hourly(10), 10); got != 0 || other.ID() != before {
		t.Errorf("another coordinator finds %d, and data %d where it was %d", got, other.ID(), before)
	}
}

// When everything is lost, who runs goes on under the id that all know, and nobody has a full bucket.
func TestAllDataIsLost(t *testing.T) {
	server := redistest.NewServer(t)
	s := openAt(t, []string{server.Address})

	q := &taker{T: t, store: s}

	before := s.ID()

	q.drain("k", hourly(10), 3)

	if err := server.Do(t.Context(), "FLUSHALL"); err != nil {
		t.Fatal(err)
	}

	if got := q.drain("k", hourly(10), 10); got != 0 {
		t.Errorf("%d tokens after all data was lost", got)
	}

	if _, err := s.Beat(t.Context(), nil, time.Second); err != nil {
		t.Fatal(err)
	}

	other := openAt(t, []string{server.Address})
	if s.ID() != before || other.ID() != before {
		t.Errorf("the id was %d, and is %d here and %d for who starts now", before, s.ID(), other.ID())
	}

	q.store = other

	if got := q.drain("other", hourly(10), 10); got != 0 {
		t.Errorf("a key in a slot that nobody has looked at since gave %d tokens", got)
	}
}
