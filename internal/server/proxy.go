package server

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leaseway/leaseway/internal/proxy"
)

// RunProxy passes requests on until ctx ends, and then stops gracefully. It logs to logs, and writes the access log to stdout
// if the settings say so; the line "listening" has the addresses, as http and metrics. The error is a *UsageError when config
// cannot be used, and nil after a graceful stop.
func RunProxy(ctx context.Context, config Config, stdout, logs io.Writer) error {
	if err := config.validate(); err != nil {
		return err
	}

	s := &proxyServer{config: config, log: config.NewLogger(logs)}

	room := newRoom()
	defer room.hold()

	err := s.open(ctx, stdout)
	if err == nil {
		err = s.serve(ctx)
	}

	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = nil // asked to stop while it was still starting
	}

	return errors.Join(err, s.close(context.WithoutCancel(ctx)))
}

// proxyServer is a proxy with its listeners, in the order in which it is opened. What was not opened is nil.
type proxyServer struct {
	config Config
	log    *slog.Logger
	panics atomic.Int64 // recovered in the handlers of metrics

	follower follower
	identity *identity
	engine   *engine
	ready    *readiness
	access   *accessFile
	proxy    *proxy.Proxy

	listener, metricsListener net.Listener // the second is nil without --metrics-listen
	http, metrics             *http.Server
	cut                       context.CancelFunc // cuts off requests under way
}

func (s *proxyServer) open(ctx context.Context, stdout io.Writer) error {
	p := s.config.Proxy
	s.follower = follower{log: s.log, poll: pollEvery, look: s.config.Look}

	shared := server{config: s.config, log: s.log, follower: s.follower}
	if err := problems(s.config.checkDataDir(), shared.openAccess()); err != nil {
		return err
	}

	s.identity, s.follower = shared.identity, shared.follower

	// What may be wrong with the settings comes first: it leaves nothing to undo.
	settings, err := s.proxyConfig()
	if err != nil {
		return err
	}

	if _, err := proxy.New(nil, settings); err != nil {
		return misfit(err)
	}

	if s.access, err = openAccessFile(p, stdout); err != nil {
		return err
	}

	if s.engine, err = openEngine(ctx, &s.config, s.log); err != nil {
		return err
	}

	s.engine.follow(&s.follower)

	if s.access != nil {
		settings.AccessLog = s.access
	}

	if s.proxy, err = proxy.New(s.engine.limiter, settings); err != nil {
		return err
	}

	return s.openListeners(ctx)
}

// misfit is what package proxy says of its configuration, with the flag for the field.
func misfit(err error) error {
	field, ok := errors.AsType[*proxy.ConfigError](err)
	if !ok {
		return err
	}

	flags := map[string]string{
		"Upstreams": "--upstream", "Balance": "--balance", "HealthPath": "--health-path", "Origins": "--cors-origins",
		"MaxBody": "--max-body",
	}

	return usage("%s: %s", flags[field.Field], field.Problem)
}

func (s *proxyServer) openListeners(ctx context.Context) error {
	var err error

	if s.listener, err = listen(ctx, "--listen", s.config.Listen); err != nil {
		return err
	}

	if address := s.config.Proxy.MetricsListen; address != "" {
		if s.metricsListener, err = listen(ctx, "--metrics-listen", address); err != nil {
			return err
		}
	}

	s.http = s.newFront(ctx)
	s.ready = s.engine.readiness()

	if s.metricsListener != nil {
		s.metrics = newHTTPServer(s.inspection(), nil, s.log)
	}

	return nil
}

// proxyConfig is what package proxy is told. The error is a *UsageError.
func (s *proxyServer) proxyConfig() (proxy.Config, error) {
	p := s.config.Proxy

	trusted, err := s.config.trustedProxies()
	if err != nil {
		return proxy.Config{}, err
	}

	config := proxy.Config{
		Upstreams: p.Upstreams, Balance: p.Balance, Trusted: trusted, DialTimeout: p.DialTimeout, HeaderTimeout: p.UpstreamTimeout,
		BodyTimeout: p.BodyTimeout, MaxBody: p.MaxBody, HealthPath: p.HealthPath, HealthEvery: p.HealthEvery, Logger: s.log,
		Origins: p.CORSOrigins, Docs: s.config.DocsURL,
	}

	if path := p.UpstreamCA; path != "" {
		config.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		if config.TLS.RootCAs, err = readPool("--upstream-ca", path); err != nil {
			return proxy.Config{}, err
		}
	}

	return config, nil
}

// newFront is the server that clients see. A stream may last as long as it likes, so it has no time for a whole request: the
// proxy bounds the silence within one.
func (s *proxyServer) newFront(ctx context.Context) *http.Server {
	p := s.config.Proxy
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(s.identity == nil)

	// Requests under way outlive ctx, and end when they are cut off.
	base, cut := context.WithCancel(context.WithoutCancel(ctx))
	s.cut = cut

	front := &http.Server{
		Handler:           s.proxy,
		ReadHeaderTimeout: p.ReadHeaderTimeout,
		IdleTimeout:       p.IdleTimeout,
		MaxHeaderBytes:    p.MaxHeader,
		Protocols:         protocols,
		// Silent peers are asked whether they live: over HTTP/2 that is all that bounds a stream.
		HTTP2:       &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second, WriteByteTimeout: p.BodyTimeout},
		BaseContext: func(net.Listener) context.Context { return base },
		ErrorLog:    slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}

	if s.identity != nil {
		front.TLSConfig = s.identity.listens()
	}

	return front
}

// inspection serves what is said of the proxy itself. Whatever clients ask for goes to the upstreams.
func (s *proxyServer) inspection() http.Handler {
	sources := append(s.engine.sources(), forwardCounts(s.proxy, s.access), httpCounts(&s.panics), buildInfo())

	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", serveHealth)
	mux.HandleFunc("GET /readyz", s.ready.serveReady)
	mux.Handle("GET /metrics", metricsHandler(sources...))

	return recovering(mux, &s.panics, s.log)
}

// serve runs until ctx ends or a listener fails, and then drains.
func (s *proxyServer) serve(ctx context.Context) error {
	background, stop := context.WithCancel(context.WithoutCancel(ctx))

	var tasks sync.WaitGroup

	tasks.Go(func() { s.follower.run(background) })
	tasks.Go(func() { s.engine.run(background) })
	tasks.Go(func() { s.proxy.Run(background) })

	if s.access != nil {
		tasks.Go(func() { s.access.run(background) })
	}

	failed := make(chan error, 2)

	tasks.Go(func() { failed <- serveOn("--listen", s.http, s.listener) })

	address := ""

	if s.metrics != nil {
		address = s.metricsListener.Addr().String()

		tasks.Go(func() { failed <- serveOn("--metrics-listen", s.metrics, s.metricsListener) })
	}

	s.log.Info("listening", "http", s.listener.Addr().String(), "metrics", address, "tls", s.identity != nil,
		"upstreams", s.config.Proxy.Upstreams, "version", Version())

	var err error

	select {
	case <-ctx.Done():
	case err = <-failed:
	}

	s.drain(background)
	stop()
	tasks.Wait()

	return err
}

// drain takes no new requests, waits for those under way, upgraded connections included, and cuts off the rest.
func (s *proxyServer) drain(ctx context.Context) {
	within := s.config.Proxy.DrainTimeout
	s.log.Info("stopping", "within", within.String(), "inFlight", s.proxy.Stats().InFlight)
	s.ready.draining.Store(true)

	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()

	err := s.http.Shutdown(ctx)

	// An upgraded connection is no longer the server's, so its end is waited for here.
	if !waitUntil(ctx, func() bool { return s.proxy.Stats().InFlight == 0 }) || err != nil {
		s.log.Warn("requests under way were cut off", "inFlight", s.proxy.Stats().InFlight)
		s.cut()

		_ = s.http.Close()
	}

	if s.metrics != nil {
		_ = s.metrics.Close()
	}

	s.cut()
}

// waitUntil looks now and then whether done; it reports false when ctx ended first.
func waitUntil(ctx context.Context, done func() bool) bool {
	const often = 20 * time.Millisecond

	tick := time.NewTicker(often)
	defer tick.Stop()

	for !done() {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}

	return true
}

// close gives leases back and keeps the counts, whatever was opened.
func (s *proxyServer) close(ctx context.Context) error {
	for _, listener := range []net.Listener{s.listener, s.metricsListener} {
		if listener != nil {
			_ = listener.Close() // mostly closed already, by its server
		}
	}

	if s.cut != nil {
		s.cut()
	}

	if s.proxy != nil {
		s.proxy.Close()
	}

	s.access.close()

	return s.engine.finish(ctx, s.log)
}

// forwardCounts are what became of requests, and how the upstreams stand.
func forwardCounts(p *proxy.Proxy, access *accessFile) source {
	return func(s *scrape) {
		stats := p.Stats()

		for class, n := range stats.Statuses {
			name := "other"
			if class > 0 {
				name = strconv.Itoa(class) + "xx"
			}

			s.counter("proxy_requests_total", "Requests, by the status that they were answered with.", n, label{"status", name})
		}

		s.gauge("proxy_in_flight", "Requests that are being served, upgraded connections included.", stats.InFlight)
		s.gauge("proxy_upgraded", "Of them, those that speak another protocol, such as WebSockets.", stats.Upgraded)
		s.counter("proxy_retries_total", "Times that another upstream was asked, since one could not be reached.", stats.Retries)
		s.counter("recovered_panics_total", panicsHelp, stats.Panics, label{"in", "proxy"})

		for i := range stats.Upstreams {
			u := &stats.Upstreams[i]
			of := label{"upstream", u.URL}

			s.gauge("upstream_in_service", "1 while an upstream is sent requests.", flag(u.InService), of)
			s.gauge("upstream_in_flight", "Requests that an upstream works on.", u.InFlight, of)
			s.counter("upstream_requests_total", "Requests sent to an upstream.", u.Requests, of)
			s.counter("upstream_failures_total", "Of them, those that it could not be reached for, or did not answer.", u.Failures, of)
			s.counter("upstream_probes_total", "Probes of an upstream.", u.Probes, of)
			s.counter("upstream_probes_failed_total", "Of them, those that failed.", u.BadProbes, of)
		}

		if access != nil {
			lines, lost := access.counts()
			s.counter("access_log_lines_total", "Lines of the access log.", lines)
			s.counter("access_log_failures_total", "Times that lines of the access log could not be written.", lost)
		}
	}
}
