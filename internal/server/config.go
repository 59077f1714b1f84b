package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/envoyrls"
	"github.com/leaseway/leaseway/rule"
)

// Config is everything that a server can be told. Flags, the environment and the file fill it in, once; see Load.
type Config struct {
	Name string // this holder's name in the fleet

	Listen     string // HTTP address
	GRPCListen string // gRPC address
	// AdminListen is the HTTP address of the admin API, /metrics and pprof; "" has the first two at Listen.
	AdminListen string
	// AdminCertificates give client certificates a role in the admin API: NAME=ROLE or NAME=ROLE:PREFIX.
	AdminCertificates []string

	// TrustedProxies are networks, or single addresses, whose peers may ask on behalf of their clients.
	TrustedProxies []string

	Rules   string // path of the rule document; "" for those of the rule store
	DataDir string // what must outlive the process

	RuleStore             string // "sqlite", "sqlite:FILE" or the URL of Postgres; "" for the first
	RuleStorePasswordFile string // the password for it
	RulesSeed             string // path of a rule document that an empty rule store begins with

	Store                     string // where the ledgers are: "memory", or the URL of Redis
	StorePasswordFile         string // the password for it
	StoreSentinelPasswordFile string // the password for its sentinels
	StoreCA                   string // who may certify it; "" for the system's
	StoreCert                 string // what is shown to it; "" for no certificate
	StoreKey                  string
	StorePrefix               string // what the names of its keys begin with
	StoreConnections          int    // to each of its nodes, a power of two; 0 for the default
	StoreDialTimeout          time.Duration
	StoreSilence              time.Duration // after which a connection is taken for dead
	StoreOwnClock             bool          // time is that of this machine

	SigningKeyFile string // the private keys that sign answers; "" for one of its own in DataDir

	Coordinators         []string // set: a holder of these instead of a coordinator
	CoordinatorKeys      []string // public keys that their answers must be signed with
	CoordinatorTokenFile string   // the token that they ask for
	CoordinatorCA        string   // who may certify them; "" for the system's

	Kill []string // what is switched off in this process, as rule.ParseSwitches reads it

	DocsURL string // what refusals link to; "" for nothing

	RLSCharge string // who pays when one of several Envoy descriptors is over its limit, as envoyrls.Charge has it

	Workers    int  // how many requests the API behind a proxy serves at once; 0 for not known
	MeasureCPU bool // the worker shedder looks at the processor time of this machine or cgroup

	Deadline time.Duration // how long a request waits for a coordinator

	TLSCert     string
	TLSKey      string
	TLSClientCA string // who may certify clients; "" asks for no certificate
	TokenFile   string // tokens that callers must show
	Insecure    bool   // allows what would be refused for being open to anyone

	LogLevel  string // debug, info, warn or error
	LogFormat string // text or json

	Proxy *ProxyConfig // set: a proxy in front of an API instead of a server of its own

	// Look has the files that the server follows looked at now, at each value; nil for never. It is no setting: the
	// program that runs the server connects it to a signal.
	Look <-chan os.Signal
}

// flags are the settings by their flag names, bound to c, with defaults and help. From these names come those of the
// environment (LEASEWAY_GRPC_LISTEN) and of the file (grpcListen).
func (c *Config) flags() *pflag.FlagSet {
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	fs.SortFlags = false

	fs.StringVar(&c.Listen, "listen", "127.0.0.1:8080", "HTTP `address`; port 0 takes a free one")
	fs.StringVar(&c.GRPCListen, "grpc-listen", "127.0.0.1:8081", "gRPC `address`; port 0 takes a free one")
	fs.StringVar(&c.AdminListen, "admin-listen", "",
		"HTTP `address` of its own for the admin API, /metrics and profiles (default: the first two at --listen)")
	fs.StringSliceVar(&c.AdminCertificates, "admin-certificate", nil,
		"client certificates with a `role` in the admin API: NAME=viewer, operator or admin, and :PREFIX for some rules only")
	fs.StringSliceVar(&c.TrustedProxies, "trusted-proxies", nil,
		"`networks` of the reverse proxies that ask at GET /v1/check, such as 10.0.0.0/8: what they say of their clients is believed")
	fs.StringVar(&c.Rules, "rules", "",
		"the rule document, a YAML or JSON `file`, instead of a rule store; changes to it take effect at once")
	fs.AddFlagSet(c.RuleStoreFlags())
	fs.StringVar(&c.RulesSeed, "rules-seed", "", "rule document, a `file`, that a rule store begins with which nobody wrote to yet")
	fs.AddFlagSet(c.StoreFlags(memoryStore))
	fs.StringVar(&c.DataDir, "data-dir", "", "`directory` for counts, keys and the last rules (default ~/.local/state/leaseway)")
	fs.StringVar(&c.Name, "name", "", "this server's `name` in the fleet (default: the host's)")

	fs.AddFlagSet(c.CoordinatorFlags("lease from the coordinators at these `URLs`, grpcs://HOST:PORT or HOST:PORT"))
	fs.DurationVar(&c.Deadline, "deadline", 20*time.Millisecond, "how long a request waits for a coordinator before onUnavailable decides")
	fs.StringVar(&c.SigningKeyFile, "signing-key-file", "", "`file` with the private keys that sign answers (default: one of its own)")

	fs.StringVar(&c.DocsURL, "docs-url", "", "`URL` of what you tell callers about limits; refusals to clients of proxies link to it")
	fs.StringVar(&c.RLSCharge, "rls-charge", string(envoyrls.ChargeTogether),
		"when one of several Envoy descriptors is over its limit: together charges none of them, all charges the others")
	fs.BoolVar(&c.MeasureCPU, "measure-cpu", false,
		"have the worker shedder go by the processor time that this server's cgroup or machine uses")
	fs.StringSliceVar(&c.Kill, "kill", nil,
		"`what` to switch off in this process: all, rule:ID, or limiter: and one of rate, concurrency, fleet, worker")

	fs.StringVar(&c.TLSCert, "tls-cert", "", "`file` with the certificate to serve with; replaced files take effect at once")
	fs.StringVar(&c.TLSKey, "tls-key", "", "`file` with its private key")
	fs.StringVar(&c.TLSClientCA, "tls-client-ca", "", "`file` with the certificates that vouch for clients, who then need one")
	fs.StringVar(&c.TokenFile, "token-file", "", "`file` with the tokens that callers must show, one a line")
	fs.BoolVar(&c.Insecure, "insecure", false, "allow an open listener, and coordinators without TLS or signature, off loopback")

	fs.StringVar(&c.LogLevel, "log-level", "info", "debug, info, warn or error")
	fs.StringVar(&c.LogFormat, "log-format", "text", "text or json")

	return fs
}

// UsageError is a configuration that a server refuses to start with; each problem names the setting and the fix.
type UsageError struct {
	Problems []string
}

// Error lists the problems, one a line.
func (e *UsageError) Error() string { return strings.Join(e.Problems, "\n") }

func usage(format string, args ...any) error {
	return &UsageError{Problems: []string{fmt.Sprintf(format, args...)}}
}

// problems makes one UsageError out of several, or nil out of none.
func problems(errs ...error) error {
	var all UsageError

	for _, err := range errs {
		var u *UsageError

		switch {
		case errors.As(err, &u):
			all.Problems = append(all.Problems, u.Problems...)
		case err != nil:
			all.Problems = append(all.Problems, err.Error())
		}
	}

	if len(all.Problems) == 0 {
		return nil
	}

	return &all
}

// switches are what Kill says; it was checked.
func (c *Config) switches() rule.Switches {
	s, _ := rule.ParseSwitches(c.Kill...)

	return s
}

// shedding are the options for what the rules may shed.
func (c *Config) shedding() []leaseway.Option {
	opts := []leaseway.Option{leaseway.WithSwitches(c.switches()), leaseway.WithWorkers(c.Workers)}
	if c.MeasureCPU {
		opts = append(opts, leaseway.WithCPU())
	}

	return opts
}

// holder reports whether the server leases from coordinators instead of being one.
func (c *Config) holder() bool { return len(c.Coordinators) > 0 }

// stateDir is where this kind of server keeps its files: the two kinds may share a data directory.
func (c *Config) stateDir() string {
	if c.Proxy != nil {
		return filepath.Join(c.DataDir, "proxy")
	}

	if c.holder() {
		return filepath.Join(c.DataDir, "holder")
	}

	return filepath.Join(c.DataDir, "coordinator")
}

// validate checks the settings against each other. The error is a *UsageError.
func (c *Config) validate() error {
	var errs []error

	var level slog.Level
	if level.UnmarshalText([]byte(c.LogLevel)) != nil {
		errs = append(errs, usage("--log-level %q is none of debug, info, warn, error", c.LogLevel))
	}

	if c.LogFormat != "text" && c.LogFormat != "json" {
		errs = append(errs, usage("--log-format %q is neither text nor json", c.LogFormat))
	}

	if c.Deadline <= 0 || c.Deadline > time.Minute {
		errs = append(errs, usage("--deadline %v is not between 1ns and 1m: requests wait for it, so write a few milliseconds", c.Deadline))
	}

	if _, err := rule.ParseSwitches(c.Kill...); err != nil {
		errs = append(errs, usage("--kill: %v", err))
	}

	if _, err := c.trustedProxies(); err != nil {
		errs = append(errs, err)
	}

	if c.DataDir == "" {
		errs = append(errs, noDataDir())
	}

	if (c.TLSCert == "") != (c.TLSKey == "") {
		errs = append(errs, usage("--tls-cert and --tls-key need each other: set both or neither"))
	}

	if c.TLSClientCA != "" && c.TLSCert == "" {
		errs = append(errs, usage("--tls-client-ca checks the certificates of TLS clients: set --tls-cert and --tls-key too"))
	}

	if u, err := url.Parse(c.DocsURL); c.DocsURL != "" && (err != nil || u.Scheme == "" || u.Host == "") {
		errs = append(errs, usage("--docs-url %q is no URL: write one such as https://docs.example/limits", c.DocsURL))
	}

	if c.Proxy != nil {
		errs = append(errs, c.Proxy.validate(c), c.oneKind())
	} else {
		if !slices.Contains(envoyrls.Charges(), envoyrls.Charge(c.RLSCharge)) {
			errs = append(errs, usage("--rls-charge %q is neither together nor all", c.RLSCharge))
		}

		errs = append(errs, c.listenable("--listen", c.Listen, toShow), c.listenable("--grpc-listen", c.GRPCListen, toShow),
			c.adminListenable(), c.oneKind(), c.notItself())
	}

	return problems(errs...)
}

// oneKind refuses settings of a coordinator for a holder, and the other way around: one of them would be ignored.
func (c *Config) oneKind() error {
	var errs []error

	if c.holder() {
		if c.Rules != "" {
			errs = append(errs, usage("--rules does not go with --coordinator: give the file to the coordinators, which hand the rules on"))
		}

		if c.RuleStore != "" || c.RulesSeed != "" {
			errs = append(errs, usage("--rule-store and --rules-seed do not go with --coordinator: only coordinators have the rules"))
		}

		if c.SigningKeyFile != "" {
			errs = append(errs, usage("--signing-key-file does not go with --coordinator: only a coordinator signs; "+
				"--coordinator-key takes its public key"))
		}

		if !c.inMemory() {
			errs = append(errs, usage("--store does not go with --coordinator: only coordinators have one, and these are named already"))
		}

		return problems(errs...)
	}

	if _, err := c.RedisConfig(nil); err != nil {
		errs = append(errs, err)
	}

	errs = append(errs, c.oneSource())

	for flag, set := range map[string]bool{
		"--coordinator-key":        len(c.CoordinatorKeys) > 0,
		"--coordinator-token-file": c.CoordinatorTokenFile != "",
		"--coordinator-ca":         c.CoordinatorCA != "",
	} {
		if set {
			errs = append(errs, usage("%s needs --coordinator, the URLs that it is for", flag))
		}
	}

	return problems(errs...)
}

// addressable refuses what is no address.
func addressable(flag, address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return usage("%s %q is no address: write host:port, such as 127.0.0.1:8080", flag, address)
	}

	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return usage("%s %q has no port from 0 to 65535: write one such as %s", flag, address, net.JoinHostPort(host, "8080"))
	}

	return nil
}

// toShow names the flags for what callers of a server may have to show.
const toShow = "--token-file (or --tls-client-ca)"

// listenable refuses an address that strangers can reach without a secret over a channel that others can read; required names the
// flags for one.
func (c *Config) listenable(flag, address, required string) error {
	if err := addressable(flag, address); err != nil {
		return err
	}

	host, _, _ := net.SplitHostPort(address)

	if c.Insecure || loopback(host) {
		return nil
	}

	var missing []string

	if c.TLSCert == "" {
		missing = append(missing, "--tls-cert and --tls-key")
	}

	if c.TokenFile == "" && c.TLSClientCA == "" {
		missing = append(missing, required)
	}

	if len(missing) == 0 {
		return nil
	}

	return usage("%s %s can be reached from other machines: add %s, or listen on 127.0.0.1, or let anyone call it with --insecure",
		flag, address, strings.Join(missing, " and "))
}

// loopback reports whether only this machine can reach host. An empty one is every address.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}

	ip := net.ParseIP(host)

	return ip != nil && ip.IsLoopback()
}
