package redistest

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
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/leaseway/leaseway/internal/proctest"
)

// Certificates are files with an authority of their own, and what it certified: a server at 127.0.0.1, a server at another
// address, and a client.
type Certificates struct {
	CA                    string
	Cert, Key             string
	StrangeCert           string // of the same key, for 192.0.2.1
	ClientCert, ClientKey string

	Pool   *x509.CertPool  // of the authority
	Client tls.Certificate // what a client shows
}

// NewCertificates makes certificates that are good for an hour.
func NewCertificates(tb testing.TB) *Certificates {
	tb.Helper()

	dir := tb.TempDir()
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	caKey, key, clientKey := newKey(tb), newKey(tb), newKey(tb)
	leaf := func(serial int64, ip string) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "test " + ip}, IPAddresses: []net.IP{net.ParseIP(ip)},
			NotBefore: authority.NotBefore, NotAfter: authority.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		}
	}
	certify := func(name string, cert *x509.Certificate, of *ecdsa.PrivateKey) string {
		der, err := x509.CreateCertificate(rand.Reader, cert, authority, &of.PublicKey, caKey)
		if err != nil {
			tb.Fatal(err)
		}

		return inPEM(tb, filepath.Join(dir, name), "CERTIFICATE", der)
	}
	private := func(name string, key *ecdsa.PrivateKey) string {
		der, err := x509.MarshalECPrivateKey(key)
		if err != nil {
			tb.Fatal(err)
		}

		return inPEM(tb, filepath.Join(dir, name), "EC PRIVATE KEY", der)
	}

	c := &Certificates{
		CA:   certify("ca.pem", authority, caKey),
		Cert: certify("cert.pem", leaf(2, "127.0.0.1"), key), Key: private("key.pem", key),
		StrangeCert: certify("strange.pem", leaf(3, "192.0.2.1"), key),
		ClientCert:  certify("client.pem", leaf(4, "127.0.0.2"), clientKey), ClientKey: private("client-key.pem", clientKey),
		Pool: x509.NewCertPool(),
	}

	text, err := os.ReadFile(c.CA)
	if err == nil {
		c.Pool.AppendCertsFromPEM(text)
		c.Client, err = tls.LoadX509KeyPair(c.ClientCert, c.ClientKey)
	}

	if err != nil {
		tb.Fatal(err)
	}

	return c
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}

	return key
}

func inPEM(tb testing.TB, path, kind string, der []byte) string {
	tb.Helper()

	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		tb.Fatal(err)
	}

	return path
}

// NewTLSServer starts a server by itself that can be reached over TLS at the address that is returned, and by the tests
// without; more are further lines of its configuration.
func NewTLSServer(tb testing.TB, certs *Certificates, more ...string) (server *Server, address string) {
	tb.Helper()

	ports, err := proctest.FreePorts(portsOfServer + 1)
	if err != nil {
		tb.Fatal(err)
	}

	port := strconv.Itoa(ports[portsOfServer])
	args := append([]string{
		"--tls-port", port, "--tls-cert-file", certs.Cert, "--tls-key-file", certs.Key, "--tls-ca-cert-file", certs.CA,
		"--tls-auth-clients", "no",
	}, more...)

	return newServer(tb, ports, args...), net.JoinHostPort("127.0.0.1", port)
}
