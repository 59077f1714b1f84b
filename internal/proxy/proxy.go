// Package proxy is a reverse proxy that limits what it passes on: HTTP/1.1, HTTP/2 and gRPC, WebSockets and event streams.
//
//	client ──▶ access log ──▶ leasewayhttp: Limiter.Decide ──allowed──▶ httputil.ReverseProxy ──▶ fleet: pick an upstream
//	                                │ refused                               ▲                        │ cannot be reached
//	                                ▼                                       │                        ▼
//	                        429, 503 with Leaseway-Reason               answer, streamed         another one, or 502, 504
//
// An upstream is in service, or out of it after failures in a row; requests and, if asked for, probes bring it back:
//
//	in service ──3 failures, or 2 failed probes──▶ out of service
//	     ▲                                              │ 5 s passed, or with probes: 2 that succeed
//	     └──────────────────────────────────────────────┘
//
// What the proxy adds to net/http is policy: which upstream, whose address, how long to wait, what to say when nobody answers.
// Parsing stays net/http's, which refuses requests that two parsers could read differently. The package's neighbours are
// leasewayhttp, which decides through the same Limiter as every door, internal/accesslog, whose lines it writes, and
// internal/server above, which has the listeners and the files.
package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/leasewaygrpc"
	"github.com/leaseway/leaseway/leasewayhttp"
)

// flushWithin is how long a piece of an answer waits for more of it. Short answers are complete before that, and leave in one piece.
const flushWithin = 10 * time.Millisecond

// Config is what a Proxy is made of. Zero values are the defaults that the fields name.
type Config struct {
	Upstreams []string       // http, https or h2c URLs without a path; at least one
	Balance   string         // RoundRobin, the default, or LeastInFlight
	Trusted   []netip.Prefix // peers whose X-Forwarded-* are believed and kept
	Origins   []string       // whose pages may read refusals in browsers, such as https://app.example.com; "*" for all
	Docs      string         // URL that refusals link to; "" for none

	TLS           *tls.Config   // for https upstreams; nil trusts the system's roots
	DialTimeout   time.Duration // to connect to an upstream; 0 is 5 s
	HeaderTimeout time.Duration // until the header of its answer, once it has the request; 0 is 60 s
	BodyTimeout   time.Duration // of a client's silence within a body, or of not taking an answer; 0 is 60 s
	MaxBody       int64         // bytes of a request's body, but for gRPC, whose streams have no end; 0 is no bound

	HealthPath  string        // path that probes ask upstreams for; "" has none
	HealthEvery time.Duration // between probes; 0 is 5 s

	AccessLog Recorder // nil for none
	Logger    *slog.Logger
}

// Proxy passes on what a Limiter allows. It is an http.Handler, safe for concurrent use. Run it, too.
type Proxy struct {
	limiter *leaseway.Limiter
	config  Config
	fleet   *fleet
	buffers sync.Pool

	limited, limitedGRPC http.Handler // the same limits; only how a refusal is said differs

	inFlight, upgraded, panics atomic.Int64
	statuses                   [6]atomic.Int64 // answers by the first digit of their status; 0 has the rest
}

// ConfigError is a field of a Config that cannot be used.
type ConfigError struct {
	Field   string // its name, such as Upstreams
	Problem string // what is wrong with it, and what to write instead
}

// Error is the field and the problem.
func (e *ConfigError) Error() string { return e.Field + ": " + e.Problem }

func misfit(field, format string, args ...any) error {
	return &ConfigError{Field: field, Problem: fmt.Sprintf(format, args...)}
}

// New returns a Proxy that asks limiter. The error is a *ConfigError.
func New(limiter *leaseway.Limiter, config Config) (*Proxy, error) {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	config = withDefaults(config)
	if config.MaxBody < 0 {
		return nil, misfit("MaxBody", "%d is negative: 0 is no bound", config.MaxBody)
	}
	for _, origin := range config.Origins {
		if !isOrigin(origin) {
			return nil, misfit("Origins", "%q is no origin: write what browsers send, such as https://app.example.com, or *", origin)
		}
	}
	fleet, err := newFleet(&config)
	if err != nil {
		return nil, err
	}
	p := &Proxy{limiter: limiter, config: config, fleet: fleet, buffers: sync.Pool{New: newBuffer}}
	forward := &httputil.ReverseProxy{
		Rewrite:        p.rewrite,
		Transport:      fleet,
		ModifyResponse: p.mend,
		ErrorHandler:   p.fail,
		BufferPool:     p,
		// An answer whose length is known may come slowly, too. Others, and events, are sent on at once.
		FlushInterval: flushWithin,
		// What becomes of single connections is counted, not logged.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	passOn := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if e := exchangeOf(r.Context()); e != nil {
			e.keepFields(w.Header())
		}
		forward.ServeHTTP(w, r)
	})
	limited := func(opts ...leasewayhttp.Option) http.Handler {
		opts = append(opts, leasewayhttp.WithTrustedProxies(config.Trusted...), leasewayhttp.WithCORS(config.Origins...),
			leasewayhttp.WithDocs(config.Docs), leasewayhttp.WithLogger(config.Logger))
		return leasewayhttp.New(limiter, opts...).Handler(passOn)
	}
	interceptors := leasewaygrpc.New(limiter, leasewaygrpc.WithDocs(config.Docs))
	p.limited, p.limitedGRPC = limited(), limited(leasewayhttp.WithDenied(
		func(w http.ResponseWriter, _ *http.Request, d leaseway.Decision) { refuseGRPC(interceptors, w, d) }))
	return p, nil
}

// isOrigin tells what browsers send as Origin, or an asterisk for all of them.
func isOrigin(text string) bool {
	u, err := url.Parse(text)
	return text == "*" || err == nil && u.Scheme != "" && u.Host != "" && strings.TrimSuffix(text, "/") == u.Scheme+"://"+u.Host
}

func withDefaults(c Config) Config {
	for _, d := range []struct {
		value    *time.Duration
		standard time.Duration
	}{
		{&c.DialTimeout, 5 * time.Second},
		{&c.HeaderTimeout, time.Minute},
		{&c.BodyTimeout, time.Minute},
		{&c.HealthEvery, 5 * time.Second},
	} {
		if *d.value <= 0 {
			*d.value = d.standard
		}
	}
	return c
}

// Run probes the upstreams, if that was asked for, until ctx ends.
func (p *Proxy) Run(ctx context.Context) { p.fleet.run(ctx) }

// Close ends the idle connections to upstreams.
func (p *Proxy) Close() { p.fleet.close() }

// ServeHTTP answers a request: what the rules allow by an upstream, the rest itself. When the answer of an upstream breaks
// off it panics with http.ErrAbortHandler, so that the client sees that, too.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e := &exchange{proxy: p, began: time.Now(), record: record{ResponseWriter: w, timeout: p.config.BodyTimeout}}
	e.record.deadlines = r.ProtoMajor == 1
	if isGRPC(r.Header) {
		e.record.grpc = r.Header.Get("Content-Type")
	}
	p.inFlight.Add(1)
	defer p.ended(e, r)
	e.record.extend() // net/http writes, too: that the body may come

	if r.Method == http.MethodConnect {
		writeProblem(&e.record, http.StatusMethodNotAllowed, "This server passes requests on to an API; it opens no tunnels.")
		return
	}
	if most := p.config.MaxBody; most > 0 && r.ContentLength > most && e.record.grpc == "" {
		refuseBody(&e.record, r)
		return
	}
	inner := r.WithContext(context.WithValue(r.Context(), exchangeKey{}, e))
	if isUpgrade(r.Header) {
		p.upgraded.Add(1)
		defer p.upgraded.Add(-1)
	} else if r.ContentLength != 0 {
		inner.Body = p.bounded(e, inner)
	}
	if e.record.grpc != "" {
		p.limitedGRPC.ServeHTTP(&e.record, inner)
		return
	}
	p.limited.ServeHTTP(&e.record, inner)
}

// ended counts and logs a request, however it went. A bug costs its own request and no other.
func (p *Proxy) ended(e *exchange, r *http.Request) {
	cause := recover()
	abort := cause != nil
	if err, isError := cause.(error); abort && (!isError || !errors.Is(err, http.ErrAbortHandler)) {
		p.panics.Add(1)
		p.config.Logger.Error("a panic was recovered", "panic", cause, "method", r.Method)
		if abort = e.record.status != 0; !abort {
			writeProblem(&e.record, http.StatusInternalServerError, "This is a bug in Leaseway; the server's log says more.")
		}
	}
	e.record.extend() // and, after this, the end of what was streamed
	p.inFlight.Add(-1)
	status := e.record.status
	if status == 0 {
		status = http.StatusOK // as net/http has it
		if r.Context().Err() != nil {
			status = statusClientGone
		}
	}
	class := status / 100
	if class >= len(p.statuses) {
		class = 0
	}
	p.statuses[class].Add(1)
	if p.config.AccessLog != nil {
		p.config.AccessLog.Record(e.served(r, status))
	}
	if abort {
		panic(http.ErrAbortHandler)
	}
}

// Get and Put are the buffers through which answers are copied, for httputil.
func (p *Proxy) Get() []byte { return *p.buffers.Get().(*[]byte) } //nolint:forcetypeassert // the pool holds nothing else

// Put takes a buffer back.
func (p *Proxy) Put(b []byte) { p.buffers.Put(&b) }

func newBuffer() any {
	b := make([]byte, 32<<10)
	return &b
}

// isUpgrade says whether the connection is asked to speak another protocol, such as that of WebSockets.
func isUpgrade(h http.Header) bool {
	return h.Get("Upgrade") != "" && strings.Contains(strings.ToLower(h.Get("Connection")), "upgrade")
}

// Stats are counts since the start, and how things stand.
type Stats struct {
	InFlight  int64 // requests that are being served, upgraded connections included
	Upgraded  int64 // of them, connections that speak, or ask to speak, another protocol
	Panics    int64 // bugs that were contained
	Retries   int64 // requests that another upstream was asked for, since one could not be reached
	Statuses  [6]int64
	Upstreams []UpstreamStats
}

// UpstreamStats is how one upstream stands.
type UpstreamStats struct {
	URL       string
	InService bool
	InFlight  int64
	Requests  int64 // that were sent to it
	Failures  int64 // of them, those that it could not be reached for, or did not answer
	Probes    int64
	BadProbes int64
}

// Stats returns the counts. Statuses is by the first digit; 0 has those that are none of 1 to 5.
func (p *Proxy) Stats() Stats {
	s := Stats{InFlight: p.inFlight.Load(), Upgraded: p.upgraded.Load(), Panics: p.panics.Load(), Retries: p.fleet.retries.Load()}
	for i := range s.Statuses {
		s.Statuses[i] = p.statuses[i].Load()
	}
	for _, u := range p.fleet.upstreams {
		s.Upstreams = append(s.Upstreams, u.stats())
	}
	return s
}
