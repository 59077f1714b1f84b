package memory

import (
	"bufio"
	"context"
	"encoding/binary"
	"hash/crc32"
	"io"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
)

// The snapshot, version 3. Numbers are little-endian, 64 bits unless said
// otherwise; instants are the store's µs.
//
//	header  "LWLEDGER", version (32), id, seed (128), time, loss
//	then any number of entries, each behind a byte that says what it is:
//	  terms   p, q, burst, version, revision, ttl, algorithm (and 2^32 if whole, and 2^40 × share), length,
//	          calendar start, end and next                 numbered from 0 as they come
//	  rest    key id (128), tat µs or window's start, tat fraction or used, terms (32)
//	  held    as rest, then used before, leases, those of the window before, the start of the
//	          next window, what is used of it and its leases, then the number of a log's
//	          entries (32), then for each its instant and tokens. Leases are their number (32), then
//	          for each holder, id, granted, spent, debt, exp, seq, taken and version
//	  slots   as rest, then until when the ledger is closed, its sum and when that was, and the number
//	          of holdings (32), then for each holder, name, slots, exp, seq, version, offer and fate
//	  end     nothing
//	CRC-32C (32) of all before it
const (
	snapshotMagic   = "LWLEDGER"
	snapshotVersion = 3

	entryEnd   = 0
	entryTerms = 1
	entryRest  = 2
	entryHeld  = 3
	entrySlots = 4

	headerSize = len(snapshotMagic) + 4 + 5*8
	termsSize  = 11 * 8
	restSize   = 4*8 + 4
	leaseSize  = 9 * 8
	slotsSize  = 8 * 8

	// maxLeases bounds the leases of one ledger in a snapshot, maxLog its log.
	maxLeases = maxHolders
	maxLog    = 1 << 20

	wholeBit   = 1 << 32
	shareShift = 40
)

// A snapshotWriter writes a store's data. The first error stays and ends it all.
type snapshotWriter struct {
	out   *bufio.Writer
	err   error
	buf   []byte
	terms map[ledger.Terms]uint32
}

// writeSnapshot writes what the store has, which must be closed, as it is at now.
func (s *Store) writeSnapshot(ctx context.Context, file io.Writer, now int64) error {
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	w := &snapshotWriter{
		out:   bufio.NewWriterSize(io.MultiWriter(file, sum), 1<<16),
		terms: map[ledger.Terms]uint32{},
	}

	w.header(s, now)

	for i := range s.shards {
		if err := ctx.Err(); err != nil {
			return err
		}

		sh := &s.shards[i]
		sh.mu.Lock()
		w.shard(sh, now)
		sh.mu.Unlock()
	}

	w.entry(entryEnd)
	w.flush()

	if w.err == nil {
		w.err = w.out.Flush()
	}

	if w.err != nil {
		return w.err
	}

	return binary.Write(file, binary.LittleEndian, sum.Sum32())
}

func (w *snapshotWriter) header(s *Store, now int64) {
	w.buf = append(w.buf, snapshotMagic...)
	w.u32(snapshotVersion)
	w.u64(s.id)
	w.u64(s.seed.k0)
	w.u64(s.seed.k1)
	w.i64(now)
	w.i64(s.loss)
	w.flush()
}

func (w *snapshotWriter) shard(sh *shard, now int64) {
	for i := range sh.table.slots {
		r := &sh.table.slots[i]
		if r.empty() || sh.expire(i, now) {
			continue
		}

		if r.held() {
			sh.settle(i, now)
		}

		switch {
		case !r.held():
			w.ledger(entryRest, r.id, r.tat(), *sh.terms.at(r.ref()))
		case (*sh.held.at(r.index())).Terms.Algorithm == rate.Concurrency:
			w.slots(r.id, *sh.held.at(r.index()))
		default:
			w.held(r.id, *sh.held.at(r.index()))
		}

		w.flush()
	}
}

func (w *snapshotWriter) held(id keyID, s *ledger.State) {
	w.ledger(entryHeld, id, front(s), s.Terms)
	w.i64(s.Window.Prev)
	w.leases(s.Leases)
	w.leases(s.Old)
	w.i64(s.Ahead.Start)
	w.i64(s.Ahead.Used)
	w.leases(s.Ahead.Leases)
	w.u32(uint32(len(s.Log)))

	for _, e := range s.Log {
		w.i64(e.At)
		w.i64(e.N)
	}
}

func (w *snapshotWriter) leases(list []ledger.Lease) {
	w.u32(uint32(len(list)))

	for _, l := range list {
		w.u64(l.Holder)
		w.u64(l.ID)
		w.i64(l.Granted)
		w.i64(l.Spent)
		w.i64(l.Debt)
		w.i64(l.Exp)
		w.u64(l.Seq)
		w.u64(l.Taken)
		w.u64(l.Version)
	}
}

// whole is the bit beside the algorithm that says what a lost ledger begins with.
func whole(yes bool) uint64 {
	if yes {
		return wholeBit
	}

	return 0
}

// front returns what a ledger has in common with one at rest; see ledger.State.Unpack.
func front(s *ledger.State) rate.Time {
	if s.Terms.Algorithm.Windowed() {
		return rate.Time{Micros: s.Window.Start, Frac: s.Window.Used}
	}

	return s.TAT
}

// ledger writes what all ledgers have, and before it their terms if they are new.
func (w *snapshotWriter) ledger(kind byte, id keyID, at rate.Time, t ledger.Terms) {
	number, known := w.terms[t]
	if !known {
		number = uint32(len(w.terms))
		w.terms[t] = number

		w.entry(entryTerms)
		w.i64(t.Bucket.P)
		w.i64(t.Bucket.Q)
		w.i64(t.Bucket.Burst)
		w.u64(t.Version)
		w.u64(t.Revision)
		w.i64(t.TTL)
		w.u64(uint64(t.Algorithm) | whole(t.Whole) | uint64(t.Share)<<shareShift)
		w.i64(t.Length)
		w.i64(t.Calendar.Start)
		w.i64(t.Calendar.End)
		w.i64(t.Calendar.Next)
	}

	w.entry(kind)
	w.u64(id.hi)
	w.u64(id.lo)
	w.time(at)
	w.u32(number)
}

func (w *snapshotWriter) time(t rate.Time) {
	w.i64(t.Micros)
	w.i64(t.Frac)
}

func (w *snapshotWriter) entry(kind byte) { w.buf = append(w.buf, kind) }
func (w *snapshotWriter) u32(n uint32)    { w.buf = binary.LittleEndian.AppendUint32(w.buf, n) }
func (w *snapshotWriter) u64(n uint64)    { w.buf = binary.LittleEndian.AppendUint64(w.buf, n) }
func (w *snapshotWriter) i64(n int64)     { w.u64(uint64(n)) }

// flush hands on what was put together since the last time.
func (w *snapshotWriter) flush() {
	if w.err == nil {
		_, w.err = w.out.Write(w.buf)
	}

	w.buf = w.buf[:0]
}
