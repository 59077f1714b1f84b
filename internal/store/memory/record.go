package memory

import (
	"fmt"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
)

// A record is one ledger in a table, in 32 bytes. One that Pack says in two
// numbers is all there: 56 bits of microseconds, 40 of the fraction or count and
// a reference to its terms. Its last instant is that of the shard, which never
// steps back. One with leases, a log, or two windows that count, only says where its shard keeps it.
//
//	when  tat or start, µs ······· 56 │ frac or used, upper · 8
//	rest  the same, lower · 32 │ ref ·············· 32     ref 0: no record here
//	when  index into the held ledgers · 64                ref heldRef
type record struct {
	id   keyID
	when uint64
	rest uint64
}

const (
	heldRef = 1<<32 - 1
	// maxTAT is as far as an instant goes in a record: the year 3111. Only a
	// debt of many full buckets of the slowest kind could go on beyond.
	maxTAT = 1<<55 - 1
)

// fits reports whether terms are such that their ledgers fit a record and their arithmetic is exact.
func fits(terms ledger.Terms) error {
	switch b := terms.Bucket; {
	case terms.Algorithm > rate.Concurrency:
		return fmt.Errorf("terms: there is no algorithm %d", terms.Algorithm)
	case terms.Share < 0 || terms.Share > 100:
		return fmt.Errorf("terms: the share of %d%% is not within 0 and 100", terms.Share)
	case terms.Length < 0 || terms.Length > rate.MaxProduct:
		return fmt.Errorf("terms: the window of %d µs is not within 0 and %d", terms.Length, int64(rate.MaxProduct))
	case terms.Calendar != (ledger.Calendar{}) && (terms.Calendar.Start >= terms.Calendar.End || terms.Calendar.End >= terms.Calendar.Next):
		return fmt.Errorf("terms: the calendar window %+v does not go forward", terms.Calendar)
	case b.P < 1 || b.Q < 1 || b.Burst < 1:
		return fmt.Errorf("terms: a token each %d/%d µs and a burst of %d must be positive: make the bucket with rate.NewBucket",
			b.P, b.Q, b.Burst)
	case b.Q > rate.MaxLimit || b.P > rate.MaxProduct/b.Burst:
		return fmt.Errorf("terms: a token each %d/%d µs and a burst of %d cannot be counted exactly: make the bucket with rate.NewBucket",
			b.P, b.Q, b.Burst)
	case terms.TTL < 0 || terms.TTL > rate.MaxProduct:
		return fmt.Errorf("terms: the lease TTL of %d µs is not within 0 and %d", terms.TTL, int64(rate.MaxProduct))
	default:
		return nil
	}
}

// clamp holds an instant within what a record can say.
func clamp(t rate.Time) rate.Time {
	if t.Micros > maxTAT || t.Micros < -maxTAT {
		return rate.At(max(-maxTAT, min(t.Micros, maxTAT)))
	}

	return t
}

// restRecord returns the record of a ledger without leases.
func restRecord(id keyID, tat rate.Time, ref uint32) record {
	tat = clamp(tat)
	tat.Frac = min(tat.Frac, 1<<40-1)

	return record{
		id:   id,
		when: uint64(tat.Micros)<<8 | uint64(tat.Frac)>>32,
		rest: uint64(tat.Frac)<<32 | uint64(ref),
	}
}

// heldRecord returns the record of a ledger with leases, which its shard keeps at index.
func heldRecord(id keyID, index int) record {
	return record{id: id, when: uint64(index), rest: heldRef}
}

func (r *record) ref() uint32 { return uint32(r.rest) }
func (r *record) empty() bool { return r.ref() == 0 }
func (r *record) held() bool  { return r.ref() == heldRef }
func (r *record) index() int  { return int(r.when) }

// tat returns the instant of a record at rest.
func (r *record) tat() rate.Time {
	return rate.Time{Micros: int64(r.when) >> 8, Frac: int64(r.when&0xff<<32 | r.rest>>32)}
}
