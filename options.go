package leaseway

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/leaseway/leaseway/internal/table"
	"github.com/leaseway/leaseway/rule"
)

// Option configures a Limiter.
type Option interface{ apply(o *options) }

type options struct {
	name     string
	deadline time.Duration
	keys     []ed25519.PublicKey
	tls      *tls.Config
	token    string
	stateDir string
	logger   *slog.Logger
	insecure bool
	maxKeys  int64
	holder   uint64
	inline   bool
	alone    bool
	late     bool
	clock    *table.Clock
	switches rule.Switches
	workers  int64
	cpu      bool
	signals  []signal
	release  []func(context.Context) error
}

type optionFunc func(*options)

func (f optionFunc) apply(o *options) { f(o) }

func gather(opts []Option) options {
	o := options{logger: slog.New(slog.DiscardHandler)}

	for _, opt := range opts {
		opt.apply(&o)
	}

	return o
}

// WithName names this holder in the coordinator's logs and metrics. Each start is
// told apart by itself, so the default of no name is fine but for one thing: what
// a process had in flight when it crashed counts under concurrency rules until
// its time is over, or until one starts under its name. So give each its own.
func WithName(name string) Option { return optionFunc(func(o *options) { o.name = name }) }

// WithDeadline bounds how long a request waits for a coordinator before the
// rule's onUnavailable decides. The default is 20 ms, for a d of 0 or less, too.
func WithDeadline(d time.Duration) Option { return optionFunc(func(o *options) { o.deadline = d }) }

// WithCoordinatorKeys pins the public keys whose signatures are believed; give
// the old and the new one while they are exchanged. Without it, answers are
// believed unsigned from coordinators on loopback, and Dial refuses all others.
func WithCoordinatorKeys(keys ...ed25519.PublicKey) Option {
	return optionFunc(func(o *options) { o.keys = append(o.keys, keys...) })
}

// WithTLS sets the client's side of TLS for grpcs:// addresses: the roots, and a
// certificate if the coordinators ask for one. The default trusts the system's roots.
func WithTLS(c *tls.Config) Option { return optionFunc(func(o *options) { o.tls = c }) }

// WithToken sends a bearer token with every call. The default sends none.
func WithToken(token string) Option { return optionFunc(func(o *options) { o.token = token }) }

// WithStateDir keeps the last rules in dir, so that a server can start while no
// coordinator can be reached. The default keeps nothing.
func WithStateDir(dir string) Option { return optionFunc(func(o *options) { o.stateDir = dir }) }

// WithLogger has outages, refused rules and recovered panics logged, each once
// and not per request. The default is silent.
func WithLogger(logger *slog.Logger) Option {
	return optionFunc(func(o *options) {
		if logger != nil {
			o.logger = logger
		}
	})
}

// WithInsecure allows plaintext and unsigned answers from other machines. You
// do not need it on loopback.
func WithInsecure() Option { return optionFunc(func(o *options) { o.insecure = true }) }

// WithMaxKeys bounds how many keys are remembered. Beyond it keys are decided
// by the coordinator one by one, as exactly but not as fast; under each concurrency rule they share one
// server's part of the limit. The default is 4,000,000, for an n of 0 or less, too.
func WithMaxKeys(n int64) Option { return optionFunc(func(o *options) { o.maxKeys = n }) }

// WithInProcess says that the source given to Over is in this process, so that
// requests call it themselves instead of through a queue.
func WithInProcess() Option { return optionFunc(func(o *options) { o.inline = true }) }

// WithIncarnation sets what tells this process apart from all holders, restarts
// of it included: random, and not 0. You need it only with Over, for a source
// that must know it too. The default is drawn at each start.
func WithIncarnation(n uint64) Option { return optionFunc(func(o *options) { o.holder = n }) }

// WithRelease has Close call release at its end, when the leases have been given
// back: for what was made for this Limiter alone, such as its source's
// connections. You need it only with Over. The default releases nothing.
func WithRelease(release func(context.Context) error) Option {
	return optionFunc(func(o *options) { o.release = append(o.release, release) })
}

// WithLateRules lets Dial and Over succeed although no rules came in time.
// Until they come every request is allowed. The default is to fail.
func WithLateRules() Option { return optionFunc(func(o *options) { o.late = true }) }

// WithSwitches throws kill switches in this process alone, beside those of the
// rule document, for as long as it runs. The default throws none.
func WithSwitches(switches rule.Switches) Option {
	return optionFunc(func(o *options) { o.switches = o.switches.With(&switches) })
}

// WithWorkers says that this process serves n requests at once. For the worker
// shedder of the rules its load is then the share of them that are busy, as
// Begin and End tell, which the middleware of leasewayhttp calls; and n is what
// it adds to the capacity of the fleet. The default is not to know, as by an n of 0 or less.
func WithWorkers(n int) Option {
	return optionFunc(func(o *options) { o.workers = int64(max(0, n)) })
}

// WithSignal tells the worker shedder how busy this process is, as a share: 1 is
// as much as it can bear. The highest of all signals counts. read is called ten
// times a second; one that hangs, panics, or returns NaN or less than 0 is not
// believed. The default has no signal of its own.
func WithSignal(name string, read func() float64) Option {
	return optionFunc(func(o *options) { o.signals = append(o.signals, signal{name: name, read: read}) })
}

// WithCPU measures for the worker shedder how much of the processor time that
// this process may use is used: by its cgroup if that has a quota, else by the
// machine. It needs Linux. The default does not look at it.
func WithCPU() Option { return optionFunc(func(o *options) { o.cpu = true }) }

// allLoopback reports whether every address is on this machine.
func allLoopback(urls []string) bool {
	for _, u := range urls {
		host := u
		if strings.Contains(u, "://") {
			parsed, err := url.Parse(u)
			if err != nil {
				return false
			}

			host = parsed.Host
		}

		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}

		if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
			return false
		}
	}

	return true
}
