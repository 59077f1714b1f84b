package memory

import "github.com/leaseway/leaseway/internal/rate"

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
