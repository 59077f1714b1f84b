package rpc

import (
	"errors"
	"fmt"
	"math"
	"slices"

	leasewayv1 "github.com/leaseway/leaseway/gen/leaseway/v1"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
)

// sameTerms is how many of an answer's last terms are looked at for the terms of
// the next key. Keys of few rules share them; more would only be repeated.
const sameTerms = 16

// answersWire is the answers to a batch in wire form, with the memory for the next. The zero value is ready.
type answersWire struct {
	msg   leasewayv1.Answer
	keys  []leasewayv1.KeyAnswer // what msg.Keys points to, in one piece
	terms []ledger.Terms         // as in msg.Terms
}

// encode turns the answers to a batch into the message that is signed, which is of use until the next call.
func (w *answersWire) encode(batch *ledger.Batch, answers *ledger.Answers) *leasewayv1.Answer {
	msg, n := &w.msg, len(answers.Keys)
	msg.Holder, msg.Seq, msg.Store, msg.Live, msg.RulesVersion = batch.Holder, batch.Seq, answers.Store, answers.Live, answers.Version

	clear(w.keys)
	w.keys = slices.Grow(w.keys[:0], n)[:n]
	msg.Keys, msg.Terms = slices.Grow(msg.GetKeys()[:0], n)[:n], msg.GetTerms()[:0]
	terms := w.terms[:0]

	for i := range answers.Keys {
		from, to := &answers.Keys[i], &w.keys[i]
		msg.Keys[i] = to
		to.Code = encodeCode(from.Code)

		if from.Code != ledger.KeyOK {
			continue
		}

		a := &from.Answer
		if a.Status == ledger.Superseded {
			to.Superseded, to.Ahead = true, a.Ahead

			continue
		}

		late := max(0, len(terms)-sameTerms)

		at := slices.Index(terms[late:], a.Terms)
		if at < 0 {
			at = len(terms) - late
			terms = append(terms, a.Terms)
			msg.Terms = append(msg.Terms, encodeTerms(a.Terms))
		}

		to.Terms = uint32(late + at)
		to.Stale, to.Lease, to.Taken = a.Stale, a.Lease, a.Taken
		to.Granted, to.Spent, to.Debt = a.Granted, a.Spent, a.Debt
		to.LevelUs, to.LevelFrac = a.Level.Micros, a.Level.Frac
		to.Others, to.Holders, to.AskAgainUs, to.Short = a.Others, a.Holders, a.AskAgain, a.Short
		to.TtlUs, to.LeftUs, to.Used, to.Prev = a.TTL, a.Window.Left, a.Window.Used, a.Window.Prev
		to.Refused, to.WaitUs, to.Ahead = a.Window.Refused, a.Window.Wait, a.Ahead
	}

	w.terms = terms

	return msg
}

// decodeAnswers turns a message into the answers to batch, in its Reply if it has one. The error says why the
// message as a whole is none. A single key whose values no ledger would send is
// taken as not answered, and counted in odd: it must not cost the other keys theirs.
func decodeAnswers(batch *ledger.Batch, msg *leasewayv1.Answer) (answers *ledger.Answers, odd int, err error) {
	switch {
	case len(msg.GetKeys()) != len(batch.Asks):
		return nil, 0, fmt.Errorf("keys has %d entries for %d asks", len(msg.GetKeys()), len(batch.Asks))
	case msg.GetStore() == 0:
		return nil, 0, errors.New("store is 0")
	case msg.GetLive() < 1 || msg.GetLive() > maxHolders:
		return nil, 0, fmt.Errorf("live is %d", msg.GetLive())
	case msg.GetRulesVersion() > maxNumber:
		return nil, 0, fmt.Errorf("rules_version is %d", msg.GetRulesVersion())
	}

	if answers = batch.Reply; answers == nil {
		answers = &ledger.Answers{}
	}

	answers.Store, answers.Live, answers.Version = msg.GetStore(), msg.GetLive(), msg.GetRulesVersion()
	answers.Keys = slices.Grow(answers.Keys[:0], len(msg.GetKeys()))[:len(msg.GetKeys())]
	clear(answers.Keys)

	for i, from := range msg.GetKeys() {
		to := &answers.Keys[i]

		if !decodeKey(msg, from, to) || !inBounds(to, len(batch.Asks[i].Ask.Takes)) {
			*to = ledger.KeyAnswer{Code: ledger.KeyUnavailable}
			odd++
		}

		if to.Code == ledger.KeyOK {
			to.Answer.Seq = msg.GetSeq()
		}
	}

	return answers, odd, nil
}

// decodeKey reads one key's answer; false when it names what is not there.
func decodeKey(msg *leasewayv1.Answer, from *leasewayv1.KeyAnswer, to *ledger.KeyAnswer) bool {
	code, ok := decodeCode(from.GetCode())
	to.Code = code

	if !ok || code != ledger.KeyOK {
		return ok
	}

	if from.GetSuperseded() {
		to.Answer.Status, to.Answer.Ahead = ledger.Superseded, from.GetAhead()

		return true
	}

	if int64(from.GetTerms()) >= int64(len(msg.GetTerms())) {
		return false
	}

	to.Answer = ledger.Answer{
		Ahead: from.GetAhead(), Stale: from.GetStale(), Lease: from.GetLease(), Taken: from.GetTaken(),
		Granted: from.GetGranted(), Spent: from.GetSpent(), Debt: from.GetDebt(),
		Level:  rate.Time{Micros: from.GetLevelUs(), Frac: from.GetLevelFrac()},
		Others: from.GetOthers(), Holders: from.GetHolders(), AskAgain: from.GetAskAgainUs(), Short: from.GetShort(),
		TTL: from.GetTtlUs(),
		Window: ledger.Window{
			Left: from.GetLeftUs(), Used: from.GetUsed(), Prev: from.GetPrev(), Refused: from.GetRefused(), Wait: from.GetWaitUs(),
		},
		Terms: decodeTerms(msg.GetTerms()[from.GetTerms()]),
	}

	return true
}

// inBounds reports whether a ledger could have said this to an ask with that
// many takes. A holder computes with these numbers without looking again.
func inBounds(key *ledger.KeyAnswer, takes int) bool {
	a := &key.Answer
	if key.Code != ledger.KeyOK || a.Status == ledger.Superseded {
		return true
	}

	b := a.Terms.Bucket

	// Burst × P is checked by division, since it may be what overflows.
	terms := b.P >= 1 && b.P <= rate.MaxProduct && b.Q >= 1 && b.Q <= rate.MaxLimit &&
		b.Burst >= 1 && b.Burst <= rate.MaxProduct/b.P &&
		a.Terms.TTL >= 1 && a.Terms.TTL <= maxTTL && a.Terms.Version <= maxNumber &&
		a.Terms.Algorithm <= rate.Concurrency && within(0, maxSpan, a.Terms.Length) &&
		within(0, maxSpan, a.Terms.Calendar.Start, a.Terms.Calendar.End, a.Terms.Calendar.Next)

	return terms && a.Lease <= maxNumber && (takes >= ledger.MaxTakes || a.Taken>>takes == 0) &&
		within(0, maxTokens, a.Granted, a.Spent, a.Others) && within(-maxTokens, maxTokens, a.Debt) &&
		within(0, maxSpan, a.Level.Micros, a.AskAgain) && within(0, b.Q-1, a.Level.Frac) && within(0, maxHolders, a.Holders) &&
		within(0, a.Terms.TTL, a.TTL) && within(0, maxSpan, a.Window.Left) && within(-1, maxSpan, a.Window.Wait) &&
		within(0, maxTokens, a.Window.Used, a.Window.Prev, a.Window.Refused)
}

func within(low, high int64, values ...int64) bool {
	for _, v := range values {
		if v < low || v > high {
			return false
		}
	}

	return true
}

func encodeTerms(t ledger.Terms) *leasewayv1.Terms {
	return &leasewayv1.Terms{
		PeriodUs: t.Bucket.P, Tokens: t.Bucket.Q, Burst: t.Bucket.Burst,
		Version: t.Version, Revision: t.Revision, TtlUs: t.TTL,
		Algorithm: leasewayv1.Algorithm(t.Algorithm), LengthUs: t.Length,
		CalendarStartUs: t.Calendar.Start, CalendarEndUs: t.Calendar.End, CalendarNextUs: t.Calendar.Next,
	}
}

func decodeTerms(t *leasewayv1.Terms) ledger.Terms {
	return ledger.Terms{
		Bucket:  rate.Bucket{P: t.GetPeriodUs(), Q: t.GetTokens(), Burst: t.GetBurst()},
		Version: t.GetVersion(), Revision: t.GetRevision(), TTL: t.GetTtlUs(),
		Algorithm: algorithm(t.GetAlgorithm()), Length: t.GetLengthUs(),
		Calendar: ledger.Calendar{Start: t.GetCalendarStartUs(), End: t.GetCalendarEndUs(), Next: t.GetCalendarNextUs()},
	}
}

// The wire's codes are the domain's plus one: 0 is kept for a field that was not sent.
func encodeCode(code ledger.KeyCode) leasewayv1.KeyCode { return leasewayv1.KeyCode(code) + 1 }

func decodeCode(code leasewayv1.KeyCode) (ledger.KeyCode, bool) {
	if code < leasewayv1.KeyCode_KEY_CODE_OK || code > leasewayv1.KeyCode_KEY_CODE_INVALID {
		return ledger.KeyUnavailable, false
	}

	return ledger.KeyCode(code - 1), true
}

// algorithm reads the wire's number; one that there is not becomes one that inBounds refuses.
func algorithm(a leasewayv1.Algorithm) rate.Algorithm {
	if a < 0 || a > math.MaxUint8 {
		return math.MaxUint8
	}

	return rate.Algorithm(a)
}
