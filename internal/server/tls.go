package server

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
)

// maxPEM is the size of the largest certificate or key file, in bytes.
const maxPEM = 1 << 20

// identity is the certificate that the server shows and the authorities that vouch for its clients, as the files have them
// now: whoever renews a certificate only replaces the files. Handshakes under way keep what they began with.
type identity struct {
	cert, key, clientCA string // paths; clientCA may be ""
	log                 *slog.Logger
	current             atomic.Pointer[tls.Config]
	content             [3][]byte // of the files, as last read
}

// open reads the files for the first time. The error is a *UsageError.
func (i *identity) open() error {
	content, err := i.read()
	if err == nil {
		i.content = content
		err = i.load()
	}

	if err != nil {
		return usage("--tls-cert, --tls-key or --tls-client-ca: %v", err)
	}

	return nil
}

// refresh reads the files again; bad ones leave the last good ones in force. Only the follower calls it.
func (i *identity) refresh() {
	content, err := i.read()
	if err == nil && slices.EqualFunc(content[:], i.content[:], bytes.Equal) {
		return
	}

	if err == nil {
		i.content = content
		err = i.load()
	}

	if err != nil {
		// Between the replacement of the certificate and that of its key the two do not fit: the next notice mends it.
		i.log.Warn("the changed TLS files are refused: the last good ones stay in force", "error", err)

		return
	}

	i.log.Info("TLS certificate in force", "path", i.cert)
}

func (i *identity) read() (content [3][]byte, err error) {
	for n, path := range [...]string{i.cert, i.key, i.clientCA} {
		if path == "" {
			continue
		}

		if content[n], err = readBounded(path, maxPEM); err != nil {
			return content, err
		}
	}

	return content, nil
}

// load puts i.content in force.
func (i *identity) load() error {
	pair, err := tls.X509KeyPair(i.content[0], i.content[1])
	if err != nil {
		return fmt.Errorf("%s and %s: %w", i.cert, i.key, err)
	}

	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}

	if i.clientCA != "" {
		if config.ClientCAs, err = certPool(i.clientCA, i.content[2]); err != nil {
			return err
		}

		config.ClientAuth = tls.RequireAndVerifyClientCert
	}

	i.current.Store(config)

	return nil
}

// config is for a listener: each handshake takes what is in force at that moment.
func (i *identity) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return i.current.Load(), nil
		},
	}
}

func certPool(path string, text []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate in PEM form", path)
	}

	return pool, nil
}

// clientTLS is for calls to coordinators: the authorities in caFile, or the system's when it is "", and the server's own
// certificate when it has one, for coordinators that ask for it.
func clientTLS(caFile string, own *identity) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}

	if caFile != "" {
		text, err := readBounded(caFile, maxPEM)
		if err != nil {
			return nil, usage("--coordinator-ca: %v", err)
		}

		if config.RootCAs, err = certPool(caFile, text); err != nil {
			return nil, usage("--coordinator-ca: %v", err)
		}
	}

	if own != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &own.current.Load().Certificates[0], nil
		}
	}

	return config, nil
}
