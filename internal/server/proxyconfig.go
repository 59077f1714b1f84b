package server

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/leaseway/leaseway/internal/proxy"
)

// ProxyConfig is what a proxy is told beside what it has in common with a server.
type ProxyConfig struct {
	Upstreams   []string // http, https or h2c URLs
	Balance     string   // proxy.RoundRobin or proxy.LeastInFlight
	UpstreamCA  string   // who may certify https upstreams; "" for the system's
	HealthPath  string   // "" for no probes
	HealthEvery time.Duration

	ReadHeaderTimeout, IdleTimeout            time.Duration // of clients
	DialTimeout, UpstreamTimeout, BodyTimeout time.Duration
	DrainTimeout                              time.Duration
	MaxBody                                   int64 // bytes
	MaxHeader                                 int   // bytes

	CORSOrigins []string // whose pages may read refusals

	AccessLog       string // path, "-" for standard output, "" for none
	AccessLogFormat string // combined or json

	MetricsListen string // "" for none
}

// proxyFlags are the settings of a proxy by their flag names, bound to c.
func (c *Config) proxyFlags() *pflag.FlagSet {
	p := c.Proxy
	fs := pflag.NewFlagSet("proxy", pflag.ContinueOnError)
	fs.SortFlags = false

	fs.StringSliceVar(&p.Upstreams, "upstream", nil,
		"`URLs` that requests are passed on to: http://HOST:PORT, https://HOST:PORT, or h2c://HOST:PORT for gRPC without TLS")
	fs.StringVar(&c.Listen, "listen", "127.0.0.1:8000", "`address` for clients; port 0 takes a free one")
	fs.StringVar(&c.Rules, "rules", "", "the rule document, a YAML or JSON `file`; changes to it take effect at once")
	fs.AddFlagSet(c.CoordinatorFlags("lease from the coordinators at these `URLs` instead, grpcs://HOST:PORT or HOST:PORT"))
	fs.AddFlagSet(c.StoreFlags(memoryStore))
	fs.DurationVar(&c.Deadline, "deadline", 20*time.Millisecond, "how long a request waits for a coordinator before onUnavailable decides")
	fs.StringSliceVar(&c.TrustedProxies, "trusted-proxies", nil,
		"`networks` of proxies before this one, such as 10.0.0.0/8, whose X-Forwarded-* are believed and kept")

	fs.StringVar(&c.DocsURL, "docs-url", "", "`URL` of what you tell callers about limits; refusals link to it")
	fs.StringSliceVar(&p.CORSOrigins, "cors-origins", nil,
		"`origins` whose pages may read refusals in browsers, such as https://app.example.com; * for all")
	fs.StringVar(&p.Balance, "balance", proxy.RoundRobin, "how an upstream is chosen: round-robin or least-in-flight")
	fs.StringVar(&p.HealthPath, "health-path", "",
		"`path` that upstreams are probed at; without it failing requests alone take one out of service")
	fs.DurationVar(&p.HealthEvery, "health-every", 5*time.Second, "time between probes, and how long one may take")
	fs.StringVar(&p.UpstreamCA, "upstream-ca", "", "`file` with the certificates that vouch for https upstreams")

	fs.StringVar(&c.TLSCert, "tls-cert", "", "`file` with the certificate to serve with; replaced files take effect at once")
	fs.StringVar(&c.TLSKey, "tls-key", "", "`file` with its private key")
	fs.StringVar(&c.TLSClientCA, "tls-client-ca", "", "`file` with the certificates that vouch for clients, who then need one")

	fs.DurationVar(&p.ReadHeaderTimeout, "read-header-timeout", 10*time.Second, "how long the header of a request may take")
	fs.DurationVar(&p.IdleTimeout, "idle-timeout", 2*time.Minute, "how long a connection may wait for its next request")
	fs.DurationVar(&p.BodyTimeout, "body-timeout", time.Minute,
		"how long a client may be silent within a body, or not take an answer; a stream as a whole may last as long as it likes")
	fs.DurationVar(&p.DialTimeout, "dial-timeout", 5*time.Second, "how long connecting to an upstream may take")
	fs.DurationVar(&p.UpstreamTimeout, "upstream-timeout", time.Minute, "how long an upstream may take until the header of its answer")
	fs.DurationVar(&p.DrainTimeout, "drain-timeout", finishWithin, "how long a stop waits for requests under way")
	fs.Int64Var(&p.MaxBody, "max-body", 100<<20, "`bytes` that a request's body may have, but for gRPC; 0 for no bound")
	fs.IntVar(&p.MaxHeader, "max-header", maxHeader, "`bytes` that a request's header may have")

	fs.StringVar(&p.AccessLog, "access-log", "",
		"`file` for a line a request, - for standard output; a file that was moved away is begun anew")
	fs.StringVar(&p.AccessLogFormat, "access-log-format", formatCombined, "combined or json")
	fs.StringVar(&p.MetricsListen, "metrics-listen", "", "`address` for /metrics, /readyz and /healthz of the proxy itself")

	fs.IntVar(&c.Workers, "workers", 0,
		"how many requests the API behind this proxy serves at once, which the shedders go by; 0 is not to know")
	fs.BoolVar(&c.MeasureCPU, "measure-cpu", false,
		"have the worker shedder go by the processor time that this proxy's cgroup or machine uses")
	fs.StringSliceVar(&c.Kill, "kill", nil,
		"`what` to switch off in this process: all, rule:ID, or limiter: and one of rate, concurrency, fleet, worker")
	fs.StringVar(&c.DataDir, "data-dir", "", "`directory` for counts and the last rules (default ~/.local/state/leaseway)")
	fs.StringVar(&c.Name, "name", "", "this proxy's `name` in the fleet (default: the host's)")
	fs.BoolVar(&c.Insecure, "insecure", false, "allow --metrics-listen, and coordinators without TLS or signature, off loopback")
	fs.StringVar(&c.LogLevel, "log-level", "info", "debug, info, warn or error")
	fs.StringVar(&c.LogFormat, "log-format", "text", "text or json")

	return fs
}

// validate checks the settings of a proxy against each other, and against those that it shares. The error is a *UsageError.
func (p *ProxyConfig) validate(c *Config) error {
	var errs []error

	if len(p.Upstreams) == 0 {
		errs = append(errs, usage("--upstream is missing: name the API that requests are passed on to, such as http://127.0.0.1:3000"))
	}

	if c.Rules == "" && !c.holder() {
		errs = append(errs, usage("--rules or --coordinator is missing: a proxy needs limits, or those who have them"))
	}

	if p.AccessLogFormat != formatCombined && p.AccessLogFormat != formatJSON {
		errs = append(errs, usage("--access-log-format %q is neither %s nor %s", p.AccessLogFormat, formatCombined, formatJSON))
	}

	for flag, d := range map[string]time.Duration{
		"--read-header-timeout": p.ReadHeaderTimeout, "--idle-timeout": p.IdleTimeout, "--body-timeout": p.BodyTimeout,
		"--dial-timeout": p.DialTimeout, "--upstream-timeout": p.UpstreamTimeout, "--health-every": p.HealthEvery,
		"--drain-timeout": p.DrainTimeout,
	} {
		if d <= 0 {
			errs = append(errs, usage("%s %v is no time to wait: write one such as 10s", flag, d))
		}
	}

	if p.MaxBody < 0 {
		errs = append(errs, usage("--max-body %d is negative: 0 is no bound", p.MaxBody))
	}

	if c.Workers < 0 {
		errs = append(errs, usage("--workers %d is negative: 0 is not to know", c.Workers))
	}

	if p.MaxHeader < 1<<10 || p.MaxHeader > 16<<20 {
		errs = append(errs, usage("--max-header %d is not between 1024 and 16777216 bytes", p.MaxHeader))
	}

	errs = append(errs, addressable("--listen", c.Listen))

	if p.MetricsListen != "" {
		errs = append(errs, c.listenable("--metrics-listen", p.MetricsListen, "--tls-client-ca"))
	}

	return problems(errs...)
}
