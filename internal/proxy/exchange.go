package proxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync/atomic"
	"time"

	"github.com/leaseway/leaseway/internal/accesslog"
	"github.com/leaseway/leaseway/leasewayhttp"
)

// statusClientGone is what logs say of a request whose client did not wait for an answer, as nginx has it.
const statusClientGone = 499

// limitFields are the fields of an answer that speak of limits.
func limitFields() [5]string {
	return [5]string{"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", "Ratelimit-Policy", "Ratelimit"}
}

// exchange is one request and its answer, from beginning to end.
type exchange struct {
	proxy    *Proxy
	began    time.Time
	record   record
	upstream string      // that was asked last; "" for none
	fields   [5][]string // of limitFields, as the middleware set them
	silent   atomic.Bool // the client fell silent within its body
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange {
	e, _ := ctx.Value(exchangeKey{}).(*exchange)
	return e
}

// keepFields notes what the middleware says of the limits: an interim answer of the upstream clears the header.
func (e *exchange) keepFields(h http.Header) {
	for i, name := range limitFields() {
		e.fields[i] = h[name]
	}
}

// rewrite makes the request that an upstream gets. httputil has removed what is for this hop alone, and all that a client
// says of hops before: that is only passed on from proxies that are trusted.
func (p *Proxy) rewrite(r *httputil.ProxyRequest) {
	r.Out.URL.RawQuery = r.In.URL.RawQuery // as it came, however it is spelled
	r.Out.Host = r.In.Host
	p.passCounted(r.Out.Header)
	// Clone has copied the names that were announced, and not the map that the values come into.
	r.Out.Trailer = r.In.Trailer

	behindProxy := p.trusts(r.In.RemoteAddr)
	if behindProxy {
		r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
	}
	r.SetXForwarded()
	if !behindProxy {
		return
	}
	for _, name := range [...]string{"X-Forwarded-Host", "X-Forwarded-Proto"} {
		if said := r.In.Header[name]; len(said) > 0 {
			r.Out.Header[name] = said
		}
	}
}

// passCounted leaves of each field that says who calls the line that was counted: an upstream that takes another one, as some do,
// would serve a caller at the expense of whomever it liked.
func (p *Proxy) passCounted(h http.Header) {
	for _, name := range p.limiter.Rules().CallerHeaders() {
		if lines := h[name]; len(lines) > 1 {
			h[name] = lines[:1]
		}
	}
}

// trusts reports whether a peer is a proxy that is believed.
func (p *Proxy) trusts(peer string) bool {
	if len(p.config.Trusted) == 0 {
		return false
	}
	ip := leasewayhttp.ClientIP(&http.Request{RemoteAddr: peer}, nil)
	for _, network := range p.config.Trusted {
		if network.Contains(ip) {
			return true
		}
	}
	return false
}

// mend has an answer speak of one limiter: of Leaseway's, unless the upstream refused by one of its own.
func (p *Proxy) mend(resp *http.Response) error {
	e := exchangeOf(resp.Request.Context())
	if e == nil {
		return nil
	}
	refused := resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable
	e.record.foreign = true
	h := e.record.Header()
	for i, name := range limitFields() {
		switch theirs := len(resp.Header[name]) > 0; {
		case e.fields[i] == nil:
		case theirs && refused:
			delete(h, name)
		default:
			delete(resp.Header, name)
			h[name] = e.fields[i]
		}
	}
	return nil
}

// fail answers for an upstream that did not.
func (p *Proxy) fail(w http.ResponseWriter, r *http.Request, err error) {
	timeout := false
	if ne, ok := errors.AsType[net.Error](err); ok {
		timeout = ne.Timeout()
	}
	_, tooLarge := errors.AsType[*http.MaxBytesError](err)
	_, isRead := errors.AsType[*bodyError](err)
	e := exchangeOf(r.Context())
	// For net/http a read that fails, for whatever reason, means that the client is gone, and ends the request's context.
	silent := e != nil && e.silent.Load()
	if e != nil && !silent && r.Context().Err() != nil {
		e.record.status = statusClientGone // for the log: nobody is left to read an answer
		panic(http.ErrAbortHandler)
	}
	switch {
	case tooLarge:
		refuseBody(w, r)
	case silent:
		writeProblem(w, http.StatusRequestTimeout, "The rest of the request's body did not come in time. Send it again.")
	case isRead:
		writeProblem(w, http.StatusBadRequest, "The body of the request broke off, or is not what its header says. Send it again.")
	case timeout && !unreachable(err):
		writeProblem(w, http.StatusGatewayTimeout, "The server behind this one did not answer in time. Whether it did what was asked "+
			"is not known: repeat the request if that does no harm.")
	default:
		writeProblem(w, http.StatusBadGateway, "The server behind this one cannot be reached, or broke off. No limit was the reason.")
	}
}

// refuseBody says that a body is too large. What is left of it is not read, so the connection is of no more use.
func refuseBody(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
	writeProblem(w, http.StatusRequestEntityTooLarge, "The body of the request is larger than this server takes. Send it in parts.")
}

// served is the exchange as a line of the access log.
func (e *exchange) served(r *http.Request, status int) accesslog.Served {
	path, query, _ := strings.Cut(r.RequestURI, "?")
	if !strings.HasPrefix(path, "/") { // a whole URL, as proxies are sent them, or an authority
		path, query = r.URL.EscapedPath(), r.URL.RawQuery
	}
	s := accesslog.Served{
		Entry: accesslog.Entry{
			Time: e.began, Method: r.Method, Path: path, Query: query, Proto: r.Proto, Host: r.Host,
			Referer: r.Referer(), UserAgent: r.UserAgent(), Status: status, Bytes: e.record.bytes,
		},
		Took: time.Since(e.began), Upstream: e.upstream,
	}
	if reason := e.record.Header()["Leaseway-Reason"]; len(reason) > 0 && e.upstream == "" {
		s.Reason = reason[0]
	}
	s.ClientOf(leasewayhttp.ClientIP(r, e.proxy.config.Trusted))
	return s
}
