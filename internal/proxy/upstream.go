package proxy

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/leaseway/leaseway/internal/phrase"
)

// When an upstream is taken out of service, and comes back.
const (
	failuresOut = 3               // requests in a row that it could not be reached for, or did not answer
	outFor      = 5 * time.Second // without probes
	probesOut   = 2               // probes in a row
	probesIn    = 2
)

// quiet is how long the log says nothing more of single requests that an upstream did not answer.
const quiet = time.Minute

// Bounds of connections to upstreams.
const (
	maxAnswerHeader = 256 << 10 // bytes
	idlePerUpstream = 256       // connections
	idleFor         = 90 * time.Second
	pingEvery       = 30 * time.Second // on a silent HTTP/2 connection
	pingWithin      = 15 * time.Second
)

// upstream is one server that requests are passed on to.
type upstream struct {
	name         string // its URL as it was written
	scheme, host string
	transport    *http.Transport
	probed       bool // by probes: only they bring it back

	inFlight, requests, failures, probes, badProbes atomic.Int64
	row                                             atomic.Int64 // failures in a row
	speaksFirst                                     atomic.Bool  // by one of them, as servers of HTTP/2 do
	said                                            atomic.Int64 // when the log spoke of a failure, µs of the Unix epoch
	until                                           atomic.Int64 // out of service until then, µs of the Unix epoch; 0 for not
	bad, good                                       int          // probes in a row; of run alone
}

// What net/http says of a server that speaks HTTP/2 alone: it quotes the header of a frame of settings, or, where that came
// before the request was sent, tells nothing more than that there was something.
const (
	settingsFrame = `malformed HTTP response "\x00\x00`
	spokeFirst    = "readLoopPeekFailLocked: %!w(<nil>)"
)

// forever is an end of being out of service that only a probe brings.
const forever = 1<<63 - 1

func newUpstream(text string, c *Config) (*upstream, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "h2c" {
		return nil, misfit("Upstreams",
			"%q is no upstream: write http://HOST:PORT, https://HOST:PORT, or h2c://HOST:PORT for gRPC without TLS",
			phrase.Address(text))
	}
	if u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, misfit("Upstreams",
			"%q has more than a host and a port: requests keep their own paths and credentials, so leave the rest out",
			u.Redacted())
	}
	protocols := new(http.Protocols)
	scheme := u.Scheme
	switch scheme {
	case "h2c":
		protocols.SetUnencryptedHTTP2(true)
		scheme = "http"
	case "https":
		protocols.SetHTTP1(true)
		protocols.SetHTTP2(true)
	default:
		protocols.SetHTTP1(true)
	}
	config := c.TLS
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return &upstream{
		name: u.Scheme + "://" + u.Host, scheme: scheme, host: u.Host, probed: c.HealthPath != "",
		transport: &http.Transport{
			DialContext:            (&net.Dialer{Timeout: c.DialTimeout, KeepAlive: 30 * time.Second}).DialContext,
			TLSClientConfig:        config.Clone(),
			TLSHandshakeTimeout:    c.DialTimeout,
			ResponseHeaderTimeout:  c.HeaderTimeout,
			ExpectContinueTimeout:  time.Second,
			IdleConnTimeout:        idleFor,
			MaxIdleConnsPerHost:    idlePerUpstream,
			MaxResponseHeaderBytes: maxAnswerHeader,
			DisableCompression:     true, // answers pass as they are
			Protocols:              protocols,
			HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingEvery, PingTimeout: pingWithin},
		},
	}, nil
}

// inService says whether the upstream is sent requests.
func (u *upstream) inService(now time.Time) bool {
	until, at := u.until.Load(), now.UnixMicro()
	return until <= at || until != forever && until-at > outFor.Microseconds() // the clock was set back
}

// heard notes that the upstream answered a request, whatever it said: that it is there is all that is asked of it here. It reports
// whether that brings it back into service.
func (u *upstream) heard() (back bool) {
	if u.row.Load() != 0 {
		u.row.Store(0)
		u.speaksFirst.Store(false)
	}
	return !u.probed && u.until.Load() != 0 && u.until.Swap(0) != 0
}

// failed notes that it did not, and reports whether that takes it out of service.
func (u *upstream) failed(now time.Time) (out bool) {
	u.failures.Add(1)
	if u.row.Add(1) < failuresOut {
		return false
	}
	was := u.inService(now)
	end := now.Add(outFor).UnixMicro()
	if u.probed {
		end = forever
	}
	u.until.Store(end)
	return was
}

// worthALine reports whether the log has said nothing of a failure for a while, and takes it that it does now.
func (u *upstream) worthALine(now time.Time) bool {
	at, last := now.UnixMicro(), u.said.Load()
	if since := at - last; last != 0 && since >= 0 && since < quiet.Microseconds() {
		return false
	}
	return u.said.CompareAndSwap(last, at)
}

// probe asks for path once, and notes what came of it. It reports whether that changed anything.
func (u *upstream) probe(ctx context.Context, path string, within time.Duration) (changed bool) {
	ok := u.answers(ctx, path, within)
	if ctx.Err() != nil {
		return false // the proxy stops; that says nothing of the upstream
	}
	u.probes.Add(1)
	if !ok {
		u.badProbes.Add(1)
		u.bad, u.good = u.bad+1, 0
		return u.bad >= probesOut && u.until.Swap(forever) != forever
	}
	u.bad, u.good = 0, u.good+1
	if u.good < probesIn {
		return false
	}
	u.row.Store(0)
	return u.until.Swap(0) != 0
}

// answers reports whether a GET of path is answered in time, with a status below 400.
func (u *upstream) answers(ctx context.Context, path string, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.scheme+"://"+u.host+path, http.NoBody)
	if err != nil {
		return false
	}
	req.Header.Set("User-Agent", "leaseway-probe")
	resp, err := u.transport.RoundTrip(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode < http.StatusBadRequest
}

func (u *upstream) stats() UpstreamStats {
	return UpstreamStats{
		URL: u.name, InService: u.inService(time.Now()), InFlight: u.inFlight.Load(), Requests: u.requests.Load(),
		Failures: u.failures.Load(), Probes: u.probes.Load(), BadProbes: u.badProbes.Load(),
	}
}

// fixOf is what to do about an error of a server that works, and is spoken to in the wrong way, as it or one before it
// in this row of failures says; "" for any other.
func (u *upstream) fixOf(err error) string {
	if text := err.Error(); strings.Contains(text, settingsFrame) || strings.Contains(text, spokeFirst) {
		u.speaksFirst.Store(true)
	}

	if !u.speaksFirst.Load() {
		return ""
	}

	return "it answers HTTP/2, as servers of gRPC do: write h2c://" + u.host + " in --upstream"
}
