package rpc

import (
	"math"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
)

// appendTerms appends Terms.
func appendTerms(b []byte, t *ledger.Terms) []byte {
	b = appendInt(b, 1, t.Bucket.P)
	b = appendInt(b, 2, t.Bucket.Q)
	b = appendInt(b, 3, t.Bucket.Burst)
	b = appendUint(b, 4, t.Version)
	b = appendUint(b, 5, t.Revision)
	b = appendInt(b, 6, t.TTL)
	b = appendUint(b, 7, uint64(t.Algorithm))
	b = appendInt(b, 8, t.Length)
	b = appendInt(b, 9, t.Calendar.Start)
	b = appendInt(b, 10, t.Calendar.End)

	return appendInt(b, 11, t.Calendar.Next)
}

// readTerms reads Terms, and reports whether they are some.
func readTerms(message []byte) (t ledger.Terms, ok bool) {
	f := fields{rest: message}

	for {
		num, kind, more := f.next()
		if !more {
			return t, !f.broken
		}

		if kind != varintType {
			f.skip(num, kind)

			continue
		}

		switch v := f.uint(); num {
		case 1:
			t.Bucket.P = int64(v)
		case 2:
			t.Bucket.Q = int64(v)
		case 3:
			t.Bucket.Burst = int64(v)
		case 4:
			t.Version = v
		case 5:
			t.Revision = v
		case 6:
			t.TTL = int64(v)
		case 7:
			t.Algorithm = algorithm(int32(v))
		case 8:
			t.Length = int64(v)
		case 9:
			t.Calendar.Start = int64(v)
		case 10:
			t.Calendar.End = int64(v)
		case 11:
			t.Calendar.Next = int64(v)
		}
	}
}

// algorithm reads the wire's number; one that there is not becomes one that inBounds refuses.
func algorithm(a int32) rate.Algorithm {
	if a < 0 || a > math.MaxUint8 {
		return math.MaxUint8
	}

	return rate.Algorithm(a)
}
