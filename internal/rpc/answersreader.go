package rpc

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	leasewayv1 "github.com/leaseway/leaseway/gen/leaseway/v1"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
)

// answersReader reads an Answer, with memory for the next. The zero value is ready.
type answersReader struct {
	holder, seq uint64
	terms       []ledger.Terms
	keys        [][]byte // the KeyAnswers, in wire form
}

// open reads what stands around the keys into answers, and reports whether it is an Answer.
func (r *answersReader) open(message []byte, answers *ledger.Answers) bool {
	*r = answersReader{terms: r.terms[:0], keys: r.keys[:0]}
	answers.Store, answers.Live, answers.Version = 0, 0, 0
	f := fields{rest: message}

	for {
		num, kind, ok := f.next()
		if !ok {
			return !f.broken
		}

		switch {
		case num == 1 && kind == fixed64Type:
			r.holder = f.fixed()
		case num == 2 && kind == varintType:
			r.seq = f.uint()
		case num == 3 && kind == fixed64Type:
			answers.Store = f.fixed()
		case num == 4 && kind == varintType:
			answers.Live = int64(f.uint())
		case num == 5 && kind == varintType:
			answers.Version = f.uint()
		case num == 6 && kind == bytesType:
			terms, ok := readTerms(f.text())
			r.terms = append(r.terms, terms)
			f.broken = f.broken || !ok
		case num == 7 && kind == bytesType:
			r.keys = append(r.keys, f.text())
		default:
			f.skip(num, kind)
		}
	}
}

// read reads the answers to batch, in its Reply if it has one. The error says why the
// message as a whole is none. A single key whose values no ledger would send is
// taken as not answered, and counted in odd: it must not cost the other keys theirs.
func (r *answersReader) read(message []byte, batch *ledger.Batch) (answers *ledger.Answers, odd int, err error) {
	if answers = batch.Reply; answers == nil {
		answers = &ledger.Answers{}
	}

	if !r.open(message, answers) {
		return nil, 0, errWire
	}

	switch {
	case len(r.keys) != len(batch.Asks):
		return nil, 0, fmt.Errorf("keys has %d entries for %d asks", len(r.keys), len(batch.Asks))
	case answers.Store == 0:
		return nil, 0, errors.New("store is 0")
	case answers.Live < 1 || answers.Live > maxHolders:
		return nil, 0, fmt.Errorf("live is %d", answers.Live)
	case answers.Version > maxNumber:
		return nil, 0, fmt.Errorf("rules_version is %d", answers.Version)
	}

	answers.Keys = slices.Grow(answers.Keys[:0], len(r.keys))[:len(r.keys)]
	clear(answers.Keys)

	for i, message := range r.keys {
		to := &answers.Keys[i]

		well, ok := r.key(message, to)
		if !well {
			return nil, 0, errWire
		}

		if !ok || !inBounds(to, len(batch.Asks[i].Ask.Takes)) {
			*to = ledger.KeyAnswer{Code: ledger.KeyUnavailable}
			odd++
		}

		if to.Code == ledger.KeyOK {
			to.Answer.Seq = r.seq
		}
	}

	return answers, odd, nil
}

// key reads one key's answer. well is false when it is none, ok when it names what is not there.
func (r *answersReader) key(message []byte, to *ledger.KeyAnswer) (well, ok bool) {
	var (
		f          = fields{rest: message}
		a          = &to.Answer
		terms      uint32
		code       int32
		superseded bool
	)

	for {
		num, kind, more := f.next()
		if !more {
			break
		}

		switch {
		case num == 6 && kind == fixed64Type:
			a.Taken = f.fixed()

			continue
		case kind != varintType:
			f.skip(num, kind)

			continue
		}

		switch v := f.uint(); num {
		case 1:
			code = int32(v)
		case 2:
			terms = uint32(v)
		case 3:
			superseded = v != 0
		case 4:
			a.Stale = v != 0
		case 15:
			a.Short = v != 0
		case 22:
			a.Ahead = v != 0
		default:
			readAnswerNumber(a, num, v)
		}
	}

	if f.broken {
		return false, false
	}

	if to.Code, ok = decodeCode(code); !ok || to.Code != ledger.KeyOK {
		*a = ledger.Answer{}

		return true, ok
	}

	if superseded {
		*a = ledger.Answer{Status: ledger.Superseded, Ahead: a.Ahead}

		return true, true
	}

	if int64(terms) >= int64(len(r.terms)) {
		return true, false
	}

	a.Terms = r.terms[terms]

	return true, true
}

// readAnswerNumber takes in one number of a KeyAnswer.
func readAnswerNumber(a *ledger.Answer, num int32, v uint64) {
	switch num {
	case 5:
		a.Lease = v
	case 7:
		a.Granted = int64(v)
	case 8:
		a.Spent = int64(v)
	case 9:
		a.Debt = protowire.DecodeZigZag(v)
	case 10:
		a.Level.Micros = int64(v)
	case 11:
		a.Level.Frac = int64(v)
	case 12:
		a.Others = int64(v)
	case 13:
		a.Holders = int64(v)
	case 14:
		a.AskAgain = int64(v)
	case 16:
		a.TTL = int64(v)
	case 17:
		a.Window.Left = int64(v)
	case 18:
		a.Window.Used = int64(v)
	case 19:
		a.Window.Prev = int64(v)
	case 20:
		a.Window.Wait = protowire.DecodeZigZag(v)
	case 21:
		a.Window.Refused = int64(v)
	}
}

func decodeCode(code int32) (ledger.KeyCode, bool) {
	if code < int32(leasewayv1.KeyCode_KEY_CODE_OK) || code > int32(leasewayv1.KeyCode_KEY_CODE_INVALID) {
		return ledger.KeyUnavailable, false
	}

	return ledger.KeyCode(code - 1), true
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
		within(0, a.Terms.Long(), a.TTL) && within(0, maxSpan, a.Window.Left) && within(-1, maxSpan, a.Window.Wait) &&
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
