package memory

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/internal/slots"
)

// filled returns a store with ledgers of every kind.
func filled(t *testing.T, cfg Config) *fixture {
	t.Helper()

	f := newFixture(t, cfg)

	for i := range 100 {
		f.take(fmt.Sprint("take ", i), int64(1+i))
		f.ask(fmt.Sprint("lease ", i), ledger.Ask{RaiseTo: 10, Takes: []int64{1}})
	}

	return f
}

// contents are all the ledgers of a store, as they would be found.
func (s *Store) contents() map[keyID]ledger.State {
	all := map[keyID]ledger.State{}

	for i := range s.shards {
		sh := &s.shards[i]
		for j := range sh.table.slots {
			switch r := &sh.table.slots[j]; {
			case r.empty():
			case r.held():
				state := **sh.held.at(r.index())
				state.Now = 0
				all[r.id] = state
			default:
				all[r.id] = ledger.State{TAT: r.tat(), Terms: *sh.terms.at(r.ref())}
			}
		}
	}

	return all
}

func snapshotOf(t *testing.T, f *fixture) []byte {
	t.Helper()

	var b bytes.Buffer
	if err := f.writeSnapshot(context.Background(), &b, f.now); err != nil {
		t.Fatal(err)
	}

	return b.Bytes()
}

func emptyStore() *Store {
	s := &Store{}
	s.clear(10_000)

	return s
}

// Every field of every lease must come back: a field that is added to the
// ledger and not to the snapshot fails here.
func TestSnapshotKeepsEverything(t *testing.T) {
	f := filled(t, Config{})
	f.loss = 12345

	state := ledger.State{TAT: rate.Time{Micros: noon + 1e9, Frac: 3}, Terms: minuteTerms(7), Leases: make([]ledger.Lease, 2)}
	lease := reflect.ValueOf(&state.Leases[1]).Elem()

	for i := range lease.NumField() {
		if lease.Type().Field(i).Name == "Due" {
			continue // whose turn it is to ask: after a restart all begin anew
		}

		switch field := lease.Field(i); field.Kind() {
		case reflect.Int64:
			field.SetInt(noon + int64(100-i)) // not before now, and no more spent than granted
		case reflect.Uint64:
			field.SetUint(1<<63 + uint64(i))
		default:
			t.Fatalf("a lease has a field of kind %v: keep it in the snapshot", field.Kind())
		}
	}

	state.Leases[0].Exp = noon + 1
	state.Terms.Revision = 1 << 63

	if !f.restore(keyID{1, 2}, &state) {
		t.Fatal("not restored")
	}

	data := snapshotOf(t, f)
	back := emptyStore()

	saved, err := back.readSnapshot(bytes.NewReader(data))
	if err != nil || saved != f.now || back.id != f.id || back.seed != f.seed || back.loss != f.loss {
		t.Fatalf("read as of %d with %+v: %v", saved, back, err)
	}

	if got, want := back.contents(), f.contents(); len(got) != 201 || !reflect.DeepEqual(got, want) {
		t.Errorf("%d ledgers came back, %d were saved, and they differ", len(got), len(want))
	}

	if got, want := back.Stats(), f.Stats(); got != want {
		t.Errorf("stats are %+v, want %+v", got, want)
	}
}

// The same for what was leased of the windows before and after the present one.
func TestSnapshotKeepsOtherWindows(t *testing.T) {
	f := newFixture(t, Config{})
	lease := func(holder uint64) []ledger.Lease {
		return []ledger.Lease{{Holder: holder, ID: 4 * holder, Granted: 9, Spent: 2, Debt: -1, Exp: noon + 1e6, Seq: 7, Version: 1}}
	}

	for i, algorithm := range []rate.Algorithm{rate.FixedWindow, rate.SlidingWindow} {
		state := ledger.State{
			Terms:  ledger.Terms{Algorithm: algorithm, Bucket: rate.Bucket{P: 1e6, Q: 1, Burst: 60}, Length: 60e6, Version: 1, TTL: 500_000},
			Window: rate.Window{Start: noon, Used: 20, Prev: 30},
			Leases: lease(1), Old: lease(2),
			Ahead: ledger.Ahead{Start: noon + 60e6, Used: 9, Leases: lease(3)},
		}

		if !f.restore(keyID{1, uint64(i)}, &state) {
			t.Fatal("not restored")
		}
	}

	back := emptyStore()
	if _, err := back.readSnapshot(bytes.NewReader(snapshotOf(t, f))); err != nil {
		t.Fatal(err)
	}

	if got, want := back.contents(), f.contents(); len(got) != 2 || !reflect.DeepEqual(got, want) {
		t.Errorf("came back %+v, want %+v", got, want)
	}
}

// The same for every field of what is in flight.
func TestSnapshotKeepsSlots(t *testing.T) {
	f := newFixture(t, Config{})
	state := ledger.State{
		Terms: ledger.Terms{Algorithm: rate.Concurrency, Bucket: rate.Bucket{P: 1, Q: 1, Burst: 5}, TTL: slots.TTL, Version: 1, Share: 80},
		Slots: slots.State{Holdings: make([]slots.Holding, 2), Closed: noon + 7, Sum: 5500, At: noon - 3},
	}
	holding := reflect.ValueOf(&state.Slots.Holdings[1]).Elem()

	for i := range holding.NumField() {
		switch field := holding.Field(i); field.Kind() {
		case reflect.Int64:
			field.SetInt(noon + int64(100-i))
		case reflect.Uint64:
			field.SetUint(1<<63 + uint64(i))
		case reflect.Uint8:
			field.SetUint(uint64(slots.Shared))
		default:
			t.Fatalf("a holding has a field of kind %v: keep it in the snapshot", field.Kind())
		}
	}

	state.Slots.Holdings[0].Exp = noon + 1

	if !f.restore(keyID{1, 2}, &state) {
		t.Fatal("not restored")
	}

	back := emptyStore()
	if _, err := back.readSnapshot(bytes.NewReader(snapshotOf(t, f))); err != nil {
		t.Fatal(err)
	}

	if got, want := back.contents(), f.contents(); len(got) != 1 || !reflect.DeepEqual(got, want) {
		t.Errorf("came back %+v, want %+v", got, want)
	}
}

// Between the end of a lease and the next look at it, its record says that it
// is held and nobody holds it.
func TestSnapshotOfEndedLeases(t *testing.T) {
	f := newFixture(t, Config{})
	f.ask("ended", ledger.Ask{RaiseTo: 50, Takes: []int64{50}})
	f.ask("ended and full", ledger.Ask{RaiseTo: 1})

	atomic.AddInt64(&f.now, 2_000_000)

	back := emptyStore()
	if _, err := back.readSnapshot(bytes.NewReader(snapshotOf(t, f))); err != nil {
		t.Fatal(err)
	}

	if s := back.Stats(); s.Keys != 1 || s.Held != 0 || s.Leases != 0 {
		t.Errorf("%+v came back, want one ledger at rest", s)
	}
}

// A store may be started again with room for fewer.
func TestSnapshotOfMoreThanFit(t *testing.T) {
	dir := t.TempDir()
	f := filled(t, Config{Dir: dir})

	if err := f.Close(context.Background()); err != nil {
		t.Fatal(err)
	}

	again := newFixture(t, Config{Dir: dir, MaxKeys: 150})

	s := again.Stats()
	if s.Keys != 150 || s.Evicted != 50 || s.EvictedHeld != 0 || s.Leases != 100 {
		t.Errorf("of 100 ledgers at rest and 100 held, with room for 150: %+v", s)
	}

	if s.EvictedOverLimit > 5 { // it is the last to go
		t.Errorf("of one empty bucket %d were evicted", s.EvictedOverLimit)
	}

	for id, state := range again.contents() {
		for _, l := range state.Leases {
			if l.Exp != noon+500_000+ledger.Guard {
				t.Fatalf("%v: a lease ends at %d µs after noon", id, l.Exp-noon)
			}
		}
	}
}

func TestEveryFlippedBitIsFound(t *testing.T) {
	f := newFixture(t, Config{MaxKeys: 10})
	f.take("take", 2)
	f.ask("lease", ledger.Ask{RaiseTo: 10, Takes: []int64{1}})

	data := snapshotOf(t, f)

	for i := range data {
		for bit := range 8 {
			bad := bytes.Clone(data)
			bad[i] ^= 1 << bit

			if _, err := emptyStore().readSnapshot(bytes.NewReader(bad)); err == nil {
				t.Fatalf("bit %d of byte %d flipped, and the snapshot was taken", bit, i)
			}
		}

		if _, err := emptyStore().readSnapshot(bytes.NewReader(data[:i])); err == nil {
			t.Fatalf("the snapshot was taken at %d of %d bytes", i, len(data))
		}
	}
}

func FuzzReadSnapshot(f *testing.F) {
	fix := newFixture(f, Config{MaxKeys: 10})
	fix.take("take", 2)
	fix.ask("lease", ledger.Ask{RaiseTo: 10, Takes: []int64{1}})

	var b bytes.Buffer
	if err := fix.writeSnapshot(context.Background(), &b, fix.now); err != nil {
		f.Fatal(err)
	}

	f.Add(b.Bytes()[:b.Len()-4])
	f.Add([]byte(snapshotMagic))

	// The checksum is made right, so that what is behind it is tried too.
	f.Fuzz(func(_ *testing.T, data []byte) {
		data = binary.LittleEndian.AppendUint32(data, crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)))
		s := emptyStore()

		saved, err := s.readSnapshot(bytes.NewReader(data))
		if err != nil {
			return
		}

		s.now = func() int64 { return saved + 1 }

		for range 8 * len(s.shards) {
			s.sweep(s.now()) // whatever was taken in can be worked with
		}
	})
}

func exists(t *testing.T, dir, name string) bool {
	t.Helper()

	_, err := os.Stat(filepath.Join(dir, name))

	return err == nil
}

func TestCorruptSnapshotIsKeptAside(t *testing.T) {
	for name, data := range map[string]string{"empty": "", "foreign": "PK\x03\x04 some other file, and not a short one at that, you see", "version": "LWLEDGER\xff\x00\x00\x00" + strings.Repeat("x", 99)} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, snapshotFile), []byte(data), 0o600); err != nil {
				t.Fatal(err)
			}

			var log bytes.Buffer

			f := newFixture(t, Config{Dir: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if f.take("k", 1) || f.loss != noon {
				t.Errorf("a key is not empty as of the start, but as of %d", f.loss)
			}

			kept, err := os.ReadFile(filepath.Join(dir, corruptFile))
			if err != nil || string(kept) != data || exists(t, dir, snapshotFile) {
				t.Errorf("the snapshot was not kept aside: %q, %v", kept, err)
			}

			if !strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), corruptFile) {
				t.Errorf("the log does not say so: %s", &log)
			}
		})
	}
}

// A crash between writing the snapshot and removing the mark, or between
// writing the next mark and removing the snapshot, leaves both.
func TestBothFilesMeanNothingHappened(t *testing.T) {
	dir := t.TempDir()
	f := filled(t, Config{Dir: dir})
	id, want := f.ID(), f.contents()

	if err := f.Close(context.Background()); err != nil {
		t.Fatal(err)
	}

	if exists(t, dir, markFile) {
		t.Error("a mark is left after Close")
	}

	if err := os.WriteFile(filepath.Join(dir, markFile), []byte(markText(noon)), 0o600); err != nil {
		t.Fatal(err)
	}

	again := newFixture(t, Config{Dir: dir})
	if again.ID() != id || again.loss != 0 || !reflect.DeepEqual(again.contents(), want) {
		t.Errorf("snapshot and mark were taken as a loss at %d", again.loss)
	}

	if exists(t, dir, snapshotFile) {
		t.Error("the snapshot is still there, to be taken in twice")
	}
}

func TestLossIsTheLastMark(t *testing.T) {
	for name, test := range map[string]struct {
		mark string
		pass time.Duration
		want int64
	}{
		"an interval after the mark":      {markText(noon), time.Hour, noon + 250_000},
		"a quick restart":                 {markText(noon), 100 * time.Millisecond, noon + 100_000},
		"the clock stepped back":          {markText(noon), -time.Hour, noon},
		"a mark that was cut short":       {markText(noon)[:20], time.Hour, noon + time.Hour.Microseconds()},
		"a mark that was never written":   {"", time.Hour, noon + time.Hour.Microseconds()},
		"a mark with a digit that is not": {strings.Replace(markText(noon), "18", "19", 1), time.Hour, noon + time.Hour.Microseconds()},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			f := newFixture(t, Config{Dir: dir})
			id := f.ID()
			f.crash()

			if err := os.WriteFile(filepath.Join(dir, markFile), []byte(test.mark), 0o600); err != nil {
				t.Fatal(err)
			}

			at := noon + test.pass.Microseconds()

			s, err := New(Config{Dir: dir, Clock: func() int64 { return at }})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close(context.Background())

			if s.loss != test.want || s.ID() == id {
				t.Errorf("the loss is dated %d µs after the mark, want %d; id changed: %v", s.loss-noon, test.want-noon, s.ID() != id)
			}
		})
	}
}

func TestMarkIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()

		s, err := New(Config{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}

		for range 5 {
			before, _, _ := s.dir.lastMark()

			time.Sleep(markEvery)
			synctest.Wait()

			after, found, err := s.dir.lastMark()
			if err != nil || !found || after-before != markEvery.Microseconds() {
				t.Fatalf("the mark went from %d to %d: %v", before, after, err)
			}
		}

		if err := s.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestDirectoryIsForOne(t *testing.T) {
	dir := t.TempDir()
	f := newFixture(t, Config{Dir: dir})

	if _, err := New(Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), dir) {
		t.Fatalf("two stores have one directory: %v", err)
	}

	if err := f.Close(context.Background()); err != nil {
		t.Fatal(err)
	}

	newFixture(t, Config{Dir: dir}) // free again
}

func TestUnusableDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}

	if _, err := New(Config{Dir: file}); err == nil {
		t.Error("a file was taken as a directory")
	}
}

// A snapshot that fails leaves no half of one, and the next start is as after a crash.
func TestFailedSnapshotIsALoss(t *testing.T) {
	dir := t.TempDir()
	f := filled(t, Config{Dir: dir})
	id := f.ID()

	ctx, cancel := context.WithCancel(context.Background())
	cancel()

	atomic.AddInt64(&f.now, 1000)
	if err := f.Close(ctx); err == nil {
		t.Fatal("a Close that was canceled is no error")
	}

	for _, name := range []string{snapshotFile, partFile} {
		if exists(t, dir, name) {
			t.Errorf("%s is left", name)
		}
	}

	later := newFixture(t, Config{Dir: dir})
	if later.ID() == id || later.loss != noon+1000 || later.take("k", 1) {
		t.Errorf("the id is %d where it was %d; the loss %d", later.ID(), id, later.loss)
	}
}

func TestClockIsNeverBeforeTheData(t *testing.T) {
	dir := t.TempDir()
	f := newFixture(t, Config{Dir: dir})
	f.take("k", 100)

	if err := f.Close(context.Background()); err != nil {
		t.Fatal(err)
	}

	// An hour back: nothing refills for it, and nothing waits for it to pass.
	at := noon - time.Hour.Microseconds()
	s, err := New(Config{Dir: dir, Clock: func() int64 { return at }})
	if err != nil {
		t.Fatal(err)
	}

	g := &fixture{Store: s, t: t}
	defer s.Close(context.Background())

	if g.take("k", 1) {
		t.Error("an empty bucket has a token after the clock stepped back")
	}

	at += 6_000_000

	if !g.take("k", 10) || g.take("k", 1) {
		t.Error("six seconds after it stepped back the bucket does not have ten tokens exactly")
	}
}
