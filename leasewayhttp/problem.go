package leasewayhttp

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/phrase"
)

// roomForBody is enough for most problem documents.
const roomForBody = 512

// The problem types of draft-ietf-httpapi-ratelimit-headers, section 6; the rest have none of their own.
const (
	typeQuotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	typeReducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	typeBlank           = "about:blank"
)

// appendProblem appends the body of a refusal (RFC 9457), as encoding/json would write it. It names rules and never keys, some
// of which are secret. It is on the way of every request of a caller who runs wild, so it is one text in one buffer.
func (f *refusal) appendProblem(text []byte) []byte {
	d := f.decision
	status := StatusCode(*d)
	kind, title := kindOf(d.Reason, status)
	text = append(append(text, `{"type":"`...), kind...)
	text = append(append(text, `","title":"`...), title...)
	text = strconv.AppendInt(append(text, `","status":`...), int64(status), 10)
	text = f.appendDetail(append(text, `,"detail":"`...))
	text = append(append(text, `","reason":"`...), d.Reason.String()...)
	text = append(text, '"')
	if d.Matched() {
		text = append(appendInner(append(text, `,"rule":"`...), d.Rule), '"')
	}
	if f.docs != "" {
		text = append(appendInner(append(text, `,"docs":"`...), f.docs), '"')
	}
	if d.Matched() {
		text = strconv.AppendInt(append(text, `,"limit":`...), d.Limit, 10)
		text = strconv.AppendInt(append(text, `,"remaining":`...), d.Remaining, 10)
	}
	if f.retryAfterSec > 0 {
		text = strconv.AppendInt(append(text, `,"retryAfterSec":`...), f.retryAfterSec, 10)
	}
	if d.Matched() && kind == typeQuotaExceeded {
		text = append(appendInner(append(text, `,"violated-policies":["`...), d.Rule), `"]`...) // the draft's name
	}
	return append(text, '}')
}

// kindOf is the type and the title of a problem.
func kindOf(reason leaseway.Reason, status int) (kind, title string) {
	switch reason {
	case leaseway.ReasonOverLimit, leaseway.ReasonDelayed:
		return typeQuotaExceeded, "The limit for this caller is used up"
	case leaseway.ReasonCostExceedsLimit:
		return typeQuotaExceeded, "The request costs more than the limit"
	case leaseway.ReasonTooManyInFlight:
		return typeQuotaExceeded, "Too many requests of this caller are in flight"
	case leaseway.ReasonUnavailable:
		return typeReducedCapacity, "Limits cannot be checked at the moment"
	case leaseway.ReasonShedWorker, leaseway.ReasonShedFleet:
		return typeReducedCapacity, "Too busy for this request"
	default:
		return typeBlank, http.StatusText(status)
	}
}

// appendInner appends s as it stands between the quotes of a JSON string.
func appendInner(dst []byte, s string) []byte {
	if isPlain(s) {
		return append(dst, s...)
	}
	// A copy, so that what s is part of need not be on the heap.
	if quoted, err := json.Marshal(strings.Clone(s)); err == nil { // a string always marshals
		dst = append(dst, quoted[1:len(quoted)-1]...)
	}
	return dst
}

// isPlain says whether s is written as it is between quotes, as ids of rules are.
func isPlain(s string) bool {
	for i := range len(s) {
		switch c := s[i]; c {
		case '"', '\\', '<', '>', '&':
			return false
		default:
			if c < ' ' || c > '~' {
				return false
			}
		}
	}
	return true
}

// appendDetail says in plain words which rule refused, what it allows, when to come back and what to do. But for the rule's id
// there is nothing in it that JSON writes in another way.
func (f *refusal) appendDetail(text []byte) []byte {
	d := f.decision
	switch d.Reason {
	case leaseway.ReasonShedWorker:
		text = append(text, "This server is busy, and serves what matters more first; "...)
		return f.appendShed(text)
	case leaseway.ReasonShedFleet:
		text = append(text, "All servers together are busy, and what they have left is kept for critical requests; "...)
		return f.appendShed(text)
	case leaseway.ReasonInvalid:
		return append(text, "The request cannot be counted, since its cost is not a number of tokens. "+
			"Waiting does not help: correct the cost."...)
	default:
	}
	switch {
	case !d.Matched():
		text = append(text, "A rule"...)
	case isPlain(d.Rule):
		text = append(append(append(text, `Rule \"`...), d.Rule...), `\"`...)
	default:
		text = appendInner(append(text, "Rule "...), strconv.Quote(d.Rule))
	}
	switch d.Reason {
	case leaseway.ReasonCostExceedsLimit:
		text = append(text, " holds at most "...)
		text = strconv.AppendInt(text, d.Limit, 10)
		text = append(text, " tokens, and this request costs more. "+
			"Waiting does not help: split the request into smaller ones, or ask for a higher limit."...)
	case leaseway.ReasonTooManyInFlight:
		text = append(text, " allows "...)
		text = strconv.AppendInt(text, d.Quota, 10)
		if d.Quota == 1 {
			text = append(text, " request in flight at a time, and there is one. "+
				"Wait until it has its answer, and send one after the other"...)
		} else {
			text = append(text, " requests in flight at a time, and there are as many. "+
				"Wait until one has its answer, and send fewer in parallel"...)
		}
		text = append(text, ", or ask for a higher limit."...)
	case leaseway.ReasonBlocked:
		text = append(text, " blocks this caller. Waiting does not help: ask whoever runs this API."...)
	case leaseway.ReasonMissingKey:
		text = append(text, " needs to know who is calling, and the request does not say. "+
			"Waiting does not help: send the credential or the header that this API asks for."...)
	case leaseway.ReasonUnavailable:
		text = append(text, " cannot be checked at the moment, and lets nothing through until it can. "+
			"It is not your doing: try again in "...)
		text = append(phrase.AppendSpan(text, f.retryAfter()), '.')
	default:
		text = f.appendOverLimit(text)
	}
	return text
}

func (f *refusal) appendShed(text []byte) []byte {
	text = append(append(text, "this one is of class "...), f.decision.Class.String()...)
	text = append(text, ". It is not your doing: try again in "...)
	return append(phrase.AppendSpan(text, f.retryAfter()), '.')
}

func (f *refusal) appendOverLimit(text []byte) []byte {
	d := f.decision
	text = append(text, " allows "...)
	text = strconv.AppendInt(text, d.Quota, 10)
	text = append(text, " request"...)
	if d.Quota != 1 {
		text = append(text, 's')
	}
	text = append(text, ' ')
	if f.monthly {
		text = append(text, "a month"...)
	} else {
		text = phrase.AppendEvery(text, d.Window)
	}
	if d.Limit != d.Quota {
		text = append(text, ", and at most "...)
		text = strconv.AppendInt(text, d.Limit, 10)
		text = append(text, " at once"...)
	}
	switch {
	case d.Remaining > 0: // the request costs more than one
		text = append(text, ". This one costs more than what is left, which is "...)
		text = append(strconv.AppendInt(text, d.Remaining, 10), ". "...)
	case d.Quota == 1 && d.Limit == 1:
		text = append(text, ". It is used up. "...)
	default:
		text = append(text, ". They are used up. "...)
	}
	if f.retryAfterSec > 0 {
		text = append(text, "Try again in "...)
		text = append(phrase.AppendSpan(text, f.retryAfter()), ". "...)
	}
	return append(text, "To stay within the limit spread requests out, or ask for a higher one."...)
}

func (f *refusal) retryAfter() time.Duration { return time.Duration(f.retryAfterSec) * time.Second }
