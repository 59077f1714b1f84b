package proxy

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The ways to choose among upstreams.
const (
	RoundRobin    = "round-robin"
	LeastInFlight = "least-in-flight"
)

// maxUpstreams bounds how many a proxy has.
const maxUpstreams = 1000

// fleet is the upstreams, as one http.RoundTripper: each request goes to one that is in service.
type fleet struct {
	upstreams  []*upstream
	least      bool
	healthPath string
	every      time.Duration
	log        *slog.Logger

	turn    atomic.Uint64
	retries atomic.Int64
}

func newFleet(c *Config) (*fleet, error) {
	f := &fleet{healthPath: c.HealthPath, every: c.HealthEvery, log: c.Logger}
	switch c.Balance {
	case "", RoundRobin:
	case LeastInFlight:
		f.least = true
	default:
		return nil, misfit("Balance", "%q is neither %s nor %s", c.Balance, RoundRobin, LeastInFlight)
	}
	if n := len(c.Upstreams); n == 0 || n > maxUpstreams {
		return nil, misfit("Upstreams", "there are %d: name 1 to %d, such as http://127.0.0.1:3000", n, maxUpstreams)
	}
	if p := c.HealthPath; p != "" {
		if _, err := url.ParseRequestURI(p); err != nil || !strings.HasPrefix(p, "/") {
			return nil, misfit("HealthPath", "%q is no path: write one such as /healthz", p)
		}
	}
	for _, text := range c.Upstreams {
		u, err := newUpstream(text, c)
		if err != nil {
			return nil, err
		}
		f.upstreams = append(f.upstreams, u)
	}
	return f, nil
}

// RoundTrip sends r to an upstream, and to another one if that cannot be reached: then nothing of r was sent.
func (f *fleet) RoundTrip(r *http.Request) (*http.Response, error) {
	var tried []*upstream
	if r.Body != nil && len(f.upstreams) > 1 {
		// A transport that cannot connect closes the body all the same, and it is still needed.
		body := r.Body
		defer body.Close()
		r.Body = io.NopCloser(body)
	}
	for {
		u := f.pick(time.Now(), tried)
		if e := exchangeOf(r.Context()); e != nil {
			e.upstream = u.name
		}
		resp, err := f.send(u, r)
		if err == nil {
			return resp, nil
		}
		tried = append(tried, u)
		if !unreachable(err) || len(tried) == len(f.upstreams) || r.Context().Err() != nil {
			return nil, err
		}
		f.retries.Add(1)
	}
}

// send sends r to u, whose request it is until its answer ends.
func (f *fleet) send(u *upstream, r *http.Request) (*http.Response, error) {
	r.URL.Scheme, r.URL.Host = u.scheme, u.host
	u.requests.Add(1)
	u.inFlight.Add(1)
	resp, err := u.transport.RoundTrip(r)
	if err != nil {
		u.inFlight.Add(-1)
		// What the client did, or did not do, is not the upstream's failure.
		if r.Context().Err() == nil && !isOfClient(err) {
			f.failed(u, err)
		}
		return nil, err
	}
	if u.heard() {
		f.log.Info("an upstream is back in service: it answered", "upstream", u.name)
	}
	resp.Body = u.counted(resp.Body)
	return resp, nil
}

// failed notes that u did not answer. The log says so now and then, and always when that takes it out of service.
func (f *fleet) failed(u *upstream, err error) {
	now, fix := time.Now(), u.fixOf(err)
	out, due := u.failed(now), u.worthALine(now)
	if !out && !due {
		return
	}
	args := []any{"upstream", u.name, "error", err, "failures", u.failures.Load()}
	if fix != "" {
		args = append(args, "fix", fix)
	}
	if out {
		f.log.Warn("an upstream is out of service: it does not answer", args...)
	} else {
		f.log.Warn("an upstream did not answer a request", args...)
	}
}

// pick returns the upstream whose turn it is, or that has the least in flight, among those in service that were not tried.
// When none of them is in service, any has to do: a request is as good a probe as any, and one that fails was lost anyway.
func (f *fleet) pick(now time.Time, tried []*upstream) *upstream {
	if len(f.upstreams) == 1 {
		return f.upstreams[0]
	}
	n := uint64(len(f.upstreams))
	from := f.turn.Add(1)
	var best, spare *upstream
	for i := range n {
		u := f.upstreams[(from+i)%n]
		switch {
		case slices.Contains(tried, u):
		case !u.inService(now):
			if spare == nil {
				spare = u
			}
		case !f.least:
			return u
		case best == nil || u.inFlight.Load() < best.inFlight.Load():
			best = u
		}
	}
	if best == nil {
		best = spare
	}
	return best
}

// unreachable tells an error that came before anything was sent.
func unreachable(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// isOfClient tells errors of reading the request's body.
func isOfClient(err error) bool {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return true
	}
	_, ok := errors.AsType[*bodyError](err)
	return ok
}

// run probes until ctx ends.
func (f *fleet) run(ctx context.Context) {
	if f.healthPath == "" {
		<-ctx.Done()
		return
	}
	tick := time.NewTicker(f.every)
	defer tick.Stop()
	for {
		f.probe(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// probe looks at all upstreams at once, so that a slow one does not hide the others.
func (f *fleet) probe(ctx context.Context) {
	var all sync.WaitGroup
	for _, u := range f.upstreams {
		all.Go(func() {
			if u.probe(ctx, f.healthPath, f.every) {
				f.log.Warn("an upstream changed its state", "upstream", u.name, "inService", u.inService(time.Now()))
			}
		})
	}
	all.Wait()
}

func (f *fleet) close() {
	for _, u := range f.upstreams {
		u.transport.CloseIdleConnections()
	}
}

// answerBody is the body of an answer, which is in flight until it is closed.
type answerBody struct {
	io.ReadCloser

	upstream *upstream
	closed   atomic.Bool
}

// Close ends the answer.
func (b *answerBody) Close() error {
	if !b.closed.Swap(true) {
		b.upstream.inFlight.Add(-1)
	}
	return b.ReadCloser.Close()
}

// tunnelBody is that of an answer that switches protocols: what is written to it goes to the upstream.
type tunnelBody struct {
	*answerBody
	io.Writer
}

// counted returns body as one that counts in flight until its end.
func (u *upstream) counted(body io.ReadCloser) io.ReadCloser {
	b := &answerBody{ReadCloser: body, upstream: u}
	if to, ok := body.(io.Writer); ok {
		return tunnelBody{b, to}
	}
	return b
}
