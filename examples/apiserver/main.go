// Command apiserver is a small API that takes payments, protected by all four
// limiters of Leaseway: the rate of each caller, what each has in flight, a
// reserve of the fleet for what matters, and a server that is busy. The rules
// stand in rules.yaml, and README.md has requests to try.
//
//	go run ./examples/apiserver --rules examples/apiserver/rules.yaml
//
// With --coordinators it shares its limits with all other servers of the fleet,
// and follows the rules of the coordinators.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/leasewayhttp"
	"github.com/leaseway/leaseway/rule"
)

// config is what the flags say.
type config struct {
	listen       string
	rules        string // file; for a server alone
	coordinators string // host:port, separated by commas; "" for a server alone
	operators    string // address for those who run it; "" for none
	workers      int
	docs         string // where its limits are explained
}

func main() {
	c := config{}
	flag.StringVar(&c.listen, "listen", "127.0.0.1:8000", "`address` to serve on")
	flag.StringVar(&c.rules, "rules", "rules.yaml", "rule `file` of a server alone")
	flag.StringVar(&c.coordinators, "coordinators", "", "`addresses` of coordinators, separated by commas, whose rules count")
	flag.StringVar(&c.operators, "operators", "", "`address` to serve /metrics and /shadow on, for those who run it (default none)")
	flag.IntVar(&c.workers, "workers", 8, "how many requests are worked at, at a time: a `number`")
	flag.StringVar(&c.docs, "docs", "https://docs.example.com/limits", "`URL` where callers read about the limits")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, &c, slog.New(slog.NewTextHandler(os.Stderr, nil)))

	stop()

	if err != nil {
		fmt.Fprintln(os.Stderr, "apiserver:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends. It says in the log where.
func run(ctx context.Context, c *config, log *slog.Logger) (err error) {
	limiter, err := open(ctx, c, log)
	if err != nil {
		return err
	}

	const stopWithin = 5 * time.Second

	// Leases and slots go back, so that other servers have them at once.
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
		defer cancel()

		err = errors.Join(err, limiter.Close(closing))
	}()

	var servers servers

	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
		defer cancel()

		err = errors.Join(err, servers.stop(closing))
	}()

	if err := servers.start(ctx, c.listen, protect(limiter, c, log), log); err != nil {
		return err
	}

	if c.operators != "" {
		if err := servers.start(ctx, c.operators, operatorsOnly(limiter), log); err != nil {
			return err
		}
	}

	return servers.wait(ctx)
}

// operatorsOnly serves what the limiter counted: "leaseway shadow report" reads both, Prometheus the first.
func operatorsOnly(limiter *leaseway.Limiter) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", leasewayhttp.Metrics(limiter))
	mux.Handle("GET /shadow", leasewayhttp.Shadow(limiter))

	return mux
}

// open returns the limiter: one that shares the limits of a fleet, or of this server alone.
func open(ctx context.Context, c *config, log *slog.Logger) (*leaseway.Limiter, error) {
	options := []leaseway.Option{leaseway.WithWorkers(c.workers), leaseway.WithLogger(log)}

	if c.coordinators != "" {
		return leaseway.Dial(ctx, strings.Split(c.coordinators, ","), options...)
	}

	document, err := os.ReadFile(c.rules)
	if err != nil {
		return nil, err
	}

	rules, err := rule.Parse(c.rules, document)
	if err != nil {
		return nil, err // all that is wrong, with lines and columns
	}

	return leaseway.Embedded(rules, options...) //nolint:contextcheck // it runs until it is closed
}

// protect puts the limiter before the API. This is all that an API has to do, but for one line: its pool says how long requests
// wait for a worker.
func protect(limiter *leaseway.Limiter, c *config, log *slog.Logger) http.Handler {
	api := newAPI(newPool(c.workers, limiter.Waited))

	return leasewayhttp.New(limiter, leasewayhttp.WithDocs(c.docs), leasewayhttp.WithLogger(log)).Handler(api.routes())
}
