package redis

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/redis/rueidis"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/ledger/ledgertest"
	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/internal/store"
)

// The transcripts of package ledger, with each ask applied by Lua to the ledger as it is then.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("../../ledger/testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}

	s := open(t, servers.Prefix(), func() int64 { return 0 })

	beat(t, s, nil, 0) // which loads the functions

	for _, file := range files {
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}

		got, err := ledgertest.Replay(string(want), func(l *ledger.State, now int64, terms ledger.Terms, ask ledger.Ask) (ledger.Answer, error) {
			return s.applyTo(t, l, now, &store.Op{Terms: terms, Ask: ask})
		})
		if err != nil {
			t.Errorf("%s:%v", file, err)
		} else if got != string(want) {
			t.Errorf("%s: in Redis the conversation goes otherwise:\n%s", file, got)
		}
	}
}

// applyTo has Lua apply the op to l, and makes l what it is then.
func (s *Store) applyTo(t *testing.T, l *ledger.State, now int64, op *store.Op) (a ledger.Answer, err error) {
	t.Helper()

	at := s.names.place(op.Key)
	commands := []rueidis.Completed{s.client.B().Del().Key(at.held, at.group).Build()}

	if l.Terms.Bucket.Burst > 0 {
		commands = append(commands, s.client.B().Set().Key(at.held).Value(string(appendState(nil, l))).Build())
	}

	for _, response := range s.client.DoMulti(t.Context(), commands...) {
		if err := response.Error(); err != nil {
			return a, err
		}
	}

	if a, err = s.applyAt(t, op, at, now); err != nil {
		return a, err
	}

	held, err := s.client.Do(t.Context(), s.client.B().Get().Key(at.held).Build()).ToString()
	if err == nil {
		*l, err = readHeld(held)

		return a, err
	}

	rest, err := s.client.Do(t.Context(), s.client.B().Hget().Key(at.group).Field(at.name).Build()).ToString()
	*l = ledger.State{Terms: a.Terms, Now: now, TAT: rate.At(now)}

	switch {
	case rueidis.IsRedisNil(err): // it says nothing, so it is not kept
		return a, nil
	case err == nil:
		*l, err = readRest(rest, a.Terms)
	}

	return a, err
}

// stateNumbers are what a ledger by itself begins with, behind its terms, but for the counts.
func stateNumbers(s *ledger.State) []*int64 {
	return []*int64{
		&s.Now, &s.TAT.Micros, &s.TAT.Frac, &s.Window.Start, &s.Window.Used, &s.Window.Prev,
		&s.Ahead.Start, &s.Ahead.Used, &s.Slots.Closed, &s.Slots.Sum, &s.Slots.At,
	}
}

// appendState appends a bucket's ledger as 11_codec.lua reads it.
func appendState(b []byte, s *ledger.State) []byte {
	b = appendTerms(append(b, 1), &s.Terms)
	for _, n := range stateNumbers(s) {
		b = binary.LittleEndian.AppendUint64(b, uint64(*n))
	}

	for _, n := range []int{0, len(s.Leases), 0, 0, 0} {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}

	for i := range s.Leases {
		b, _ = binary.Append(b, binary.LittleEndian, s.Leases[i]) // of fixed size
	}

	return b
}
