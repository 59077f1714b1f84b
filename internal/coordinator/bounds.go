package coordinator

import (
	"errors"
	"fmt"

	"github.com/leaseway/leaseway/internal/ledger"
)

// The bounds of what a holder may send. Beyond them an ask is refused, so that
// no arithmetic further down can overflow, in Go or in a store's own language.
const (
	// MaxAsks is the number of asks of one batch.
	MaxAsks = 1_000
	// MaxKey is the size of a key, in bytes.
	MaxKey = 64 << 10

	maxTokens  = 1 << 50       // of any count of tokens
	maxNumber  = 1<<53 - 1     // of seqs and lease ids: a store may count in float64
	maxLag     = 3_600_000_000 // µs; an older spending has long refilled
	maxRule    = 64            // bytes of a rule's id
	maxVersion = 1<<53 - 1<<40 // of a holder's rules; see Book.Raise
)

// checkBatch returns an error that names the field for which no ask of the batch can be answered.
func checkBatch(batch *ledger.Batch) error {
	switch {
	case batch == nil:
		return errors.New("coordinator: the batch is nil")
	case batch.Holder == 0:
		return errors.New("coordinator: holder is 0 (send the random incarnation that the process drew at its start)")
	case batch.Seq == 0 || batch.Seq > maxNumber:
		return fmt.Errorf("coordinator: seq is %d (count calls from 1; at most %d)", batch.Seq, uint64(maxNumber))
	case len(batch.Asks) > MaxAsks:
		return fmt.Errorf("coordinator: asks has %d entries (send at most %d in one batch)", len(batch.Asks), MaxAsks)
	default:
		return nil
	}
}

// inBounds reports whether an ask's numbers are ones that a ledger can count with.
func inBounds(asked *ledger.KeyAsk) bool {
	ask := &asked.Ask

	return len(asked.Key) <= MaxKey && len(asked.Rule) <= maxRule &&
		len(ask.Takes) <= ledger.MaxTakes && tokens(ask.Takes...) &&
		len(ask.Needs) <= ledger.MaxTakes && tokens(ask.Needs...) &&
		tokens(ask.Spent, ask.RaiseTo, ask.EndedSpent, ask.LagFrac, ask.Offer) && signed(ask.Debt) && signed(ask.DebtAcked) &&
		ask.Lease <= maxNumber
}

func tokens(counts ...int64) bool {
	for _, n := range counts {
		if n < 0 || n > maxTokens {
			return false
		}
	}

	return true
}

func signed(n int64) bool { return -maxTokens <= n && n <= maxTokens }
