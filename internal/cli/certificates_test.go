package cli

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// certificatesCommand writes ca.crt, and for each name a certificate of that authority, NAME.crt, with its key, NAME.key.
func certificatesCommand(ts *testscript.TestScript, _ bool, args []string) {
	authority := newCertificate(ts, "ca", nil)

	for _, name := range args {
		newCertificate(ts, name, authority)
	}
}

// certificate is one with its key.
type certificate struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newCertificate makes one for this machine and writes it; without an authority one that is its own.
func newCertificate(ts *testscript.TestScript, name string, by *certificate) *certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ts.Check(err)

	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: by == nil, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}

	one := &certificate{cert: template, key: key}
	if by == nil {
		by = one
	}

	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, key.Public(), by.key)
	ts.Check(err)

	private, err := x509.MarshalPKCS8PrivateKey(key)
	ts.Check(err)

	for suffix, block := range map[string]*pem.Block{
		".crt": {Type: "CERTIFICATE", Bytes: der}, ".key": {Type: "PRIVATE KEY", Bytes: private},
	} {
		ts.Check(os.WriteFile(ts.MkAbs(name+suffix), pem.EncodeToMemory(block), 0o600))
	}

	one.cert, err = x509.ParseCertificate(der)
	ts.Check(err)

	return one
}
