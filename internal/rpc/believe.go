package rpc

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/leaseway/leaseway/internal/ledger"
)

// believe checks that an answer is signed, and is to this very batch, and reads it.
func (c *Client) believe(batch *ledger.Batch, r *reply) (*ledger.Answers, *refusal) {
	if !r.present {
		return nil, &refusal{CauseMalformed, errors.New("the envelope is missing")}
	}

	if refusal := c.trust.verify(r.under(answerContext), r.envelope); refusal != nil {
		return nil, refusal
	}

	answers, odd, err := r.read(r.body, batch)

	switch {
	case errors.Is(err, errWire):
		return nil, &refusal{CauseMalformed, err}
	case r.holder != batch.Holder:
		return nil, &refusal{CauseForeign, errors.New("it is for another holder")}
	case r.seq != batch.Seq:
		return nil, &refusal{CauseForeign, fmt.Errorf("it is to call %d, and this was call %d", r.seq, batch.Seq)}
	case err != nil:
		return nil, &refusal{CauseMalformed, err}
	}

	c.refused[CauseValue].Add(int64(odd))

	return answers, nil
}

// check refuses an answer that is of no use any more: newest is the version of the
// newest rules that were known when it was asked for, took how long it needed.
func check(answers *ledger.Answers, newest uint64, took time.Duration) *refusal {
	leased := func(k ledger.KeyAnswer) bool { return k.Code == ledger.KeyOK }
	if !slices.ContainsFunc(answers.Keys, leased) {
		return nil // nothing is granted: that the coordinator is behind is for the holder to see
	}

	if answers.Version < newest {
		return &refusal{CauseOlderRules, fmt.Errorf("it was made under rules of version %d, after those of %d", answers.Version, newest)}
	}

	ttl := int64(0)
	for i := range answers.Keys {
		ttl = max(ttl, answers.Keys[i].Answer.Terms.TTL) // not cut short by a window, which is nobody's fault
	}

	if ttl > 0 && took.Microseconds() >= ttl {
		lived := time.Duration(ttl) * time.Microsecond

		return &refusal{CauseExpired, fmt.Errorf("it came after %v, when its leases of %v had ended", took, lived)}
	}

	return nil
}

// refuse counts a refusal and returns it as an error.
func (c *Client) refuse(r *replica, refusal *refusal) error {
	c.refused[refusal.cause].Add(1)

	return &RefusedError{Cause: refusal.cause, Replica: r.url, Err: refusal.err}
}
