package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/rpc"
	"github.com/leaseway/leaseway/leasewayhttp"
)

// WorkplaceCommand is the hidden command that is a server of a scenario.
const WorkplaceCommand = "demo-workplace"

// maxWorkers bounds how many workers a server of a scenario has.
const maxWorkers = 1000

// scenarioWithin is how long a request of a scenario waits for the coordinator: longer than anything but an outage takes on a
// machine that has other things to do.
const scenarioWithin = 250 * time.Millisecond

// WorkplaceConfig says which server of a scenario a child process is.
type WorkplaceConfig struct {
	Name           string // of the holder
	Workers        int    // from 1 to 1000
	Coordinator    string // host:port; "" for the side without Leaseway
	CoordinatorKey string // its public key, ed25519:…
}

// ServeWorkplace is one API server with few workers: every request needs one for a time, and waits until there is one. It serves
// on a free port of loopback until ctx ends, and writes a line with the address to out.
func ServeWorkplace(ctx context.Context, cfg WorkplaceConfig, out io.Writer) error {
	if cfg.Workers < 1 || cfg.Workers > maxWorkers {
		return fmt.Errorf("--workers %d is not within 1 and %d", cfg.Workers, maxWorkers)
	}

	var (
		log     = slog.New(slog.NewJSONHandler(out, nil))
		place   = &workplace{workers: make(chan struct{}, cfg.Workers)}
		handler = http.Handler(place)
	)

	if cfg.Coordinator != "" {
		limiter, err := cfg.dial(ctx, log)
		if err != nil {
			return err
		}

		defer func() {
			stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
			defer cancel()

			_ = limiter.Close(stop) // leases that do not go back end by themselves
		}()

		handler = limited(limiter, place)
	}

	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen on loopback: %w", err)
	}

	log.Info(listening, "http", listener.Addr().String())

	return serveUntil(ctx, listener, handler)
}

func (cfg *WorkplaceConfig) dial(ctx context.Context, log *slog.Logger) (*leaseway.Limiter, error) {
	keys, err := rpc.ParsePublicKeys(cfg.CoordinatorKey)
	if err != nil {
		return nil, fmt.Errorf("--coordinator-key: %w", err)
	}

	return leaseway.Dial(ctx, strings.Split(cfg.Coordinator, ","),
		leaseway.WithName(cfg.Name), leaseway.WithCoordinatorKeys(keys...), leaseway.WithWorkers(cfg.Workers),
		leaseway.WithDeadline(scenarioWithin), leaseway.WithLogger(log))
}

// workplace is an API whose requests each need one of a few workers, as with threads, connections of a database, or processes.
type workplace struct{ workers chan struct{} }

func (p *workplace) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case p.workers <- struct{}{}:
	case <-r.Context().Done(): // the caller has given up
		return
	}
	defer func() { <-p.workers }()

	work := usualWork
	if r.URL.Path == reportPath {
		work = reportWork
	}

	<-time.After(work) // who has begun does not stop when the caller leaves

	w.Header()["Content-Type"] = []string{"text/plain; charset=utf-8"}
	_, _ = io.WriteString(w, "ok\n") // the caller went away
}

// limited puts the middleware before the API, and the demo's own question beside it.
func limited(limiter *leaseway.Limiter, api http.Handler) http.Handler {
	behind := leasewayhttp.New(limiter).Handler(api)

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.Path == statsPath {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(inFlight(limiter)) // the caller may have gone away

			return
		}

		behind.ServeHTTP(w, r)
	})
}

// workplaceStats are what a server knows of its requests.
type workplaceStats struct {
	InFlight int64 `json:"inFlight"` // that a concurrency rule or the fleet shedder counts
	Late     int64 `json:"late"`     // that waited for the coordinator in vain
	Panics   int64 `json:"panics"`
}

func inFlight(limiter *leaseway.Limiter) workplaceStats {
	s := limiter.Stats()
	all := workplaceStats{Late: s.Late, Panics: s.Panics}

	for _, r := range s.Slots {
		all.InFlight += r.InFlight
	}

	for i := range s.Shedders {
		all.InFlight += s.Shedders[i].InFlight
	}

	return all
}
