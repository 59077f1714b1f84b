package leaseway_test

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/leaseway/leaseway"
)

// Dial says what is wrong, and tells what may pass from what waiting does not mend.
func TestDialSaysWhatIsWrong(t *testing.T) {
	t.Parallel()

	f := newFleet(t, "rules: [{id: r, limit: 1, window: 1s}]", 0)

	other, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}

	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	_ = gone.Close()

	page := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(page.Close)

	for name, c := range map[string]struct {
		url  string
		opts []leaseway.Option
		code leaseway.Code
		says string
	}{
		"nobody there":     {gone.Addr().String(), nil, leaseway.CodeUnavailable, "WithStateDir"},
		"who is not there": {gone.Addr().String(), nil, leaseway.CodeUnavailable, "asked " + gone.Addr().String() + " (connection refused)"},
		"an unpinned key":  {f.addr, []leaseway.Option{leaseway.WithCoordinatorKeys(other)}, leaseway.CodeInvalid, "WithCoordinatorKeys"},
		"the port of HTTP": {page.Listener.Addr().String(), nil, leaseway.CodeInvalid, "--grpc-listen"},
		"no address":       {"foo", nil, leaseway.CodeInvalid, "foo"},
		"another protocol": {"http://127.0.0.1:1", nil, leaseway.CodeInvalid, "http"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()

			_, err := leaseway.Dial(ctx, []string{c.url}, c.opts...)
			if !errors.Is(err, &leaseway.Error{Code: c.code}) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want code %s and %q", err, c.code, c.says)
			}
		})
	}
}

// What a certificate lacks is said as what to change in the options.
func TestDialSaysWhatACertificateLacks(t *testing.T) {
	t.Parallel()

	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)

	known := x509.NewCertPool()
	known.AddCert(server.Certificate())

	address := server.Listener.Addr().String()

	for name, c := range map[string]struct {
		url  string
		tls  *tls.Config
		says string
	}{
		"plaintext":         {"grpc://" + address, nil, "grpcs://"},
		"another authority": {"grpcs://" + address, &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}, "RootCAs"},
		"another name": {
			"grpcs://" + address, &tls.Config{RootCAs: known, ServerName: "other.invalid", MinVersion: tls.VersionTLS12}, "ServerName",
		},
		"out of date": {"grpcs://" + address, &tls.Config{
			RootCAs: known, MinVersion: tls.VersionTLS12, Time: func() time.Time { return server.Certificate().NotAfter.Add(time.Hour) },
		}, "renew"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()

			_, err := leaseway.Dial(ctx, []string{c.url}, leaseway.WithTLS(c.tls))
			if !errors.Is(err, &leaseway.Error{Code: leaseway.CodeInvalid}) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
}
