package demo

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/rule"
)

// caller is whose budget a request spends.
type caller struct {
	key    string  // as the rule counts it
	note   string  // what is special about it; "" for nothing
	limit  float64 // tokens a second
	bucket rate.Bucket
}

// newCaller returns the caller of key under r, with its override if it has one.
func newCaller(r *rule.Rule, key, note string) (caller, error) {
	q := r.Quota([]byte(key))

	b, err := rate.NewBucket(q.Limit, q.Window.Microseconds(), q.Burst)
	if err != nil {
		return caller{}, fmt.Errorf("the limit of %s: %w", key, err)
	}

	return caller{key: key, note: note, limit: float64(q.Limit) / q.Window.Seconds(), bucket: b}, nil
}

// target is a request as it goes over the wire, but for the server.
type target struct {
	method string
	path   string // not escaped
	raw    string // escaped; "" if path needs nothing
	query  string
	header http.Header // shared, never written to
}

// request builds the target's request to the server at host.
func (t *target) request(host string) *http.Request {
	return &http.Request{
		Method: t.method, Host: host, Header: t.header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		URL: &url.URL{Scheme: "http", Host: host, Path: t.path, RawPath: t.raw, RawQuery: t.query},
	}
}

// newTarget returns the target for a path and a query of any bytes, of which the percent-encoded ones stay so. It reports
// false for what cannot be one.
func newTarget(path, query string) (*target, bool) {
	raw := escaped(path, pathBytes)
	plain, err := url.PathUnescape(raw)

	return &target{path: plain, raw: raw, query: escaped(query, queryBytes)}, err == nil
}

// shot is a request at its time.
type shot struct {
	at     time.Duration // since the traffic began
	caller int
	server int
	target *target
}

// traffic is who calls, under which rules, and when. It is the same for the same seed.
type traffic struct {
	rules   string // the document
	rule    string // the id of the rule that counts
	callers []caller
	next    func() (shot, bool) // in the order of time; false at the end
	about   []string            // what it is, in lines
	notes   []string            // what was left out of it
}

// escaped makes any bytes fit for a request line: what a target must not hold is percent-encoded, and what is encoded
// already stays as it is.
func escaped(s, allowed string) string {
	const hex = "0123456789ABCDEF"

	var b strings.Builder

	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte(allowed, c) >= 0:
			b.WriteByte(c)
		case c == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			b.WriteString(s[i : i+3])

			i += 2
		default:
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}

	return b.String()
}

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f' }

// The bytes that RFC 3986 allows in a path and in a query, beside letters and digits.
const (
	pathBytes  = "-._~!$&'()*+,;=:@/"
	queryBytes = pathBytes + "?"
)
