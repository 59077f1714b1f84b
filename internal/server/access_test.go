package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	leasewayv1 "github.com/leaseway/leaseway/gen/leaseway/v1"
)

const secret = "a-token-that-nobody-guesses"

// dial connects to the gRPC listener, in plaintext without config.
func (r *running) dial(t *testing.T, config *tls.Config) *grpc.ClientConn {
	t.Helper()

	security := insecure.NewCredentials()
	if config != nil {
		security = credentials.NewTLS(config)
	}

	conn, err := grpc.NewClient(r.GRPC, grpc.WithTransportCredentials(security))
	must(t, err)
	t.Cleanup(func() { must(t, conn.Close()) })

	return conn
}

func TestWhoMayCallWhatWithATokenFile(t *testing.T) {
	r := start(t, "--token-file", file(t, secret+"\n"))

	for _, row := range []struct {
		method, path, body string
		open               bool
	}{
		{http.MethodGet, "/healthz", "", true},
		{http.MethodGet, "/readyz", "", true},
		{http.MethodGet, "/openapi.json", "", true},
		{http.MethodGet, "/metrics", "", false},
		{http.MethodPost, "/v1/check", `{"attributes": {}}`, false},
		{http.MethodPost, "/v1/rules/r/check", `{"key": "k"}`, false},
		{http.MethodGet, "/v1/anything", "", false},
	} {
		for token, valid := range map[string]bool{"": false, "another-token-of-some-length": false, secret: true} {
			r.token = token
			got := r.call(t, row.method, row.path, row.body)

			refused := got.status == http.StatusUnauthorized
			if refused != (!row.open && !valid) {
				t.Errorf("%s %s with token %q: got %d", row.method, row.path, token, got.status)
			}

			if refused && (got.header.Get("WWW-Authenticate") == "" || got.header.Get("Content-Type") != "application/problem+json") {
				t.Errorf("%s: the refusal does not say how to do it: %v %s", row.path, got.header, got.body)
			}
		}
	}
}

// A client reads one form of refusal, whatever it did wrong.
func TestAnotherMethodIsAProblemThatNamesTheRightOne(t *testing.T) {
	r := start(t)

	for _, row := range []struct{ method, path, allow string }{
		{http.MethodGet, "/v1/check", "POST"},
		{http.MethodGet, "/v1/rules/r/check", "POST"},
		{http.MethodPost, "/healthz", "GET, HEAD"},
		{http.MethodPost, "/metrics", "GET, HEAD"},
		{http.MethodDelete, "/openapi.json", "GET, HEAD"},
	} {
		got := r.call(t, row.method, row.path, "")
		if got.status != http.StatusMethodNotAllowed || got.header.Get("Allow") != row.allow ||
			got.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s: got %d %v %s", row.method, row.path, got.status, got.header, got.body)
		}
	}
}

func TestWhoMayCallWhatOverGRPCWithATokenFile(t *testing.T) {
	r := start(t, "--token-file", file(t, secret+"\n"))
	conn := r.dial(t, nil)

	for token, want := range map[string]codes.Code{"": codes.Unauthenticated, "Bearer wrong": codes.Unauthenticated, "Bearer " + secret: codes.OK} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", token)

		if _, err := leasewayv1.NewCheckServiceClient(conn).Check(ctx, &leasewayv1.CheckRequest{}); status.Code(err) != want {
			t.Errorf("Check with %q: got %v, want %v", token, err, want)
		}

		stream, err := leasewayv1.NewCoordinatorServiceClient(conn).WatchRules(ctx, &leasewayv1.WatchRulesRequest{Holder: 1, Name: "test"})
		if err == nil {
			_, err = stream.Recv()
		}

		if status.Code(err) != want {
			t.Errorf("WatchRules with %q: got %v, want %v", token, err, want)
		}

		if _, err := healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{}); err != nil {
			t.Errorf("a health check with %q: got %v, want none to be needed", token, err)
		}
	}
}

func TestTokensAreReplacedWithoutARestart(t *testing.T) {
	path := file(t, secret+"\n")
	r := start(t, "--token-file", path)
	conn := r.dial(t, nil)

	const next = "the-token-that-comes-after-it"

	replace(t, path, next+"\n")

	r.token = next
	eventually(t, "the new token is valid over HTTP", func() bool { return r.call(t, http.MethodGet, "/metrics", "").status == http.StatusOK })

	for token, want := range map[string]codes.Code{secret: codes.Unauthenticated, next: codes.OK} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)

		if _, err := leasewayv1.NewCheckServiceClient(conn).Check(ctx, &leasewayv1.CheckRequest{}); status.Code(err) != want {
			t.Errorf("gRPC with %q: got %v, want %v", token, err, want)
		}
	}
}

// authority signs certificates for this machine.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()

	a := &authority{}
	a.cert, a.key = sign(t, nil, "authority")

	return a
}

// sign makes a certificate and its key; with a nil authority one that is its own.
func sign(t *testing.T, by *authority, name string) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)

	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: by == nil, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}

	parent, signer := template, key
	if by != nil {
		parent, signer = by.cert, by.key
	}

	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	must(t, err)

	cert, err := x509.ParseCertificate(der)
	must(t, err)

	return cert, key
}

// issue writes a certificate and its key into dir, over those that are there.
func (a *authority) issue(t *testing.T, dir, name string) (certFile, keyFile string, serial *big.Int) {
	t.Helper()

	cert, key := sign(t, a, name)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)

	certFile, keyFile = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	replace(t, certFile, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})))
	replace(t, keyFile, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))

	return certFile, keyFile, cert.SerialNumber
}

// file writes the authority's own certificate.
func (a *authority) file(t *testing.T) string {
	t.Helper()

	return file(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})))
}

func (a *authority) config() *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)

	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

// overTLS makes r call with config.
func (r *running) overTLS(config *tls.Config) {
	r.scheme = "https"
	r.client = &http.Client{Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true, DisableKeepAlives: true}}
}

func TestCertificatesAreServedAndRenewedWithoutARestart(t *testing.T) {
	authority, dir := newAuthority(t), t.TempDir()
	certFile, keyFile, first := authority.issue(t, dir, "server")
	r := start(t, "--tls-cert", certFile, "--tls-key", keyFile)
	r.overTLS(authority.config())

	if got := r.call(t, http.MethodGet, "/healthz", ""); got.status != http.StatusOK {
		t.Errorf("got %d %s", got.status, got.body)
	}

	if _, err := healthv1.NewHealthClient(r.dial(t, authority.config())).Check(t.Context(), &healthv1.HealthCheckRequest{}); err != nil {
		t.Errorf("gRPC over TLS: %v", err)
	}

	serial := func() *big.Int {
		conn, err := tls.Dial("tcp", r.HTTP, authority.config())
		must(t, err)

		defer conn.Close()

		return conn.ConnectionState().PeerCertificates[0].SerialNumber
	}

	if serial().Cmp(first) != 0 {
		t.Error("another certificate than the one in the file is served")
	}

	_, _, second := authority.issue(t, dir, "server")
	eventually(t, "the renewed certificate is served", func() bool { return serial().Cmp(second) == 0 })

	// A broken file leaves the last good certificate.
	replace(t, certFile, "broken")
	eventually(t, "a line that says so", func() bool { return strings.Contains(r.Log.String(), "the changed TLS files are refused") })

	if serial().Cmp(second) != 0 {
		t.Error("a broken file changed the certificate that is served")
	}
}

func TestClientsNeedACertificateWhenAnAuthorityForThemIsNamed(t *testing.T) {
	authority, dir := newAuthority(t), t.TempDir()
	certFile, keyFile, _ := authority.issue(t, dir, "server")
	r := start(t, "--tls-cert", certFile, "--tls-key", keyFile, "--tls-client-ca", authority.file(t))

	stranger := newAuthority(t)
	strangeCert, strangeKey, _ := stranger.issue(t, dir, "stranger")
	clientCert, clientKey, _ := authority.issue(t, dir, "client")

	for _, row := range []struct {
		who, cert, key string
		admitted       bool
	}{
		{"nobody", "", "", false},
		{"a stranger", strangeCert, strangeKey, false},
		{"a client", clientCert, clientKey, true},
	} {
		config := authority.config()

		if row.cert != "" {
			pair, err := tls.LoadX509KeyPair(row.cert, row.key)
			must(t, err)

			// Shown even when the server asks for those of another authority.
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		}

		r.overTLS(config)

		resp, err := r.client.Get("https://" + r.HTTP + "/healthz")
		if err == nil {
			resp.Body.Close()
		}

		if (err == nil) != row.admitted {
			t.Errorf("HTTP as %s: %v", row.who, err)
		}

		_, err = healthv1.NewHealthClient(r.dial(t, config)).Check(t.Context(), &healthv1.HealthCheckRequest{})
		if (err == nil) != row.admitted {
			t.Errorf("gRPC as %s: %v", row.who, err)
		}
	}
}

func TestOldTLSIsRefused(t *testing.T) {
	authority := newAuthority(t)
	certFile, keyFile, _ := authority.issue(t, t.TempDir(), "server")
	r := start(t, "--tls-cert", certFile, "--tls-key", keyFile)

	config := authority.config()
	config.MinVersion, config.MaxVersion = tls.VersionTLS10, tls.VersionTLS11

	if conn, err := tls.Dial("tcp", r.HTTP, config); err == nil {
		conn.Close()
		t.Error("TLS 1.1 was accepted")
	}
}
