package server

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// maxPEM is the size of the largest certificate or key file, in bytes.
const maxPEM = 1 << 20

// pemFile is a file of certificates or keys that a flag names.
type pemFile struct {
	flag, path string
	text       []byte // as last read
}

// read reads the file; the error is a *UsageError that names the flag.
func (f *pemFile) read() error {
	var err error
	if f.text, err = readBounded(f.path, maxPEM); err != nil {
		return unusable(f.flag, err)
	}

	return nil
}

// pool is the certificates in the file; the error is a *UsageError that names the flag.
func (f *pemFile) pool() (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(f.text) {
		return nil, usage("%s: %s has no certificate in PEM form", f.flag, f.path)
	}

	return pool, nil
}

// has tells whether the file has a block in PEM form whose type ends in kind.
func (f *pemFile) has(kind string) bool {
	for block, rest := pem.Decode(f.text); block != nil; block, rest = pem.Decode(rest) {
		if strings.HasSuffix(block.Type, kind) {
			return true
		}
	}

	return false
}

// readPool reads the certificates in the file at path. The error is a *UsageError that names the flag.
func readPool(flag, path string) (*x509.CertPool, error) {
	f := pemFile{flag: flag, path: path}
	if err := f.read(); err != nil {
		return nil, err
	}

	return f.pool()
}

// pairOf is a certificate and its key. The error is a *UsageError that names the flag of the file that is wrong; of both, where they do
// not fit.
func pairOf(cert, key *pemFile) (tls.Certificate, error) {
	pair, err := tls.X509KeyPair(cert.text, key.text)

	switch {
	case err == nil:
	case !cert.has("CERTIFICATE"):
		err = usage("%s: %s has no certificate in PEM form", cert.flag, cert.path)
	case !key.has("PRIVATE KEY"):
		err = usage("%s: %s has no private key in PEM form", key.flag, key.path)
	default:
		err = usage("%s %s and %s %s: %v", cert.flag, cert.path, key.flag, key.path, err)
	}

	return pair, err
}

// ReadPair reads a certificate and its key from the files at two paths that two flags name. The error is a *UsageError that names the
// flag of the file that is wrong; both, where they do not fit.
func ReadPair(certFlag, cert, keyFlag, key string) (tls.Certificate, error) {
	files := [...]pemFile{{flag: certFlag, path: cert}, {flag: keyFlag, path: key}}
	if err := problems(files[0].read(), files[1].read()); err != nil {
		return tls.Certificate{}, err
	}

	return pairOf(&files[0], &files[1])
}

// identity is the certificate that this side of TLS shows and the authorities that vouch for the other, as the files have them
// now: whoever renews a certificate only replaces the files. Handshakes under way keep what they began with.
type identity struct {
	files     [3]pemFile   // certificate, key, and the authorities; without a path there are none, or the system's
	protocols []string     // to offer, of a listener
	log       *slog.Logger // nil where nobody would read it
	current   atomic.Pointer[tls.Config]

	mu      sync.Mutex // one refresh at a time
	refused string     // why, when the files were last refused
}

// newIdentity is the identity of the listeners that the settings name, which open reads.
func newIdentity(c *Config, log *slog.Logger) *identity {
	return &identity{log: log, protocols: []string{"h2", "http/1.1"}, files: [...]pemFile{
		{flag: "--tls-cert", path: c.TLSCert}, {flag: "--tls-key", path: c.TLSKey}, {flag: "--tls-client-ca", path: c.TLSClientCA},
	}}
}

// open reads the files for the first time. The error is a *UsageError.
func (i *identity) open() error {
	files, err := i.read()
	if err != nil {
		return err
	}

	i.files = files

	return i.load()
}

// refresh reads the files again; bad ones leave the last good ones in force.
func (i *identity) refresh() {
	i.mu.Lock()
	defer i.mu.Unlock()

	files, err := i.read()
	if err == nil {
		same := func(a, b pemFile) bool { return bytes.Equal(a.text, b.text) }
		if slices.EqualFunc(files[:], i.files[:], same) {
			return
		}

		i.files = files
		err = i.load()
	}

	log := i.log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}

	switch {
	case err == nil:
		i.refused = ""
		log.Info("TLS files in force", "paths", i.paths())
	case err.Error() != i.refused: // each call may look at them
		// Between the replacement of the certificate and that of its key the two do not fit: the next look mends it.
		i.refused = err.Error()
		log.Warn("the changed TLS files are refused: the last good ones stay in force", "error", err)
	}
}

func (i *identity) paths() (paths []string) {
	for n := range i.files {
		if path := i.files[n].path; path != "" {
			paths = append(paths, path)
		}
	}

	return paths
}

func (i *identity) read() ([3]pemFile, error) {
	files := i.files

	for n := range files {
		if files[n].path == "" {
			continue
		}

		if err := files[n].read(); err != nil {
			return files, err
		}
	}

	return files, nil
}

// load puts what was read in force.
func (i *identity) load() error {
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: i.protocols}

	if i.files[0].path != "" {
		pair, err := pairOf(&i.files[0], &i.files[1])
		if err != nil {
			return err
		}

		config.Certificates = []tls.Certificate{pair}
		// Whoever is called may ask for a certificate of authorities that it does not name.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}

	if authorities := &i.files[2]; authorities.path != "" {
		pool, err := authorities.pool()
		if err != nil {
			return err
		}

		config.ClientCAs, config.RootCAs = pool, pool // one of them counts: a side listens or calls
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}

	i.current.Store(config)

	return nil
}

// listens is the configuration of a listener: each handshake takes what is in force at that moment.
func (i *identity) listens() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: i.protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return i.current.Load(), nil
		},
	}
}

// calls is the configuration of a connection that is about to be made, by the files as they are then. So those of callers need
// nobody who follows them.
func (i *identity) calls() *tls.Config {
	i.refresh()

	return i.current.Load()
}
