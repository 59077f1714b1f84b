package server

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/binary"
	"log/slog"
	"net"
	"strings"

	"github.com/spf13/pflag"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/rpc"
)

// openHolder makes a Limiter that leases from remote coordinators, and follows their rules.
func (e *engine) openHolder(ctx context.Context, config *Config) error {
	remote, token, err := config.remote(e.log)
	if err != nil {
		return err
	}

	remote.Logger, e.token = e.log, token

	if e.client, err = rpc.Dial(remote); err != nil {
		return usage("--coordinator: %s", strings.TrimPrefix(err.Error(), "rpc: "))
	}

	if err := e.probe(ctx, config); err != nil {
		return err
	}

	e.limiter, err = leaseway.Over(ctx, e.client, append(config.shedding(),
		leaseway.WithName(config.Name), leaseway.WithDeadline(config.Deadline),
		leaseway.WithLogger(e.log), leaseway.WithStateDir(config.stateDir()),
		leaseway.WithIncarnation(remote.Holder), leaseway.WithLateRules())...)

	return err
}

// CoordinatorFlags are the settings that say how coordinators are reached, bound to c: of serve, and of commands that look
// at them; what says what --coordinator is for.
func (c *Config) CoordinatorFlags(what string) *pflag.FlagSet {
	fs := pflag.NewFlagSet("coordinators", pflag.ContinueOnError)
	fs.SortFlags = false

	fs.StringSliceVar(&c.Coordinators, "coordinator", nil, what)
	fs.StringSliceVar(&c.CoordinatorKeys, "coordinator-key", nil, "public `keys` that the coordinators sign with, such as ed25519:…")
	fs.StringVar(&c.CoordinatorTokenFile, "coordinator-token-file", "",
		"`file` with the token that the coordinators ask for; a replaced one is used at once")
	fs.StringVar(&c.CoordinatorCA, "coordinator-ca", "",
		"`file` with the certificates that vouch for the coordinators, read for each connection")

	return fs
}

// RemoteConfig is how to reach the coordinators, for commands that look at them. It reads the files that the settings
// name. The error is a *UsageError.
func (c *Config) RemoteConfig() (rpc.Config, error) {
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return rpc.Config{}, usage("--tls-cert and --tls-key need each other: set both or neither")
	}

	remote, _, err := c.remote(nil)

	return remote, err
}

// remote is how to reach the coordinators and what to believe of them. They are shown the server's own certificate, if it has one and
// they ask for it. The token is nil without a file of it, which whoever goes on for long should follow. log hears of files that
// change, unless it is nil. The error is a *UsageError.
func (c *Config) remote(log *slog.Logger) (remote rpc.Config, token *shownToken, err error) {
	remote = rpc.Config{URLs: c.Coordinators, Name: c.Name, Holder: newIncarnation(), Insecure: c.Insecure}

	if err := rpc.CheckURLs(c.Coordinators); err != nil {
		return remote, nil, usage("--coordinator: %s", strings.TrimPrefix(err.Error(), "rpc: "))
	}

	keys, keysErr := publicKeys(c)
	remote.Keys, remote.AllowUnsigned = keys, len(keys) == 0

	var tokenErr, tlsErr error

	if path := c.CoordinatorTokenFile; path != "" {
		token = &shownToken{path: path, log: log}
		remote.Token, tokenErr = token.show, token.open()
	}

	if c.CoordinatorCA != "" || anySecure(c.Coordinators) {
		own := &identity{log: log, files: [...]pemFile{
			{flag: "--tls-cert", path: c.TLSCert}, {flag: "--tls-key", path: c.TLSKey}, {flag: "--coordinator-ca", path: c.CoordinatorCA},
		}}
		remote.TLS, tlsErr = own.calls, own.open()
	}

	return remote, token, problems(keysErr, tokenErr, tlsErr)
}

// publicKeys are those whose signature is believed. Without any, coordinators are believed on this machine only.
func publicKeys(config *Config) ([]ed25519.PublicKey, error) {
	var keys []ed25519.PublicKey

	for _, text := range config.CoordinatorKeys {
		parsed, err := rpc.ParsePublicKeys(text)
		if err != nil {
			return nil, unusable("--coordinator-key", err)
		}

		keys = append(keys, parsed...)
	}

	if len(keys) > 0 || config.Insecure {
		return keys, nil
	}

	for _, url := range config.Coordinators {
		if !onThisMachine(url) {
			why := "anyone between could hand out limits in its name"
			if strings.HasPrefix(url, "grpcs://") {
				why = "TLS vouches for the connection, not for limits: whoever ends it, such as a proxy, could hand them out"
			}

			return nil, usage("--coordinator %s is another machine, and %s: "+
				"add --coordinator-key with the key that it logs at its start, or accept that with --insecure", url, why)
		}
	}

	return nil, nil
}

func anySecure(urls []string) bool {
	for _, url := range urls {
		if strings.HasPrefix(url, "grpcs://") {
			return true
		}
	}

	return false
}

func onThisMachine(url string) bool {
	_, address, found := strings.Cut(url, "://")
	if !found {
		address = url
	}

	host, _, err := net.SplitHostPort(address)

	return err != nil || loopback(host) // what is no address is refused by Dial
}

// newIncarnation is a number that tells this process from all others, and from itself before a restart; never 0.
func newIncarnation() uint64 {
	var b [8]byte

	_, _ = rand.Read(b[:]) // never fails

	return binary.LittleEndian.Uint64(b[:]) | 1
}

func clientCounts(client *rpc.Client) source {
	return func(s *scrape) {
		stats := client.Stats()

		for i := range stats.Replicas {
			r := &stats.Replicas[i]
			url := label{"coordinator", r.URL}

			s.counter("coordinator_calls_total", "Batches sent to a coordinator.", r.Calls, url)
			s.counter("coordinator_calls_failed_total", "Batches that failed, or whose answer was refused.", r.Failures, url)
			s.counter("coordinator_calls_late_total", "Batches that missed the deadline.", r.Late, url)
			s.gauge("coordinator_breaker_open", "1 while a coordinator is not called because it failed.", flag(r.State != "closed"), url)
			s.gauge("coordinator_watched", "1 while rules come from a coordinator.", flag(r.Watched), url)
		}

		for _, refused := range stats.Refused {
			s.counter("coordinator_answers_refused_total", "Answers that were not believed, by cause.",
				refused.Count, label{"cause", refused.Cause.String()})
		}

		s.gauge("coordinator_stores_mixed", "1 while coordinators have different stores, and nothing is leased.", flag(stats.Mixed))
	}
}
