package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/rpc"
	"github.com/leaseway/leaseway/leasewayhttp"
)

// APIConfig says which API server of the demo a child process is.
type APIConfig struct {
	Name           string // of the holder
	Coordinator    string // host:port of each, separated by commas
	CoordinatorKey string // its public key, ed25519:…
}

// stopWithin bounds how long an API server waits for its last requests and for its leases to go back.
const stopWithin = 2 * time.Second

// decideWithin is how long a request waits for the coordinator. The default, 20 ms, is for servers with processors of their
// own; here callers, servers and coordinator all want the same ones, and a pause of one of them is no outage.
const decideWithin = 100 * time.Millisecond

// ServeAPI is one API server: an API that answers "ok" to everything, behind the middleware that any user of Leaseway would
// put there. It serves on a free port of loopback until ctx ends, and writes a line with the address to out.
func ServeAPI(ctx context.Context, cfg APIConfig, out io.Writer) error {
	keys, err := rpc.ParsePublicKeys(cfg.CoordinatorKey)
	if err != nil {
		return fmt.Errorf("--coordinator-key: %w", err)
	}

	log := slog.New(slog.NewJSONHandler(out, nil))

	limiter, err := leaseway.Dial(ctx, strings.Split(cfg.Coordinator, ","),
		leaseway.WithName(cfg.Name), leaseway.WithCoordinatorKeys(keys...),
		leaseway.WithDeadline(decideWithin), leaseway.WithLogger(log))
	if err != nil {
		return err
	}

	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
		defer cancel()

		_ = limiter.Close(stop) // leases that do not go back end by themselves
	}()

	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen on loopback: %w", err)
	}

	log.Info(listening, "http", listener.Addr().String())

	return serveUntil(ctx, listener, newAPI(limiter))
}

func serveUntil(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)

	go func() { served <- server.Serve(listener) }()

	select {
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}

	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()

	err := server.Shutdown(stop)

	// It was told to stop, so its own error says nothing.
	<-served //nolint:errcheck // as the comment says

	return err
}

// newAPI returns the handler of an API server: the middleware, stamped, and beside it the demo's own questions.
func newAPI(limiter *leaseway.Limiter) http.Handler {
	loopback := netip.MustParsePrefix("127.0.0.0/8") // the demo plays the proxy in front, which names the callers of a log

	middleware := leasewayhttp.New(limiter, leasewayhttp.WithTrustedProxies(loopback), leasewayhttp.WithExempt())
	limited := stamped(middleware.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = []string{"text/plain; charset=utf-8"}
		_, _ = io.WriteString(w, "ok\n") // the caller went away
	})))

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Not a mux: it would answer the odd paths of a real log with redirects, before any rule was asked.
		if r.Method == http.MethodPost && r.URL.Path == statsPath {
			answerStats(limiter, w, r)

			return
		}

		limited.ServeHTTP(w, r)
	})
}

// statsPath is what no API has.
const statsPath = "/.leaseway-demo/stats"

// statsQuestion asks an API server what it knows of keys of a rule.
type statsQuestion struct {
	Rule string   `json:"rule"`
	Keys []string `json:"keys"`
}

// apiStats is the answer: counts since the server's start, and the state now.
type apiStats struct {
	Calls    int64      `json:"calls"`
	Asks     int64      `json:"asks"`
	Late     int64      `json:"late"`
	Local    int64      `json:"local"` // requests admitted by this server's share of a limit, beside the limit
	Panics   int64      `json:"panics"`
	Degraded bool       `json:"degraded"`
	Keys     []keyStats `json:"keys"` // in the order of the question
}

// keyStats are one key's messages to the coordinator, and the tokens that it has in hand.
type keyStats struct {
	Asks    int64 `json:"asks"`
	Balance int64 `json:"balance"`
	Local   bool  `json:"local"` // decided by this server's share now
}

const maxQuestion = 64 << 20 // bytes

func answerStats(limiter *leaseway.Limiter, w http.ResponseWriter, r *http.Request) {
	var q statsQuestion
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxQuestion)).Decode(&q); err != nil {
		http.Error(w, "the question is not JSON of {rule, keys}: "+err.Error(), http.StatusBadRequest)

		return
	}

	s := limiter.Stats()
	answer := apiStats{
		Calls: s.Calls, Asks: s.Asks, Late: s.Late, Panics: s.Panics, Degraded: s.Degraded,
		Keys: make([]keyStats, len(q.Keys)),
	}

	for _, r := range s.Rules {
		answer.Local += r.Allowed[leaseway.OriginLocal]
	}

	if rule, err := limiter.Rule(q.Rule); err == nil {
		for i, key := range q.Keys {
			if k, known := rule.Key(key); known {
				answer.Keys[i] = keyStats{Asks: k.Asks, Balance: k.Balance, Local: k.Local}
			}
		}
	} else if unknown := new(leaseway.Error); !errors.As(err, &unknown) {
		http.Error(w, err.Error(), http.StatusInternalServerError)

		return
	}

	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) //nolint:errchkjson // numbers always encode; and the caller may have gone away
}
