package leasewayhttp

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/rule"
)

// describe fills in req, which is blank, with what set looks at of r; it is nil before the first rules arrived.
// Header fields are passed on and not copied: the limiter only reads them.
func (m *Middleware) describe(req *leaseway.Request, r *http.Request, set *rule.Set) {
	req.Method, req.Host, req.Headers, req.Finishes = r.Method, r.Host, r.Header, true
	all := set == nil || m.config.attributes != nil // whatever somebody may look at
	if all || set.ReadsPath() {
		req.Path = escapedPath(r.URL)
	}
	viaProxy := false
	if all || set.ReadsIP() || len(m.config.trusted) > 0 {
		req.IP, viaProxy = clientIP(r, m.config.trusted)
	}
	if identity := m.identity(set); identity != nil {
		req.APIKey = apiKey(r.Header, identity.APIKey)
		req.User = user(r.Header, identity.User, viaProxy)
	}
	if values := r.Header[fieldClass]; len(values) > 0 {
		setClass(req, values[0], viaProxy)
	}
}

// attributed is req as the option changes it: a copy for the heap, which requests without the option do without.
func (m *Middleware) attributed(req leaseway.Request, r *http.Request) leaseway.Request {
	m.config.attributes(r, &req)
	return req
}

// escapedPath is u.EscapedPath, in a fraction of its time for a path in which nothing needs an escape.
func escapedPath(u *url.URL) string {
	if u.RawPath != "" || !isUnescaped(u.Path) {
		return u.EscapedPath()
	}
	return u.Path
}

// What net/url leaves as it is in a path, as bit sets of the ASCII halves.
const (
	unescapedLow  = 1<<'$' | 1<<'&' | 1<<'+' | 1<<',' | 1<<'-' | 1<<'.' | 1<<'/' | (1<<10-1)<<'0' | 1<<':' | 1<<';' | 1<<'='
	unescapedHigh = 1<<('@'-64) | (1<<26-1)<<('A'-64) | 1<<('_'-64) | (1<<26-1)<<('a'-64) | 1<<('~'-64)
)

// isUnescaped says whether nothing in path needs an escape.
func isUnescaped(path string) bool {
	// By halves there would be a branch for each byte, which a processor guesses wrong where digits stand among letters.
	unescaped := [4]uint64{unescapedLow, unescapedHigh}
	for i := range len(path) {
		if c := path[i]; unescaped[c>>6]>>(c&63)&1 == 0 {
			return false
		}
	}
	return true
}

// setClass takes in what a request says of its class. A trusted proxy is believed; anybody else can only make its own
// request matter less.
func setClass(req *leaseway.Request, text string, trusted bool) {
	class, ok := rule.ParseClass(text)
	switch {
	case !ok: // a word of another version, or nonsense: neither is a reason to refuse the request
	case trusted:
		req.Class = class
	default:
		req.LowerTo = class
	}
}

// identity is where users and API keys are named; nil without rules, when none needs them.
func (m *Middleware) identity(set *rule.Set) *rule.Identity {
	if m.config.identity != nil {
		return m.config.identity
	}
	if set != nil {
		return &set.Identity
	}
	return nil
}

// apiKey returns the first credential that the request has; "" for none.
func apiKey(h http.Header, places []rule.Credential) string {
	for i := range places {
		if places[i].Bearer {
			if token := bearer(first(h, "Authorization")); token != "" {
				return token
			}
			continue
		}
		if key := first(h, places[i].Header); key != "" {
			return key
		}
	}
	return ""
}

// user returns who a header field says the caller is, if whoever sent it is believed; "" for nobody.
func user(h http.Header, source rule.UserSource, viaProxy bool) string {
	if source.Header == "" || !source.Trusted && !viaProxy {
		return ""
	}
	return first(h, source.Header)
}

// bearer returns the token of an Authorization field; "" when it has another scheme. RFC 9110, 11.1: schemes are compared
// without regard to case.
func bearer(authorization string) string {
	const scheme = "bearer"
	if len(authorization) <= len(scheme) || authorization[len(scheme)] != ' ' || !strings.EqualFold(authorization[:len(scheme)], scheme) {
		return ""
	}
	return strings.Trim(authorization[len(scheme):], " ")
}

// first is Header.Get for a canonical name: handlers take the first of several lines too, and must see the same caller.
func first(h http.Header, canonical string) string {
	if values := h[canonical]; len(values) > 0 {
		return values[0]
	}
	return ""
}
