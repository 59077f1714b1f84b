package server

import (
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/leaseway/leaseway/internal/check"
	"github.com/leaseway/leaseway/internal/rest"
)

// The bounds of HTTP connections: whoever is slower, or sends more, is cut off.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeader         = 64 << 10 // bytes
	// maxConnections is for each listener; further callers wait in the system's queue.
	maxConnections = 10_000
)

// routes are what the HTTP listener serves.
//
//	/healthz, /readyz, /openapi.json    to everyone: an orchestrator has no token, and nothing in them is secret
//	/v1/…, /metrics                     to callers with a token, when there are tokens: metrics name the rules and their traffic
type routes struct {
	door    *check.Door
	ready   *readiness
	metrics http.Handler
	tokens  *tokenFile // nil: no token is asked for
	panics  *atomic.Int64
	log     *slog.Logger
}

func (r *routes) handler() http.Handler {
	api := http.NewServeMux()
	r.door.Register(rest.New(api, Version()))
	api.HandleFunc("/v1/check", onlyBy("POST"))
	api.HandleFunc("/v1/rules/{ruleId}/check", onlyBy("POST"))
	api.HandleFunc("/v1/", notFound)

	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", serveHealth)
	mux.HandleFunc("GET /readyz", r.ready.serveReady)
	mux.Handle("GET /openapi.json", api)
	mux.Handle("GET /metrics", r.tokens.guard(r.metrics))
	mux.Handle("/v1/", r.tokens.guard(api))
	mux.HandleFunc("/", notFound)

	for _, path := range []string{"/healthz", "/readyz", "/openapi.json", "/metrics"} {
		mux.HandleFunc(path, onlyBy("GET, HEAD"))
	}

	return recovering(mux, r.panics, r.log)
}

func newHTTPServer(handler http.Handler, own *identity, log *slog.Logger) *http.Server {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		// What strangers do to a connection is no news.
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}

	if own != nil {
		server.TLSConfig = own.config()
	}

	return server
}
