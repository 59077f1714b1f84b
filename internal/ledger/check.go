package ledger

import (
	"fmt"

	"github.com/leaseway/leaseway/internal/rate"
)

// Check returns an error that names the number which a ledger cannot count with exactly. A
// store refuses such terms, so that nothing below overflows.
func (t *Terms) Check() error {
	switch b := t.Bucket; {
	case t.Algorithm > rate.Concurrency:
		return fmt.Errorf("terms: there is no algorithm %d", t.Algorithm)
	case t.Share < 0 || t.Share > 100:
		return fmt.Errorf("terms: the share of %d%% is not within 0 and 100", t.Share)
	case t.Length < 0 || t.Length > rate.MaxProduct:
		return fmt.Errorf("terms: the window of %d µs is not within 0 and %d", t.Length, int64(rate.MaxProduct))
	case t.Calendar != (Calendar{}) && (t.Calendar.Start >= t.Calendar.End || t.Calendar.End >= t.Calendar.Next):
		return fmt.Errorf("terms: the calendar window %+v does not go forward", t.Calendar)
	case b.P < 1 || b.Q < 1 || b.Burst < 1:
		return fmt.Errorf("terms: a token each %d/%d µs and a burst of %d must be positive: make the bucket with rate.NewBucket",
			b.P, b.Q, b.Burst)
	case b.Q > rate.MaxLimit || b.P > rate.MaxProduct/b.Burst:
		return fmt.Errorf("terms: a token each %d/%d µs and a burst of %d cannot be counted exactly: make the bucket with rate.NewBucket",
			b.P, b.Q, b.Burst)
	case t.TTL < 0 || t.TTL > rate.MaxProduct:
		return fmt.Errorf("terms: the lease TTL of %d µs is not within 0 and %d", t.TTL, int64(rate.MaxProduct))
	default:
		return nil
	}
}
