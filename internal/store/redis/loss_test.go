package redis

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
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

// What was used up when its data was lost refills as anything does, though nothing is known of it.
func TestWhatIsLostRefills(t *testing.T) {
	const window = 1_000_000

	server := redistest.NewServer(t)
	now := int64(1_800_000_000_000_000)
	s := openWith(t, Config{Addresses: []string{server.Address}, Clock: func() int64 { return now }})
	q := &taker{T: t, store: s}
	bucket, _ := rate.NewBucket(10, window, 10)
	terms := ledger.Terms{Bucket: bucket, Version: 1, TTL: 500_000}

	q.drain("0", terms, 1)

	if err := server.Do(t.Context(), "FLUSHDB"); err != nil { // which leaves the functions
		t.Fatal(err)
	}

	mark := s.names.place(store.Key{Rule: "r", Key: "0"}).mark

	for i, after := range []int64{0, window / 2, window - 1, window} { // each of another key of the slot
		key := strconv.Itoa(i)
		for n := 0; s.names.place(store.Key{Rule: "r", Key: key}).mark != mark; n++ {
			key = fmt.Sprint(i, "-", n)
		}

		now = 1_800_000_000_000_000 + after

		if got, want := q.drain(key, terms, 12), int(10*after/window); got != want {
			t.Errorf("%d µs after the loss %d were left, want %d", after, got, want)
		}
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

	beat(t, s, nil, time.Second)

	other := openAt(t, []string{server.Address})
	if s.ID() != before || other.ID() != before {
		t.Errorf("the id was %d, and is %d here and %d for who starts now", before, s.ID(), other.ID())
	}

	q.store = other

	if got := q.drain("other", hourly(10), 10); got != 0 {
		t.Errorf("a key in a slot that nobody has looked at since gave %d tokens", got)
	}
}

// Everything is lost while no coordinator runs. One that was here before knows that it is no first start; one that has never
// been here, or was at another Redis or under another prefix, cannot know.
func TestAllDataIsLostUnseen(t *testing.T) {
	server, elsewhere := redistest.NewServer(t), redistest.NewServer(t)
	path := filepath.Join(t.TempDir(), "redis.json")
	at := func(change func(*Config)) *Store {
		config := Config{Addresses: []string{server.Address}, Seen: path}
		change(&config)

		return openWith(t, config)
	}
	same := func(*Config) {}

	id := at(same).ID()

	for _, test := range []struct {
		name   string
		change func(*Config)
		left   int
	}{
		{"it was here before", same, 0},
		{"it was here before, and looks again", same, 0},
		{"it has not been here", func(c *Config) { c.Seen = filepath.Join(t.TempDir(), "redis.json") }, 10},
		{"it remembers nothing", func(c *Config) { c.Seen = "" }, 10},
		{"it was under another prefix", func(c *Config) { c.Prefix = "other:" }, 10},
		{"it was elsewhere", func(c *Config) { c.Addresses = []string{elsewhere.Address} }, 10},
	} {
		if err := errors.Join(server.Do(t.Context(), "FLUSHALL"), elsewhere.Do(t.Context(), "FLUSHALL")); err != nil {
			t.Fatal(err)
		}

		if test.name == "it was elsewhere" || test.name == "it was under another prefix" {
			writeSeen(t, path, &seen{Data: "x", Prefix: DefaultPrefix, Addresses: []string{server.Address}})
		}

		s := at(test.change)

		if got := (&taker{T: t, store: s}).drain("k", hourly(10), 12); got != test.left {
			t.Errorf("%s: %d tokens, want %d", test.name, got, test.left)
		}

		if s.ID() == id || s.ID() == 0 {
			t.Errorf("%s: the data is %d as before", test.name, s.ID())
		}

		id = s.ID()
	}

	// A file that cannot be read keeps nobody from starting.
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}

	if s := at(same); s.ID() == 0 {
		t.Error("no data")
	}

	if kept, err := readSeen(path); err != nil || kept.Prefix != DefaultPrefix {
		t.Errorf("it was not written anew: %+v (%v)", kept, err)
	}
}

func writeSeen(t *testing.T, path string, s *seen) {
	t.Helper()

	if err := s.write(path); err != nil {
		t.Fatal(err)
	}
}
