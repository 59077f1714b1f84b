package memory

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
)

// A snapshotReader reads what a snapshotWriter wrote, and believes none of it:
// the file may be cut short, rotten, or something else altogether. The first
// error stays; reads after it return zeros.
type snapshotReader struct {
	in    *bufio.Reader
	sum   uint32
	table *crc32.Table
	err   error
	buf   [max(headerSize, leaseSize, termsSize, restSize, slotsSize)]byte
	rest  []byte // of buf: what was read and not yet taken
	terms []ledger.Terms
	count int // entries read, for messages
}

// readSnapshot makes the store, an empty one, what the snapshot in says it was,
// and returns when that was (µs). After an error the store is part full: clear it.
func (s *Store) readSnapshot(in io.Reader) (saved int64, err error) {
	r := &snapshotReader{in: bufio.NewReaderSize(in, 1<<16), table: crc32.MakeTable(crc32.Castagnoli)}

	saved = r.header(s)

	for i := range s.shards {
		s.shards[i].last = saved
	}

	more := r.err == nil
	for more {
		more = r.entry(s)
	}

	if r.err == nil {
		r.end()
	}

	return saved, r.err
}

func (r *snapshotReader) header(s *Store) (saved int64) {
	r.read(headerSize)

	if magic := r.bytes(len(snapshotMagic)); r.err == nil && string(magic) != snapshotMagic {
		r.failf("it begins with %q, which no snapshot does", magic)
	}

	if version := r.u32(); r.err == nil && version != snapshotVersion {
		r.failf("its version is %d, and this program reads %d", version, snapshotVersion)
	}

	s.id = r.u64()
	s.seed = seed{r.u64(), r.u64()}
	saved = r.i64()
	s.loss = r.i64()

	if r.err == nil && s.id == 0 {
		r.failf("its id is 0")
	}

	return saved
}

// entry reads the next entry, and reports whether there may be another one.
func (r *snapshotReader) entry(s *Store) bool {
	r.read(1)

	switch kind := r.bytes(1)[0]; {
	case r.err != nil:
	case kind == entryTerms:
		r.readTerms()
	case kind == entryRest, kind == entryHeld, kind == entrySlots:
		r.readLedger(s, kind)
	case kind == entryEnd:
		return false
	default:
		r.failf("entry %d is of kind %d, which there is not", r.count, kind)
	}

	return r.err == nil
}

func (r *snapshotReader) readTerms() {
	r.read(termsSize)

	t := ledger.Terms{
		Bucket:   rate.Bucket{P: r.i64(), Q: r.i64(), Burst: r.i64()},
		Version:  r.u64(),
		Revision: r.u64(),
		TTL:      r.i64(),
	}

	algorithm := r.u64()
	t.Share = int64(algorithm >> shareShift)
	algorithm &= 1<<shareShift - 1
	t.Algorithm, t.Whole = rate.Algorithm(min(algorithm&^wholeBit, math.MaxUint8)), algorithm&wholeBit != 0
	t.Length = r.i64()
	t.Calendar = ledger.Calendar{Start: r.i64(), End: r.i64(), Next: r.i64()}

	if err := t.Check(); r.err == nil && err != nil {
		r.failf("%w", err)
	}

	r.terms = append(r.terms, t)
}

func (r *snapshotReader) readLedger(s *Store, kind byte) {
	r.read(restSize)

	id := keyID{hi: r.u64(), lo: r.u64()}
	at := rate.Time{Micros: r.i64(), Frac: r.i64()}
	number := r.u32()

	if r.err == nil && int(number) >= len(r.terms) {
		r.failf("entry %d refers to terms %d of %d", r.count, number, len(r.terms))
	}

	if r.err != nil {
		return
	}

	state := ledger.State{Terms: r.terms[number], Now: s.shard(id).last}
	state.Unpack(at)

	if t := state.TAT.Frac; t < 0 || t >= state.Terms.Bucket.Q {
		r.failf("entry %d has a fraction of %d/%d", r.count, t, state.Terms.Bucket.Q)

		return
	}

	switch slotted := state.Terms.Algorithm == rate.Concurrency; {
	case slotted != (kind == entrySlots):
		r.failf("entry %d of kind %d is not what its terms are about", r.count, kind)

		return
	case slotted:
		r.readSlots(&state)
	case kind == entryHeld:
		r.read(8)
		state.Window.Prev = r.i64()
		state.Leases, state.Old = r.readLeases(), r.readLeases()
		r.read(2 * 8)
		state.Ahead.Start, state.Ahead.Used = r.i64(), r.i64()
		state.Ahead.Leases = r.readLeases()
		r.readLog(&state)
	}

	if w := state.Window; r.err == nil && (w.Used < 0 || w.Prev < 0 || state.Ahead.Used < 0) {
		r.failf("entry %d has a window with %d and %d tokens used", r.count, w.Prev, w.Used)
	}

	if r.err != nil {
		return
	}

	r.count++
	if !s.restore(id, &state) {
		r.failf("entry %d has the key of another one", r.count)
	}
}

func (r *snapshotReader) readLeases() (leases []ledger.Lease) {
	r.read(4)

	n := r.u32()
	if r.err == nil && n > maxLeases {
		r.failf("entry %d has %d leases", r.count, n)
	}

	for range n {
		r.read(leaseSize)

		if r.err != nil {
			return nil
		}

		l := ledger.Lease{
			Holder: r.u64(), ID: r.u64(),
			Granted: r.i64(), Spent: r.i64(), Debt: r.i64(),
			Exp: r.i64(), Seq: r.u64(), Taken: r.u64(), Version: r.u64(),
		}

		if l.Spent < 0 || l.Granted < l.Spent {
			r.failf("entry %d has a lease of %d tokens with %d spent", r.count, l.Granted, l.Spent)
		}

		leases = append(leases, l)
	}

	return leases
}

func (r *snapshotReader) readLog(s *ledger.State) {
	r.read(4)

	n := r.u32()
	if r.err == nil && n > maxLog {
		r.failf("entry %d has a log of %d", r.count, n)
	}

	for range n {
		r.read(2 * 8)

		e := rate.Admission{At: r.i64(), N: r.i64()}
		if r.err != nil {
			return
		}

		if e.N < 1 || len(s.Log) > 0 && e.At < s.Log[len(s.Log)-1].At {
			r.failf("entry %d has a log that does not go forward", r.count)

			return
		}

		s.Log = append(s.Log, e)
	}
}

// end checks that all of the file was read as it was written.
func (r *snapshotReader) end() {
	want := r.sum
	r.read(4)

	if got := r.u32(); r.err == nil && got != want {
		r.failf("its checksum is %08x and should be %08x", got, want)
	}
}

// restore adds a ledger, and reports whether it is the first of its key.
func (s *Store) restore(id keyID, state *ledger.State) bool {
	sh := s.shard(id)

	if _, found := sh.table.find(id); found {
		return false
	}

	sh.counts.leases += int64(len(state.Leases))
	sh.insert(sh.last, sh.record(id, state))

	return true
}

// read reads the n bytes that the next calls take.
func (r *snapshotReader) read(n int) {
	r.rest = r.buf[:n]

	if r.err == nil {
		if _, err := io.ReadFull(r.in, r.rest); err != nil {
			r.failf("it ends, or cannot be read on, in entry %d: %w", r.count, err)
		}
	}

	if r.err != nil {
		clear(r.rest)
	}

	r.sum = crc32.Update(r.sum, r.table, r.rest)
}

func (r *snapshotReader) bytes(n int) []byte {
	b := r.rest[:n]
	r.rest = r.rest[n:]

	return b
}

func (r *snapshotReader) u32() uint32 { return binary.LittleEndian.Uint32(r.bytes(4)) }
func (r *snapshotReader) u64() uint64 { return binary.LittleEndian.Uint64(r.bytes(8)) }
func (r *snapshotReader) i64() int64  { return int64(r.u64()) }

func (r *snapshotReader) failf(format string, args ...any) { r.err = fmt.Errorf(format, args...) }
