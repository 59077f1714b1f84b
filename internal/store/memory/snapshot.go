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

// The snapshot, version 1. Numbers are little-endian, 64 bits unless said
// otherwise; instants are the store's µs.
//
//	header  "LWLEDGER", version (32), id, seed (128), time, loss
//	then any number of entries, each behind a byte that says what it is:
//	  terms   p, q, burst, version, revision, ttl          numbered from 0 as they come
//	  rest    key id (128), tat µs, tat fraction, terms (32)
//	  held    as rest, then the number of leases (32), then for each
//	          holder, id, granted, spent, debt, exp, seq, taken
//	  end     nothing
//	CRC-32C (32) of all before it
const (
	snapshotMagic   = "LWLEDGER"
	snapshotVersion = 1

	entryEnd   = 0
	entryTerms = 1
	entryRest  = 2
	entryHeld  = 3

	headerSize = len(snapshotMagic) + 4 + 5*8
	termsSize  = 6 * 8
	restSize   = 4*8 + 4
	leaseSize  = 8 * 8

	// maxLeases bounds the leases of one ledger in a snapshot.
	maxLeases = maxHolders
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

		if r.held() {
			w.held(r.id, sh.held.at(r.index()))
		} else {
			w.ledger(entryRest, r.id, &ledger.State{TAT: r.tat(), Terms: *sh.terms.at(r.ref())})
		}

		w.flush()
	}
}

func (w *snapshotWriter) held(id keyID, s *ledger.State) {
	w.ledger(entryHeld, id, s)
	w.u32(uint32(len(s.Leases)))

	for _, l := range s.Leases {
		w.u64(l.Holder)
		w.u64(l.ID)
		w.i64(l.Granted)
		w.i64(l.Spent)
		w.i64(l.Debt)
		w.i64(l.Exp)
		w.u64(l.Seq)
		w.u64(l.Taken)
	}
}

// ledger writes what all ledgers have, and before it their terms if they are new.
func (w *snapshotWriter) ledger(kind byte, id keyID, s *ledger.State) {
	number, known := w.terms[s.Terms]
	if !known {
		number = uint32(len(w.terms))
		w.terms[s.Terms] = number

		w.entry(entryTerms)
		w.i64(s.Terms.Bucket.P)
		w.i64(s.Terms.Bucket.Q)
		w.i64(s.Terms.Bucket.Burst)
		w.u64(s.Terms.Version)
		w.u64(s.Terms.Revision)
		w.i64(s.Terms.TTL)
	}

	w.entry(kind)
	w.u64(id.hi)
	w.u64(id.lo)
	w.time(s.TAT)
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
