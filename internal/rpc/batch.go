package rpc

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/leaseway/leaseway/internal/ledger"
)

// errWire is the error of a message that is none.
var errWire = errors.New("rpc: a message is no Protocol Buffers, or has text that is no UTF-8")

// encode turns a batch into its wire form, unless it is one that servers refuse.
func (c *Client) encode(batch *ledger.Batch) (*batchWire, error) {
	size := 0
	for i := range batch.Asks {
		size += len(batch.Asks[i].Key) + (len(batch.Asks[i].Ask.Takes)+len(batch.Asks[i].Ask.Needs))*maxNumberBytes + maxAskBytes
	}

	if len(batch.Asks) > MaxAsks || size > MaxBatchBytes {
		return nil, fmt.Errorf("rpc: the batch has %d asks in about %d bytes (send at most %d in %d bytes)",
			len(batch.Asks), size, MaxAsks, MaxBatchBytes)
	}

	w, _ := c.wires.Get().(*batchWire)
	w.request = appendBatch(keep(w.request), batch)

	return w, nil
}

// batchWire is a batch in wire form, and memory for its answers and for the next. It is a sender.
type batchWire struct {
	request []byte
	reply   reply
}

func (w *batchWire) wire() []byte { return w.request }

// appendBatch appends a batch in wire form, an AcquireRequest. Holder and Seq of the single asks are those of the batch.
func appendBatch(b []byte, batch *ledger.Batch) []byte {
	b = appendFixed(b, 1, batch.Holder)
	b = appendText(b, 2, cleanName(batch.Name))
	b = appendUint(b, 3, batch.Seq)
	b = appendUint(b, 4, batch.Version)

	for i := range batch.Asks {
		var at int

		b, at = begin(b, 5)
		b = finish(appendAsk(b, &batch.Asks[i]), at)
	}

	for i := range batch.Tallies[:min(len(batch.Tallies), ledger.MaxTallies)] {
		var at int

		b, at = begin(b, 6)
		b = finish(appendTally(b, &batch.Tallies[i]), at)
	}

	return appendBool(b, 7, batch.Visit)
}

// appendTally appends a Tally.
func appendTally(b []byte, tally *ledger.Tally) []byte {
	b = appendText(b, 1, tally.Rule)
	b = appendUint(b, 2, tally.Version)
	b = appendInt(b, 3, tally.Allowed)

	return appendInt(b, 4, tally.Refused)
}

// appendAsk appends a KeyAsk.
func appendAsk(b []byte, asked *ledger.KeyAsk) []byte {
	ask := &asked.Ask
	b = appendText(b, 1, asked.Rule)
	b = appendText(b, 2, asked.Key)
	b = appendUint(b, 3, ask.Lease)
	b = appendInt(b, 4, ask.Spent)
	b = appendSint(b, 5, ask.Lag)
	b = appendSint(b, 6, ask.Debt)
	b = appendSint(b, 7, ask.DebtAcked)
	b = appendPacked(b, 8, ask.Takes)
	b = appendInt(b, 9, ask.RaiseTo)
	b = appendBool(b, 10, ask.Keep)
	b = appendPacked(b, 11, ask.Needs)
	b = appendUint(b, 12, ask.Ended)
	b = appendInt(b, 13, ask.EndedSpent)
	b = appendBool(b, 14, ask.Ahead)
	b = appendInt(b, 15, ask.LagFrac)
	b = appendBool(b, 16, ask.Slots)

	b = appendInt(b, 17, ask.Offer)

	return appendBool(b, 18, ask.Long)
}

// readBatch reads an AcquireRequest into a batch, whose memory is used again; its
// texts are parts of message, which nobody may write to any more. The fault, if
// any, is one for which no ask of the batch can be answered; what is out of bounds
// in single asks is for the coordinator to refuse, key by key.
func readBatch(message []byte, batch *ledger.Batch) (*fault, error) {
	*batch = ledger.Batch{Asks: batch.Asks[:0], Reply: batch.Reply}
	f, asks, tallies := fields{rest: message}, 0, 0

	for {
		num, kind, ok := f.next()
		if !ok {
			break
		}

		switch {
		case num == 1 && kind == fixed64Type:
			batch.Holder = f.fixed()
		case num == 2 && kind == bytesType:
			batch.Name = textOf(f.text())
		case num == 3 && kind == varintType:
			batch.Seq = f.uint()
		case num == 4 && kind == varintType:
			batch.Version = f.uint()
		case num == 5 && kind == bytesType:
			asks++

			if message := f.text(); asks <= MaxAsks {
				batch.Asks = append(batch.Asks, ledger.KeyAsk{})
				f.broken = f.broken || !readAsk(message, batch.Asks)
			}
		case num == 6 && kind == bytesType:
			tallies++

			if message := f.text(); tallies <= ledger.MaxTallies {
				tally, ok := readTally(message)
				batch.Tallies = append(batch.Tallies, tally)
				f.broken = f.broken || !ok
			}
		case num == 7 && kind == varintType:
			batch.Visit = f.uint() != 0
		default:
			f.skip(num, kind)
		}
	}

	if f.broken || !utf8.ValidString(batch.Name) {
		return nil, errWire
	}

	for i := range batch.Asks { // they may have come before what they belong to
		batch.Asks[i].Ask.Holder, batch.Asks[i].Ask.Seq = batch.Holder, batch.Seq
	}

	if tallies > ledger.MaxTallies {
		return &fault{"tallies", fmt.Sprintf("has %d entries; send at most %d in one batch", tallies, ledger.MaxTallies)}, nil
	}

	return checkBatch(batch, asks), nil
}

// checkBatch returns what is wrong with a batch of so many asks as a whole.
func checkBatch(batch *ledger.Batch, asks int) *fault {
	switch {
	case batch.Holder == 0:
		return &fault{"holder", "is 0; send the random incarnation that the process drew at its start"}
	case len(batch.Name) > maxName:
		return &fault{"name", fmt.Sprintf("has %d bytes; send at most %d", len(batch.Name), maxName)}
	case batch.Seq == 0 || batch.Seq > maxNumber:
		return &fault{"seq", fmt.Sprintf("is %d; count calls from 1 to 2^53 - 1", batch.Seq)}
	case asks > MaxAsks:
		return &fault{"asks", fmt.Sprintf("has %d entries; send at most %d in one batch", asks, MaxAsks)}
	default:
		return nil
	}
}

// readTally reads a Tally, and reports whether it is one.
func readTally(message []byte) (tally ledger.Tally, ok bool) {
	f := fields{rest: message}

	for {
		num, kind, more := f.next()

		switch {
		case !more:
			return tally, !f.broken && utf8.ValidString(tally.Rule)
		case num == 1 && kind == bytesType:
			tally.Rule = textOf(f.text())
		case num == 2 && kind == varintType:
			tally.Version = f.uint()
		case num == 3 && kind == varintType:
			tally.Allowed = int64(f.uint())
		case num == 4 && kind == varintType:
			tally.Refused = int64(f.uint())
		default:
			f.skip(num, kind)
		}
	}
}

// readAsk reads a KeyAsk into the last of asks, and reports whether it is one.
func readAsk(message []byte, asks []ledger.KeyAsk) bool {
	asked := &asks[len(asks)-1]
	f := fields{rest: message}

	for {
		num, kind, ok := f.next()
		if !ok {
			break
		}

		switch {
		case kind == varintType:
			readNumber(&asked.Ask, num, f.uint())
		case kind != bytesType:
			f.skip(num, kind)
		case num == 1:
			asked.Rule = textOf(f.text())
		case num == 2:
			asked.Key = textOf(f.text())
		case num == 8:
			asked.Ask.Takes = f.packed(asked.Ask.Takes)
		case num == 11:
			asked.Ask.Needs = f.packed(asked.Ask.Needs)
		default:
			f.skip(num, kind)
		}
	}

	// Most are about the same rule as the one before.
	known := len(asks) > 1 && asks[len(asks)-2].Rule == asked.Rule

	return !f.broken && (known || utf8.ValidString(asked.Rule))
}

// readNumber takes in one field of an ask; a repeated one may come number by number.
func readNumber(ask *ledger.Ask, num int32, v uint64) {
	switch num {
	case 3:
		ask.Lease = v
	case 4:
		ask.Spent = int64(v)
	case 5:
		ask.Lag = protowire.DecodeZigZag(v)
	case 6:
		ask.Debt = protowire.DecodeZigZag(v)
	case 7:
		ask.DebtAcked = protowire.DecodeZigZag(v)
	case 8:
		ask.Takes = several(ask.Takes, v)
	case 9:
		ask.RaiseTo = int64(v)
	case 10:
		ask.Keep = v != 0
	case 11:
		ask.Needs = several(ask.Needs, v)
	case 12:
		ask.Ended = v
	case 13:
		ask.EndedSpent = int64(v)
	case 14:
		ask.Ahead = v != 0
	case 15:
		ask.LagFrac = int64(v)
	case 16:
		ask.Slots = v != 0
	case 17:
		ask.Offer = int64(v)
	case 18:
		ask.Long = v != 0
	}
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
