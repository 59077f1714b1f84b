package rule

import (
	"bytes"
	"crypto/sha256"
	"strconv"
	"time"
)

// RequestLimitID is the id of the rule under which limits are counted that requests bring along. No rule of a document can have it.
const RequestLimitID = "@request.limit"

// RequestLimit is a limit that a request brings along, as a descriptor of Envoy may. It decides the request alone, instead of
// the rules that match, and each descriptor has a budget of its own under each such limit. Windows are fixed, from the epoch on.
type RequestLimit struct {
	// Requests are tokens a Window, from 0, which refuses every request, to MaxCost.
	Requests int64
	// Window is from 1 ms to 366 days, in whole microseconds.
	Window time.Duration
}

// Valid reports whether the limit is in bounds. One that is not, and nil, change nothing about a request.
func (l *RequestLimit) Valid() bool {
	return l != nil && l.Requests >= 0 && l.Requests <= MaxCost &&
		l.Window >= minWindow && l.Window <= maxWindow && l.Window%time.Microsecond == 0
}

// RequestLimits is the rule under which limits are counted that requests bring along; every set has it, none lists it. It never
// changes, so that its version is always 1: what a key may spend is in the key.
func RequestLimits() *Rule {
	// Keys that bring no limit are only those that share a budget in an outage because a table is full: they pass.
	const open = 1 << 32
	r := &Rule{
		ID: RequestLimitID, Version: 1, Algorithm: FixedWindow, Limit: open, Window: time.Second, Burst: open,
		Cost: Cost{Tokens: 1}, KeyBy: []KeyPart{{Kind: KeyGlobal}}, LeaseTTL: usualLeaseTTL, bringing: true,
	}
	r.own = r.plainQuota()
	return r
}

// AppendRequestKey appends the key whose budget a request with a valid limit of its own spends: the limit, then its domain and
// entries, or a digest of those where they are long. Two requests that differ in any of it never share one.
func AppendRequestKey(dst []byte, req *Request) []byte {
	from := len(dst)
	dst = strconv.AppendInt(dst, req.Limit.Requests, 10)
	dst = append(dst, '/')
	dst = strconv.AppendInt(dst, req.Limit.Window.Microseconds(), 10)
	dst = append(dst, limitEnd)
	described := len(dst)
	dst = appendSized(dst, req.Domain)
	for i := range req.Entries {
		dst = appendSized(dst, req.Entries[i].Key)
		dst = appendSized(dst, req.Entries[i].Value)
	}
	if len(dst)-from > MaxKey {
		sum := sha256.Sum256(dst[described:])
		dst = append(append(dst[:described], '#'), sum[:]...) // what is not a digest begins with a digit
	}
	return dst
}

// limitEnd ends the limit of a key.
const limitEnd = ':'

// appendSized appends a text behind its size, so that no other texts together read alike.
func appendSized(dst []byte, text string) []byte {
	dst = strconv.AppendInt(dst, int64(len(text)), 10)
	return append(append(dst, ' '), text...)
}

// broughtQuota is what a key of RequestLimits may spend.
func (r *Rule) broughtQuota(key []byte) Quota {
	limit, _, _ := bytes.Cut(key, []byte{limitEnd})
	requests, window, _ := bytes.Cut(limit, []byte{'/'})
	n, err := strconv.ParseInt(string(requests), 10, 64)
	us, err2 := strconv.ParseInt(string(window), 10, 64)
	if err != nil || err2 != nil || n < 1 || n > MaxCost || us < minWindow.Microseconds() || us > maxWindow.Microseconds() {
		return r.own
	}
	return Quota{Limit: n, Window: time.Duration(us) * time.Microsecond, Burst: n, LeaseTTL: r.LeaseTTL, Overridden: true}
}
