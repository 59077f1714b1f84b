package redis

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/internal/store"
)

// The bytes of lua/op/11_codec.lua. Numbers are little-endian.

const (
	termsWhole    = 16 // flags beside the algorithm
	termsCalendar = 32

	askAhead = 1
	askKeep  = 2
	askSlots = 4
	askLong  = 8

	answerSuperseded = 1
	answerStale      = 2
	answerAhead      = 4
	answerShort      = 8
	answerOffered    = 16 // its terms are those that were offered
	answerTerms      = 32 // its terms follow
	answerFound      = 64 // it found that data was lost
	answerOver       = 128

	maxTerms   = 4 + 64
	answerSize = 1 + 18*8
	levelSize  = 2 * 8 // of the answer to a take that is given

	// exact bounds what a script counts with: the integers that a double holds.
	exact = 1 << 53
)

// fits returns an error that names the number of the op which the script cannot count with.
func fits(op *store.Op) error {
	if err := op.Terms.Check(); err != nil {
		return err
	}

	t, a := &op.Terms, &op.Ask

	switch {
	case t.Version >= exact || t.Revision >= exact:
		return fmt.Errorf("terms: version %d and revision %d must be below 2^53", t.Version, t.Revision)
	case t.Calendar.End != 0 && (t.Length != 0 || t.Calendar.Start < 0 || t.Calendar.Next > rate.MaxProduct*2):
		return fmt.Errorf("terms: a calendar window %+v cannot have a length (%d µs) as well, or lie before 1970", t.Calendar, t.Length)
	case a.Seq >= exact || a.Lease >= exact || a.Ended >= exact:
		return fmt.Errorf("ask: seq %d, lease %d and ended %d must be below 2^53", a.Seq, a.Lease, a.Ended)
	case len(a.Takes) > ledger.MaxTakes || len(a.Needs) > ledger.MaxTakes:
		return fmt.Errorf("ask: %d takes and %d needs are more than %d", len(a.Takes), len(a.Needs), ledger.MaxTakes)
	}

	for _, n := range [...]int64{a.Spent, a.Lag, a.LagFrac, a.Debt, a.DebtAcked, a.RaiseTo, a.EndedSpent, a.Offer} {
		if n <= -exact || n >= exact {
			return fmt.Errorf("ask: %d must be below 2^53", n)
		}
	}

	return nil
}

// appendTerms appends the name of the terms, and then the terms.
func appendTerms(b []byte, t *ledger.Terms) []byte {
	at := len(b)
	b = append(b, 0, 0, 0, 0)

	kind := byte(t.Algorithm)
	if t.Whole {
		kind |= termsWhole
	}

	if t.Calendar.End != 0 {
		kind |= termsCalendar
	}

	b = append(b, kind)
	b = appendSized(b, uint64(t.Bucket.P), 7)
	b = appendSized(b, uint64(t.Bucket.Q), 5)
	b = appendSized(b, uint64(t.Bucket.Burst), 7)
	b = appendSized(b, t.Version, 7)
	b = appendSized(b, t.Revision, 7)
	b = appendSized(b, uint64(t.TTL), 7)
	b = appendSized(b, uint64(t.Share), 2)

	if c := t.Calendar; c.End != 0 {
		b = appendSized(b, uint64(c.Start), 7)
		b = appendSized(b, uint64(c.End-c.Start), 7)
		b = appendSized(b, uint64(c.Next-c.End), 7)
	} else {
		b = appendSized(b, uint64(t.Length), 7)
	}

	binary.LittleEndian.PutUint32(b[at:], crc32.ChecksumIEEE(b[at+4:]))

	return b
}

// readTerms reads what appendTerms wrote, without its name.
func readTerms(b []byte) (t ledger.Terms) {
	next := func(n int) (v uint64) {
		for i := n - 1; i >= 0; i-- {
			v = v<<8 | uint64(b[i])
		}

		b = b[n:]

		return v
	}

	kind := next(1)
	t.Algorithm, t.Whole = rate.Algorithm(kind%termsWhole), kind&termsWhole != 0
	t.Bucket.P, t.Bucket.Q, t.Bucket.Burst = int64(next(7)), int64(next(5)), int64(next(7))
	t.Version, t.Revision, t.TTL, t.Share = next(7), next(7), int64(next(7)), int64(next(2))

	if kind&termsCalendar != 0 {
		t.Calendar.Start = int64(next(7))
		t.Calendar.End = t.Calendar.Start + int64(next(7))
		t.Calendar.Next = t.Calendar.End + int64(next(7))
	} else {
		t.Length = int64(next(7))
	}

	return t
}

func appendSized(b []byte, v uint64, n int) []byte {
	for range n {
		b = append(b, byte(v))
		v >>= 8
	}

	return b
}

func appendAsk(b []byte, a *ledger.Ask) []byte {
	var flags byte
	if a.Ahead {
		flags |= askAhead
	}

	if a.Keep {
		flags |= askKeep
	}

	if a.Slots {
		flags |= askSlots
	}

	if a.Long {
		flags |= askLong
	}

	b = append(b, flags)

	for _, n := range [...]uint64{
		a.Holder, a.Name, a.Seq, a.Lease, uint64(a.Spent), uint64(a.Lag), uint64(a.LagFrac), uint64(a.Debt), uint64(a.DebtAcked),
		uint64(a.RaiseTo), a.Ended, uint64(a.EndedSpent), uint64(a.Offer),
	} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}

	b = append(b, byte(len(a.Takes)), byte(len(a.Needs)))
	for _, n := range a.Takes {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}

	for _, n := range a.Needs {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}

	return b
}

// shortAsk returns what appendAsk wrote of an ask for one take and nothing else as the 40 bytes that say it, and of any other as it is.
// Holders ask so for keys that they see seldom.
func shortAsk(ask string) string {
	const lease, debt, acked, raiseTo, takes = 1 + 3*8, 1 + 7*8, 1 + 8*8, 1 + 9*8, 1 + 13*8

	zeros := string(make([]byte, 4*8))

	if len(ask) != takes+2+8 || ask[0] != 0 || ask[lease:debt] != zeros || ask[debt:acked] != ask[acked:raiseTo] ||
		ask[raiseTo:takes] != zeros || ask[takes:takes+2] != "\x01\x00" {
		return ask
	}

	return ask[1:lease] + ask[debt:acked] + ask[takes+2:]
}

var errAnswer = errors.New("an answer of Redis cannot be read: it comes from another script")

// taken is the answer to an ask for one take and nothing else that was given it: no more is said than how full its bucket is.
func taken(b []byte, op *store.Op) ledger.Answer {
	return ledger.Answer{
		Seq: op.Ask.Seq, Taken: 1, Debt: op.Ask.Debt, Terms: op.Terms, TTL: op.Terms.TTL, Holders: 1,
		Level: rate.Time{Micros: int64(binary.LittleEndian.Uint64(b)), Frac: int64(binary.LittleEndian.Uint64(b[8:]))},
	}
}

// readAnswer reads what the script says to the ask of op, and notes what it says of lost data.
func readAnswer(b []byte, op *store.Op, lost *lost) (a ledger.Answer, err error) {
	switch {
	case len(b) == levelSize:
		return taken(b, op), nil
	case len(b) < answerSize:
		return a, errAnswer
	}

	flags := b[0]
	b = b[1:]
	next := func() int64 {
		n := int64(binary.LittleEndian.Uint64(b))
		b = b[8:]

		return n
	}

	a.Stale, a.Ahead, a.Short = flags&answerStale != 0, flags&answerAhead != 0, flags&answerShort != 0
	if flags&answerSuperseded != 0 {
		a.Status = ledger.Superseded
	}

	a.Seq, a.Lease, a.Taken = uint64(next()), uint64(next()), uint64(next())
	a.Granted, a.Spent, a.Debt, a.TTL = next(), next(), next(), next()
	a.Level = rate.Time{Micros: next(), Frac: next()}
	a.Window = ledger.Window{Left: next(), Used: next(), Prev: next(), Refused: next(), Wait: next()}
	a.Others, a.Holders, a.AskAgain = next(), next(), next()
	burst := next()

	if flags&answerFound != 0 {
		lost.slots.Add(1)
	}

	if flags&answerOver != 0 {
		if len(b) < 8 {
			return a, errAnswer
		}

		lost.tokens.Add(next())
	}

	switch {
	case flags&answerOffered != 0:
		a.Terms = op.Terms
	case flags&answerTerms != 0:
		if len(b) < 4+50 || b[4]&termsCalendar != 0 && len(b) < 4+64 {
			return a, errAnswer
		}

		a.Terms = readTerms(b[4:])
	}

	if burst != 0 {
		a.Terms.Bucket.Burst = burst // of slots, whose number may follow what holders offer
	}

	return a, nil
}
