package rpc

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
	"unsafe"

	leasewayv1 "github.com/leaseway/leaseway/gen/leaseway/v1"
	"github.com/leaseway/leaseway/internal/ledger"
)

// batchWire is a batch in wire form, with the memory for the next one. The zero value is ready.
type batchWire struct {
	req  leasewayv1.AcquireRequest
	asks []leasewayv1.KeyAsk // what req.Asks points to, in one piece
}

// encode turns a batch into its wire form, which is of use until the next call and as long as the batch's keys.
// Holder and Seq of the single asks are those of the batch.
func (w *batchWire) encode(batch *ledger.Batch) *leasewayv1.AcquireRequest {
	req := &w.req
	req.Holder, req.Name, req.Seq, req.RulesVersion = batch.Holder, cleanName(batch.Name), batch.Seq, batch.Version

	clear(w.asks)
	w.asks = slices.Grow(w.asks[:0], len(batch.Asks))[:len(batch.Asks)]
	req.Asks = slices.Grow(req.GetAsks()[:0], len(batch.Asks))[:len(batch.Asks)]

	for i := range batch.Asks {
		from, to := &batch.Asks[i], &w.asks[i]
		to.Rule, to.Key = from.Rule, bytesOf(from.Key)
		to.Lease, to.Spent, to.LagUs = from.Ask.Lease, from.Ask.Spent, from.Ask.Lag
		to.Debt, to.DebtAcked = from.Ask.Debt, from.Ask.DebtAcked
		to.Takes, to.RaiseTo, to.Keep = from.Ask.Takes, from.Ask.RaiseTo, from.Ask.Keep
		to.Needs, to.Ended, to.EndedSpent = from.Ask.Needs, from.Ask.Ended, from.Ask.EndedSpent
		to.Ahead, to.LagFrac, to.Slots = from.Ask.Ahead, from.Ask.LagFrac, from.Ask.Slots
		to.Offer = from.Ask.Offer
		req.Asks[i] = to
	}

	return req
}

// decodeBatch turns the wire form into a batch, whose memory is used again. The
// fault, if any, is one for which no ask of the batch can be answered; what is out
// of bounds in single asks is for the coordinator to refuse, key by key.
func decodeBatch(req *leasewayv1.AcquireRequest, batch *ledger.Batch) *fault {
	switch {
	case req.GetHolder() == 0:
		return &fault{"holder", "is 0; send the random incarnation that the process drew at its start"}
	case len(req.GetName()) > maxName:
		return &fault{"name", fmt.Sprintf("has %d bytes; send at most %d", len(req.GetName()), maxName)}
	case req.GetSeq() == 0 || req.GetSeq() > maxNumber:
		return &fault{"seq", fmt.Sprintf("is %d; count calls from 1 to 2^53 - 1", req.GetSeq())}
	case len(req.GetAsks()) > MaxAsks:
		return &fault{"asks", fmt.Sprintf("has %d entries; send at most %d in one batch", len(req.GetAsks()), MaxAsks)}
	}

	batch.Holder, batch.Name, batch.Seq, batch.Version = req.GetHolder(), req.GetName(), req.GetSeq(), req.GetRulesVersion()
	batch.Asks = slices.Grow(batch.Asks[:0], len(req.GetAsks()))[:len(req.GetAsks())]

	for i, from := range req.GetAsks() {
		batch.Asks[i] = ledger.KeyAsk{Rule: from.GetRule(), Key: textOf(from.GetKey()), Ask: ledger.Ask{
			Holder: batch.Holder, Seq: batch.Seq,
			Lease: from.GetLease(), Spent: from.GetSpent(), Lag: from.GetLagUs(),
			Debt: from.GetDebt(), DebtAcked: from.GetDebtAcked(),
			Takes: from.GetTakes(), Needs: from.GetNeeds(), RaiseTo: from.GetRaiseTo(), Keep: from.GetKeep(),
			Ended: from.GetEnded(), EndedSpent: from.GetEndedSpent(), Ahead: from.GetAhead(), LagFrac: from.GetLagFrac(),
			Slots: from.GetSlots(), Offer: from.GetOffer(),
		}}
	}

	return nil
}

// bytesOf views a key as bytes without copying it; nobody may write to them.
func bytesOf(key string) []byte {
	return unsafe.Slice(unsafe.StringData(key), len(key)) //nolint:gosec // they are only read, into a message
}

// textOf views the bytes of a message that was received as a string. Such bytes are never written to again.
func textOf(key []byte) string {
	return unsafe.String(unsafe.SliceData(key), len(key)) //nolint:gosec // see above
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
