package server

import (
	"log/slog"
	"net/http"
	"net/http/pprof"
	"strings"
	"sync/atomic"
	"time"

	"github.com/leaseway/leaseway/internal/admin"
	"github.com/leaseway/leaseway/internal/check"
	"github.com/leaseway/leaseway/internal/proxycheck"
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

// admitter says whether a token is one by which services and holders may call. Where those without are let in, "" is one.
type admitter interface{ Allows(token string) bool }

// routes are what the HTTP listeners serve.
//
//	/healthz, /readyz, /openapi.json    to everyone: an orchestrator has no token, and nothing in them is secret
//	/v1/check?profile=…                 to trusted proxies, with a token of their own when there are tokens
//	/v1/…, /metrics, /shadow            to callers with a token, when there are tokens: metrics name the rules and their traffic
//	/admin/…, /v1/limits                to whom the admin door says: services and holders may ask for limits
//	/debug/pprof/                       to this machine, and only where the admin door has a listener of its own
//
// With a listener of its own the admin door takes /metrics and /shadow along.
type routes struct {
	door    *check.Door
	proxies *proxycheck.Door
	admin   *admin.Door // nil for none
	ready   *readiness
	metrics http.Handler
	shadow  http.Handler
	gate    gate
	panics  *atomic.Int64
	log     *slog.Logger
}

// handler is for the listener of services and, unless that is apart, of people.
func (r *routes) handler(adminApart bool) http.Handler {
	api := http.NewServeMux()
	described := rest.New(api, Version())
	r.door.Register(described)
	proxycheck.Describe(described)
	api.HandleFunc("/v1/check", onlyBy("POST", "GET is for proxies, and says which by ?profile="))
	api.HandleFunc("/v1/rules/{ruleId}/check", onlyBy("POST"))
	api.HandleFunc("/v1/", notFound)

	mux := r.base(api)
	mux.Handle("/v1/", r.gate.before(api))
	mux.Handle("/v1/check", r.checks(r.gate.before(api)))

	if r.admin != nil {
		r.admin.RegisterLimits(described)
		mux.Handle("/v1/limits", asProblems(api))
	}

	if !adminApart {
		r.addMetrics(mux)

		if r.admin != nil {
			r.admin.Register(described)
			mux.Handle("/admin/", asProblems(api))
		}
	}

	return recovering(mux, r.panics, r.log)
}

// checks has proxies, which send what their clients sent, apart from services, which ask in JSON.
func (r *routes) checks(services http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch {
		case !proxycheck.Asked(req):
			services.ServeHTTP(w, req)
		case !r.gate.admits(req, req.Header.Get(proxycheck.TokenField)):
			writeProblem(w, http.StatusForbidden, "have the proxy set "+proxycheck.TokenField+" to one of the server's tokens")
		default:
			r.proxies.ServeHTTP(w, req)
		}
	})
}

// adminHandler is for the listener of people, where they have one.
func (r *routes) adminHandler() http.Handler {
	api := http.NewServeMux()
	described := rest.New(api, Version())
	r.admin.Register(described)
	r.admin.RegisterLimits(described)

	mux := r.base(api)
	r.addMetrics(mux)
	mux.Handle("/admin/", asProblems(api))
	mux.Handle("/v1/limits", asProblems(api))
	mux.Handle("/debug/pprof/", onlyHere(profiles()))

	return recovering(mux, r.panics, r.log)
}

// base serves what every listener has.
func (r *routes) base(api http.Handler) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", serveHealth)
	mux.HandleFunc("GET /readyz", r.ready.serveReady)
	mux.Handle("GET /openapi.json", api)
	mux.HandleFunc("/", notFound)

	for _, path := range []string{"/healthz", "/readyz", "/openapi.json"} {
		mux.HandleFunc(path, onlyBy("GET, HEAD"))
	}

	for _, path := range []string{"/v1", "/admin"} {
		mux.HandleFunc(path, notFound) // else the mux redirects, with a page of HTML
	}

	return mux
}

func (r *routes) addMetrics(mux *http.ServeMux) {
	mux.Handle("GET /metrics", r.gate.forReaders(r.metrics))
	mux.HandleFunc("/metrics", onlyBy("GET, HEAD"))
	mux.Handle("GET /shadow", r.gate.forReaders(r.shadow))
	mux.HandleFunc("/shadow", onlyBy("GET, HEAD"))
}

// profiles are those of the Go runtime.
func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)

	return mux // without the command line, where a password may stand
}

// onlyHere lets in who calls from this machine, and not on behalf of somebody else.
func onlyHere(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !admin.Local(r) {
			writeProblem(w, http.StatusForbidden, "profiles are for callers on this machine")

			return
		}

		next.ServeHTTP(w, r)
	})
}

// asProblems has mux refuse what it does not serve as everything else is refused.
func asProblems(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern != "" && pattern != "/v1/" {
			mux.ServeHTTP(w, r)

			return
		}

		var methods []string

		for _, method := range []string{"GET", "HEAD", "PUT", "POST", "PATCH", "DELETE"} {
			other := r.Clone(r.Context())
			other.Method = method

			if _, pattern := mux.Handler(other); pattern != "" && pattern != "/v1/" {
				methods = append(methods, method)
			}
		}

		if len(methods) == 0 {
			writeProblem(w, http.StatusNotFound, "this is not served here: GET /openapi.json says what is")

			return
		}

		onlyBy(strings.Join(methods, ", "))(w, r)
	})
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
		server.TLSConfig = own.listens()
	}

	return server
}
