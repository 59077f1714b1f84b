// Package server wires everything into one process: settings, listeners, rules, coordinator or holder, doors, metrics, and
// the order in which they start and stop.
//
//	               ┌ HTTP ── token ── check ──┐
//	rules file ─┐  │                          ├─▶ Limiter ──▶ coordinator ──▶ memory store ◀─▶ data directory
//	            └──┼─────────── Book ─────────┼──────────────────▲
//	               └ gRPC ── token ── Check ──┘                  │
//	                          └───── Acquire, WatchRules ────────┘
//
// With --coordinator the Limiter leases from remote coordinators instead, and the right-hand side is theirs. The server is a
// holder like any other in both cases: its doors cost no call to a store.
//
// Stopping, in order: not ready; no new requests; those under way finish; leases go back; counts go into the snapshot.
//
// Its neighbours are internal/cli above, which parses arguments, and below it everything that it wires. It alone reads the
// environment and configuration files.
package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"

	"github.com/leaseway/leaseway/internal/admin"
	"github.com/leaseway/leaseway/internal/check"
	"github.com/leaseway/leaseway/internal/envoyrls"
	"github.com/leaseway/leaseway/internal/proxycheck"
	"github.com/leaseway/leaseway/internal/rpc"
)

// finishWithin bounds how long a stop waits for requests under way, and again how long for leases and counts.
const finishWithin = 10 * time.Second

// followedWithin bounds how long it waits for a file that is being read.
const followedWithin = time.Second

// Run serves until ctx ends, and then stops gracefully. It logs to logs; the line "listening" has the addresses, as http and
// grpc. The error is a *UsageError when config cannot be used, and nil after a graceful stop.
func Run(ctx context.Context, config Config, logs io.Writer) error {
	if err := config.validate(); err != nil {
		return err
	}

	s := &server{config: config, log: config.NewLogger(logs)}

	room := newRoom()
	defer room.hold()

	err := s.open(ctx)
	if err == nil {
		err = s.serve(ctx)
	}

	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = nil // asked to stop while it was still starting
	}

	return errors.Join(err, s.close(context.WithoutCancel(ctx)))
}

// NewLogger returns a logger to out as the settings, which were checked, have it. Run makes one by itself; the program may need one
// for what others say by the log of the process.
func (c *Config) NewLogger(out io.Writer) *slog.Logger {
	var level slog.Level

	_ = level.UnmarshalText([]byte(c.LogLevel)) // validate did it before

	options := &slog.HandlerOptions{Level: level}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(out, options))
	}

	return slog.New(slog.NewTextHandler(out, options))
}

// server is what runs, in the order in which it is opened. What was not opened is nil.
type server struct {
	config Config
	log    *slog.Logger
	panics atomic.Int64 // recovered in HTTP handlers

	follower follower
	tokens   *tokenFile
	identity *identity
	engine   *engine
	ready    *readiness

	httpListener, grpcListener net.Listener
	adminListener              net.Listener // nil unless the admin door has one of its own
	http, adminHTTP            *http.Server
	admin                      *admin.Door // nil for a holder
	grpc                       *rpc.Server
}

// open does everything that can fail, so that a server which listens can serve.
func (s *server) open(ctx context.Context) error {
	s.follower = follower{log: s.log, poll: pollEvery, look: s.config.Look}

	if err := problems(s.config.checkDataDir(), s.openAccess()); err != nil {
		return err
	}

	if len(s.config.Kill) > 0 {
		s.log.Warn("switched off in this process, whatever its rules say", "kill", s.config.Kill)
	}

	engine, err := openEngine(ctx, &s.config, s.log)
	if err != nil {
		return err
	}

	s.engine = engine
	s.engine.follow(&s.follower)

	if s.httpListener, err = listen(ctx, "--listen", s.config.Listen); err != nil {
		return err
	}

	if s.grpcListener, err = listen(ctx, "--grpc-listen", s.config.GRPCListen); err != nil {
		return err
	}

	if s.config.AdminListen != "" {
		if s.adminListener, err = listen(ctx, "--admin-listen", s.config.AdminListen); err != nil {
			return err
		}
	}

	return s.openDoors() //nolint:contextcheck // a scrape has no context
}

// openAccess reads who may call, and over which channel.
func (s *server) openAccess() error {
	var errs []error

	if path := s.config.TokenFile; path != "" {
		s.tokens = &tokenFile{path: path, log: s.log}
		errs = append(errs, s.tokens.open())
		s.follower.follow(path, s.tokens.refresh)
	}

	if s.config.TLSCert != "" {
		s.identity = newIdentity(&s.config, s.log)
		errs = append(errs, s.identity.open())

		for _, path := range []string{s.config.TLSCert, s.config.TLSKey, s.config.TLSClientCA} {
			if path != "" {
				s.follower.follow(path, s.identity.refresh)
			}
		}
	}

	return problems(errs...)
}

func listen(ctx context.Context, flag, address string) (net.Listener, error) {
	var config net.ListenConfig

	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w (name another address, or port 0 for a free one)", flag, err)
	}

	return netutil.LimitListener(listener, maxConnections), nil
}

// openDoors makes the doors over the engine.
func (s *server) openDoors() error {
	door := check.New(s.engine.limiter)
	s.ready = s.engine.readiness()

	tokens, err := s.openAdmin()
	if err != nil {
		return err
	}

	config := rpc.ServerConfig{Signer: s.engine.signer, Decider: decider{door: door}, Logger: s.log}
	if s.engine.coordinator != nil {
		config.Coordinator = s.engine.coordinator
	}

	if tokens != nil {
		config.Tokens = tokens
	}

	if s.admin != nil {
		config.Bare = s.admin.Bare
	}

	if s.identity != nil {
		config.TLS = s.identity.listens()
	}

	s.grpc = rpc.NewServer(config)
	envoyrls.New(s.engine.limiter, envoyrls.Config{Charge: envoyrls.Charge(s.config.RLSCharge), Docs: s.config.DocsURL}).Register(s.grpc)

	trusted, err := s.config.trustedProxies()
	if err != nil {
		return err
	}

	proxies := proxycheck.New(proxycheck.Config{Limiter: s.engine.limiter, Trusted: trusted, Docs: s.config.DocsURL, Logger: s.log})
	sources := append(s.engine.sources(),
		grpcCounts(s.grpc), httpCounts(&s.panics), proxyCounts(proxies), bareCallers(s.admin), buildInfo())
	routes := routes{
		door: door, proxies: proxies, admin: s.admin, ready: s.ready, metrics: metricsHandler(sources...),
		shadow: serveShadow(s.engine.limiter), gate: gate{tokens: tokens}, panics: &s.panics, log: s.log,
	}

	if s.admin != nil {
		routes.gate.bare, routes.gate.reads = s.admin.Bare, s.admin.Reads
	}

	s.http = newHTTPServer(routes.handler(s.adminListener != nil), s.identity, s.log)

	if s.adminListener != nil {
		s.adminHTTP = newHTTPServer(routes.adminHandler(), s.identity, s.log)
	}

	return nil
}

// serve runs until ctx ends or a listener fails, and then stops taking requests.
func (s *server) serve(ctx context.Context) error {
	// What runs beside the listeners outlives ctx: requests under way still need it.
	background, stop := context.WithCancel(context.WithoutCancel(ctx))

	var tasks sync.WaitGroup

	followed := make(chan struct{})

	go func() {
		defer close(followed)

		s.follower.run(background)
	}()

	tasks.Go(func() { s.engine.run(background) })

	failed := make(chan error, 3)

	tasks.Go(func() { failed <- serveOn("--listen", s.http, s.httpListener) })

	if s.adminHTTP != nil {
		tasks.Go(func() { failed <- serveOn("--admin-listen", s.adminHTTP, s.adminListener) })
	}

	tasks.Go(func() { failed <- s.grpc.Serve(s.grpcListener) })

	people := s.httpListener
	if s.adminListener != nil {
		people = s.adminListener
	}

	s.log.Info("listening", "http", s.httpListener.Addr().String(), "grpc", s.grpcListener.Addr().String(),
		"admin", people.Addr().String(), "tls", s.identity != nil, "token", s.tokens != nil, "version", Version())

	var err error

	select {
	case <-ctx.Done():
	case err = <-failed:
	}

	s.stop(background)
	stop()
	tasks.Wait()

	// A file system that hangs may hold up a read for ever. The process ends all the same, and the read with it.
	select {
	case <-followed:
	case <-time.After(followedWithin):
		s.log.Warn("a file that is followed cannot be read to its end: stopping without it")
	}

	return err
}

// serveOn serves until the server is shut down; with TLS if it has a configuration for it.
func serveOn(flag string, server *http.Server, listener net.Listener) error {
	var err error
	if server.TLSConfig != nil {
		err = server.ServeTLS(listener, "", "")
	} else {
		err = server.Serve(listener)
	}

	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}

	return fmt.Errorf("%s %s: %w", flag, listener.Addr(), err)
}

// stop takes no new requests and waits for those under way.
func (s *server) stop(ctx context.Context) {
	s.log.Info("stopping", "within", finishWithin.String())
	s.ready.draining.Store(true)
	s.grpc.SetServing(false)

	ctx, cancel := context.WithTimeout(ctx, finishWithin)
	defer cancel()

	var all sync.WaitGroup

	all.Go(func() { s.grpc.Stop(ctx) })

	for _, server := range []*http.Server{s.http, s.adminHTTP} {
		if server == nil {
			continue
		}

		all.Go(func() {
			if err := server.Shutdown(ctx); err != nil {
				s.log.Warn("requests under way were cut off", "error", err)

				_ = server.Close()
			}
		})
	}

	all.Wait()
}

// close gives leases back and keeps the counts, whatever was opened.
func (s *server) close(ctx context.Context) error {
	for _, listener := range []net.Listener{s.httpListener, s.grpcListener, s.adminListener} {
		if listener != nil {
			_ = listener.Close() // mostly closed already, by its server
		}
	}

	return s.engine.finish(ctx, s.log)
}

// finish closes e, if it was opened, within a bounded time.
func (e *engine) finish(ctx context.Context, log *slog.Logger) error {
	if e == nil {
		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, finishWithin)
	defer cancel()

	if err := e.close(ctx); err != nil {
		return err
	}

	log.Info("stopped")

	return nil
}
