package rpc

import (
	"slices"

	"github.com/leaseway/leaseway/internal/ledger"
)

// sameTerms is how many of an answer's last terms are looked at for the terms of
// the next key. Keys of few rules share them; more would only be repeated.
const sameTerms = 16

// answersWire writes the answers to a batch in wire form, an Answer, with memory for the next. The zero value is ready.
type answersWire struct {
	terms []ledger.Terms // the different ones
	under []uint32       // index in terms, for each key
}

// append appends the message that is signed.
func (w *answersWire) append(b []byte, batch *ledger.Batch, answers *ledger.Answers) []byte {
	b = appendFixed(b, 1, batch.Holder)
	b = appendUint(b, 2, batch.Seq)
	b = appendFixed(b, 3, answers.Store)
	b = appendInt(b, 4, answers.Live)
	b = appendUint(b, 5, answers.Version)

	w.gather(answers)

	var at int

	for i := range w.terms {
		b, at = begin(b, 6)
		b = finish(appendTerms(b, &w.terms[i]), at)
	}

	for i := range answers.Keys {
		b, at = begin(b, 7)
		b = finish(appendKey(b, &answers.Keys[i], w.under[i]), at)
	}

	return b
}

// gather finds out which different terms the keys are under.
func (w *answersWire) gather(answers *ledger.Answers) {
	w.terms, w.under = w.terms[:0], w.under[:0]

	for i := range answers.Keys {
		at, key := 0, &answers.Keys[i]

		if key.Code == ledger.KeyOK && key.Answer.Status != ledger.Superseded {
			late := max(0, len(w.terms)-sameTerms)

			if at = slices.Index(w.terms[late:], key.Answer.Terms); at < 0 {
				at = len(w.terms) - late
				w.terms = append(w.terms, key.Answer.Terms)
			}

			at += late
		}

		w.under = append(w.under, uint32(at))
	}
}

// appendKey appends a KeyAnswer.
func appendKey(b []byte, key *ledger.KeyAnswer, terms uint32) []byte {
	b = appendInt(b, 1, encodeCode(key.Code))
	if key.Code != ledger.KeyOK {
		return b
	}

	a := &key.Answer
	if a.Status == ledger.Superseded {
		return appendBool(appendBool(b, 3, true), 22, a.Ahead)
	}

	b = appendUint(b, 2, uint64(terms))
	b = appendBool(b, 4, a.Stale)
	b = appendUint(b, 5, a.Lease)
	b = appendFixed(b, 6, a.Taken)
	b = appendInt(b, 7, a.Granted)
	b = appendInt(b, 8, a.Spent)
	b = appendSint(b, 9, a.Debt)
	b = appendInt(b, 10, a.Level.Micros)
	b = appendInt(b, 11, a.Level.Frac)
	b = appendInt(b, 12, a.Others)
	b = appendInt(b, 13, a.Holders)
	b = appendInt(b, 14, a.AskAgain)
	b = appendBool(b, 15, a.Short)
	b = appendInt(b, 16, a.TTL)
	b = appendInt(b, 17, a.Window.Left)
	b = appendInt(b, 18, a.Window.Used)
	b = appendInt(b, 19, a.Window.Prev)
	b = appendSint(b, 20, a.Window.Wait)
	b = appendInt(b, 21, a.Window.Refused)

	return appendBool(b, 22, a.Ahead)
}

// The wire's codes are the domain's plus one: 0 is kept for a field that was not sent.
func encodeCode(code ledger.KeyCode) int64 { return int64(code) + 1 }
