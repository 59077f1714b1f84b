package server

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/leaseway/leaseway/internal/rpc"
)

// probeWithin bounds how long a holder waits at its start to hear whether its coordinators and its settings go together.
const probeWithin = 2 * time.Second

// probe refuses settings with which no coordinator will ever answer: a holder that started with them would allow everything,
// or decide by itself for ever. That nobody is there may pass, and is no reason. The error is a *UsageError.
func (e *engine) probe(ctx context.Context, config *Config) error {
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()

	var misfit *rpc.MisfitError
	if !errors.As(e.client.Probe(ctx), &misfit) {
		return nil
	}

	who := "--coordinator " + misfit.Replica

	switch misfit.Misfit {
	case rpc.MisfitToken:
		if config.CoordinatorTokenFile == "" {
			return usage("%s asks for a token: add --coordinator-token-file with one of those in its --token-file, "+
				"or made by leaseway token create --role holder", who)
		}

		return usage("%s does not know the token in %s: put one of its --token-file there, or one made by "+
			"leaseway token create --role holder (--coordinator-token-file)", who, config.CoordinatorTokenFile)
	case rpc.MisfitKey:
		return usage("%s signs with another key than those of --coordinator-key (%v): give the publicKey that it logs at its start",
			who, errors.Unwrap(misfit.Err))
	case rpc.MisfitRole:
		return usage("%s is a Leaseway server that leases from others, or no Leaseway server: name the --grpc-listen of a coordinator, "+
			"which is a server without --coordinator", who)
	case rpc.MisfitPlaintext:
		return usage("%s does not speak TLS: write grpc:// if it has no certificate, or give it --tls-cert and --tls-key", who)
	case rpc.MisfitTLS:
		return usage("%s speaks TLS: write grpcs:// before its address", who)
	case rpc.MisfitAuthority:
		return usage("%s is vouched for by nobody known: name the authority's certificate by --coordinator-ca", who)
	case rpc.MisfitName:
		return usage("%s has a certificate for other names (%v): call it by one of them", who, errors.Unwrap(misfit.Err))
	case rpc.MisfitCertificate:
		return usage("%s wants a certificate of an authority in its --tls-client-ca (%v): show one by --tls-cert and --tls-key",
			who, errors.Unwrap(misfit.Err))
	case rpc.MisfitExpired: // a new one is used as soon as it is there
		e.log.Warn("a certificate is out of date: renew the coordinator's, or that of --tls-cert, or set the clock",
			"coordinator", misfit.Replica, "error", misfit.Err)

		return nil
	case rpc.MisfitProtocol:
	}

	return usage("%s does not speak gRPC: name the port of the coordinator's --grpc-listen (8081 unless said), not that of --listen", who)
}

// notItself refuses a holder that would ask itself for leases.
func (c *Config) notItself() error {
	for _, coordinator := range c.Coordinators {
		for flag, own := range map[string]string{"--listen": c.Listen, "--grpc-listen": c.GRPCListen} {
			if sameListener(coordinator, own) {
				return usage("--coordinator %s is this server's own %s: name the --grpc-listen of a coordinator, "+
					"and give this server another address", coordinator, flag)
			}
		}
	}

	return nil
}

// sameListener reports whether a call to url surely reaches what listens at own on the same machine.
func sameListener(url, own string) bool {
	if _, rest, found := strings.Cut(url, "://"); found {
		url = rest
	}

	host, port, err := net.SplitHostPort(url)
	ownHost, ownPort, ownErr := net.SplitHostPort(own)

	if err != nil || ownErr != nil || port != ownPort || port == "0" {
		return false
	}

	ip := net.ParseIP(ownHost)
	everywhere := ownHost == "" || ip != nil && ip.IsUnspecified()

	return host == ownHost || everywhere && loopback(host) ||
		(host == "localhost" || ownHost == "localhost") && loopback(host) && loopback(ownHost)
}
