package redis

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaseway/leaseway/internal/proctest"
	"github.com/leaseway/leaseway/internal/store/redis/redistest"
)

// A connection is used if both sides are who they should be, and else its error says what is wrong.
func TestTLS(t *testing.T) {
	certs := redistest.NewCertificates(t)
	plain, address := redistest.NewTLSServer(t, certs)
	_, wary := redistest.NewTLSServer(t, certs, "--tls-auth-clients", "yes")
	_, strange := redistest.NewTLSServer(t, certs, "--tls-cert-file", certs.StrangeCert)
	trusting := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: certs.Pool}
	shown := trusting.Clone()
	shown.Certificates = []tls.Certificate{certs.Client}

	silent, err := net.Listen("tcp", "127.0.0.1:0") // who connects is never answered
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()

	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	_ = gone.Close()

	for name, test := range map[string]struct {
		address string
		config  *tls.Config
		trouble Trouble
		works   bool
	}{
		"our authority":          {address: address, config: trusting, works: true},
		"a certificate of ours":  {address: wary, config: shown, works: true},
		"a strange authority":    {address: address, config: &tls.Config{MinVersion: tls.VersionTLS12}, trouble: TroubleAuthority},
		"another's name":         {address: strange, config: trusting, trouble: TroubleName},
		"no certificate of ours": {address: wary, config: trusting, trouble: TroubleCertificate},
		"plain where TLS is":     {address: address, trouble: TroubleEncrypted},
		"TLS where plain is":     {address: plain.Address, config: trusting, trouble: TroublePlaintext},
		"nobody":                 {address: gone.Addr().String(), trouble: TroubleNobody},
		"somebody who is silent": {address: silent.Addr().String(), trouble: TroubleSilent},
		"TLS to somebody silent": {address: silent.Addr().String(), config: trusting, trouble: TroubleSilent},
	} {
		t.Run(name, func(t *testing.T) {
			patience := proctest.Patience
			if test.trouble == TroubleSilent || test.trouble == TroublePlaintext { // nothing comes, however long it is waited for
				patience = time.Second
			}

			ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
			defer cancel()

			config := Config{Addresses: []string{test.address}, DialTimeout: patience, DeadAfter: patience}
			if test.config != nil {
				config.TLS = func() *tls.Config { return test.config }
			}

			s, err := New(ctx, config)
			if err == nil {
				defer s.Close(ctx)
			}

			switch {
			case test.works && err != nil:
				t.Fatal(err)
			case test.works:
				if got := (&taker{T: t, store: s}).drain("k", hourly(10), 12); got != 10 {
					t.Errorf("%d of 10 were taken", got)
				}
			case err == nil:
				t.Error("it was used")
			default:
				if got := Diagnose(t.Context(), &config, err); got != test.trouble {
					t.Errorf("trouble %d, want %d: %v", got, test.trouble, err)
				}
			}
		})
	}
}

// A connection is encrypted as Config says when it is made: certificates can be renewed while a store is in use.
func TestTLSIsThatOfTheMoment(t *testing.T) {
	certs := redistest.NewCertificates(t)
	server, address := redistest.NewTLSServer(t, certs, "--tls-auth-clients", "yes")
	bare := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: certs.Pool}
	good := bare.Clone()
	good.Certificates = []tls.Certificate{certs.Client}

	var now atomic.Pointer[tls.Config]

	now.Store(good)

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	s, err := New(ctx, Config{Addresses: []string{address}, TLS: now.Load})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(ctx)

	for _, row := range []struct {
		config *tls.Config
		works  bool
	}{{good, true}, {bare, false}, {good, true}} {
		now.Store(row.config)

		if err := server.Do(ctx, "CLIENT", "KILL", "TYPE", "normal"); err != nil {
			t.Fatal(err)
		}

		proctest.Eventually(t, "new connections are made by the new configuration", func() bool {
			_, err := s.Beat(ctx, []uint64{1}, time.Second)

			return (err == nil) == row.works
		})
	}
}
