package rpc

import (
	"fmt"
	"strings"
	"unicode/utf8"

	leasewayv1 "github.com/leaseway/leaseway/gen/leaseway/v1"
	"github.com/leaseway/leaseway/internal/ledger"
)

// encodeBatch turns a batch into its wire form. Holder and Seq of the single asks are those of the batch.
func encodeBatch(batch *ledger.Batch) *leasewayv1.AcquireRequest {
	asks := make([]leasewayv1.KeyAsk, len(batch.Asks)) // one allocation for all
	req := &leasewayv1.AcquireRequest{
		Holder: batch.Holder, Name: cleanName(batch.Name), Seq: batch.Seq, RulesVersion: batch.Version,
		Asks: make([]*leasewayv1.KeyAsk, len(batch.Asks)),
	}

	for i := range batch.Asks {
		from, to := &batch.Asks[i], &asks[i]
		to.Rule, to.Key = from.Rule, []byte(from.Key)
		to.Lease, to.Spent, to.LagUs = from.Ask.Lease, from.Ask.Spent, from.Ask.Lag
		to.Debt, to.DebtAcked = from.Ask.Debt, from.Ask.DebtAcked
		to.Takes, to.RaiseTo, to.Keep = from.Ask.Takes, from.Ask.RaiseTo, from.Ask.Keep
		to.Needs, to.Ended, to.EndedSpent = from.Ask.Needs, from.Ask.Ended, from.Ask.EndedSpent
		to.Ahead, to.LagFrac, to.Slots = from.Ask.Ahead, from.Ask.LagFrac, from.Ask.Slots
		req.Asks[i] = to
	}

	return req
}

// decodeBatch turns the wire form into a batch. The fault, if any, is one for
// which no ask of the batch can be answered; what is out of bounds in single asks
// is for the coordinator to refuse, key by key.
func decodeBatch(req *leasewayv1.AcquireRequest) (*ledger.Batch, *fault) {
	switch {
	case req.GetHolder() == 0:
		return nil, &fault{"holder", "is 0; send the random incarnation that the process drew at its start"}
	case len(req.GetName()) > maxName:
		return nil, &fault{"name", fmt.Sprintf("has %d bytes; send at most %d", len(req.GetName()), maxName)}
	case req.GetSeq() == 0 || req.GetSeq() > maxNumber:
		return nil, &fault{"seq", fmt.Sprintf("is %d; count calls from 1 to 2^53 - 1", req.GetSeq())}
	case len(req.GetAsks()) > MaxAsks:
		return nil, &fault{"asks", fmt.Sprintf("has %d entries; send at most %d in one batch", len(req.GetAsks()), MaxAsks)}
	}

	batch := &ledger.Batch{
		Holder: req.GetHolder(), Name: req.GetName(), Seq: req.GetSeq(), Version: req.GetRulesVersion(),
		Asks: make([]ledger.KeyAsk, len(req.GetAsks())),
	}

	for i, from := range req.GetAsks() {
		batch.Asks[i] = ledger.KeyAsk{Rule: from.GetRule(), Key: string(from.GetKey()), Ask: ledger.Ask{
			Holder: batch.Holder, Seq: batch.Seq,
			Lease: from.GetLease(), Spent: from.GetSpent(), Lag: from.GetLagUs(),
			Debt: from.GetDebt(), DebtAcked: from.GetDebtAcked(),
			Takes: from.GetTakes(), Needs: from.GetNeeds(), RaiseTo: from.GetRaiseTo(), Keep: from.GetKeep(),
			Ended: from.GetEnded(), EndedSpent: from.GetEndedSpent(), Ahead: from.GetAhead(), LagFrac: from.GetLagFrac(),
			Slots: from.GetSlots(),
		}}
	}

	return batch, nil
}

// cleanName makes a name one that the wire takes: valid UTF-8 of bounded size.
func cleanName(name string) string {
	if len(name) > maxName {
		name = name[:maxName]
	}

	if utf8.ValidString(name) {
		return name
	}

	return strings.ToValidUTF8(name, "?")
}
