package proxycheck

import (
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/leaseway/leaseway/internal/check"
)

// profile is how one proxy speaks of the request that it asks about. Only the fields that it always sets are read: it passes
// others on as its client sent them, and they would be anyone's word.
type profile struct {
	method, uri string // request fields
	yesOrNo     bool   // it passes on nothing but whether the request may go on
}

// hostField is set in all profiles.
const hostField = "X-Forwarded-Host"

// profiles are the proxies by name.
//
//nolint:gochecknoglobals // a table that nothing writes to
var profiles = map[string]profile{
	"nginx":   {method: "X-Original-Method", uri: "X-Original-Uri", yesOrNo: true},
	"caddy":   {method: "X-Forwarded-Method", uri: "X-Forwarded-Uri"},
	"traefik": {method: "X-Forwarded-Method", uri: "X-Forwarded-Uri"},
	"haproxy": {method: "X-Forwarded-Method", uri: "X-Forwarded-Uri"},
}

// request is the request that r asks about, with the fields of r, or what is wrong with r and how to mend it.
func (p *profile) request(r *http.Request) (original *http.Request, problem string) {
	method, uri := r.Header[p.method], r.Header[p.uri]

	switch {
	case len(method) != 1 || method[0] == "":
		return nil, p.method + " must be there once, with the method of the client's request: have the proxy set it"
	case len(uri) != 1 || uri[0] == "":
		return nil, p.uri + " must be there once, with the path and query of the client's request: have the proxy set it"
	case len(method[0]) > check.MaxText || len(uri[0]) > check.MaxText:
		return nil, p.uri + " is longer than a request's can be"
	}

	original = r.WithContext(r.Context())
	original.Method, original.RequestURI, original.URL = method[0], uri[0], parse(uri[0])
	original.Body, original.ContentLength = http.NoBody, 0

	if host := r.Header[hostField]; len(host) == 1 && host[0] != "" {
		original.Host = host[0]
	}

	// It is the proxy's own, and no rule may make a key of it. Nobody writes to the values.
	if _, ok := r.Header[TokenField]; ok {
		original.Header = maps.Clone(r.Header)
		delete(original.Header, TokenField)
	}

	return original, ""
}

// parse reads the target of a request. One with escapes that are none is taken as it is: whoever forwards it decides what becomes
// of it, and it must be counted all the same.
func parse(uri string) *url.URL {
	if u, err := url.ParseRequestURI(uri); err == nil {
		return u
	}

	path, query, _ := strings.Cut(uri, "?")

	return &url.URL{Path: path, RawQuery: query}
}
