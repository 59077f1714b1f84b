package leaseway

import (
	"context"
	"crypto/tls"
	"errors"
	"time"

	"github.com/leaseway/leaseway/internal/rpc"
)

// Dial returns a Limiter that leases from the coordinators at urls: host:port,
// grpc://host:port (plaintext, loopback only) or grpcs://host:port (TLS). All of
// them must share one store.
//
// It waits for the first rules, at most 5 s or until ctx ends, unless a state
// directory (WithStateDir) has those of an earlier run: then a server starts
// although no coordinator can be reached, and limits by its own share.
func Dial(ctx context.Context, urls []string, opts ...Option) (*Limiter, error) {
	o := gather(opts)
	holder := incarnation()

	config := rpc.Config{
		URLs: urls, Name: o.name, Holder: holder, Keys: o.keys,
		AllowUnsigned: len(o.keys) == 0 && (o.insecure || allLoopback(urls)),
		Insecure:      o.insecure, Logger: o.logger,
	}

	if o.tls != nil {
		config.TLS = func() *tls.Config { return o.tls }
	}

	if o.token != "" {
		config.Token = func() string { return o.token }
	}

	client, err := rpc.Dial(config)
	if err != nil {
		return nil, &Error{Code: CodeInvalid, Message: "cannot use these coordinators", Err: err}
	}

	l, err := Over(ctx, client, append(opts, WithIncarnation(holder))...)
	if err != nil {
		if e, ok := errors.AsType[*Error](err); ok && e.Code == CodeUnavailable {
			e.Message += ": asked " + client.Asked()
		}

		err = explain(ctx, client, err)
		_ = client.Close()

		return nil, err
	}

	l.release = append(l.release, func(context.Context) error { return client.Close() })

	return l, nil
}

// explain says what waiting would not have mended: a wrong token or key, or no coordinator at all.
func explain(ctx context.Context, client *rpc.Client, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTime)
	defer cancel()

	if misfit := client.Probe(ctx); misfit != nil {
		return &Error{
			Code: CodeInvalid, Message: "these coordinators cannot be used as configured", Err: misfit,
			Hint: mend(misfit),
		}
	}

	return err
}

// mend says what to change when no coordinator fits.
func mend(err error) string {
	misfit, ok := errors.AsType[*rpc.MisfitError](err)
	if !ok {
		return "check WithToken, WithCoordinatorKeys and the gRPC address"
	}

	switch misfit.Misfit {
	case rpc.MisfitToken:
		return "give WithToken one of those in the coordinator's --token-file"
	case rpc.MisfitKey:
		return "give WithCoordinatorKeys the public key that the coordinator logs at its start"
	case rpc.MisfitRole:
		return "name the --grpc-listen of a coordinator, which is a server without --coordinator"
	case rpc.MisfitPlaintext:
		return "it does not speak TLS: write grpc://, or give it a certificate"
	case rpc.MisfitTLS:
		return "it speaks TLS: write grpcs:// before its address"
	case rpc.MisfitAuthority:
		return "give WithTLS a config whose RootCAs have the authority that signed the coordinator's certificate"
	case rpc.MisfitName:
		return "call the coordinator by a name that is in its certificate, or set ServerName in the config of WithTLS"
	case rpc.MisfitCertificate:
		return "give WithTLS a config with a certificate of an authority in the coordinator's --tls-client-ca"
	case rpc.MisfitExpired:
		return "renew the certificate that has expired, the coordinator's or that of WithTLS, or set the clock"
	case rpc.MisfitProtocol:
	}

	return "it does not speak gRPC: name the port of the coordinator's --grpc-listen (8081 unless said), not that of --listen"
}

const probeTime = 2 * time.Second
