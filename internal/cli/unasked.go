package cli

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
)

// unasked is the error of a question that got no answer. What answers in binary is the port for gRPC; it may do so before it is
// asked, and net/http has other words for that.
func unasked(server *url.URL, err error) error {
	address := server.Redacted()
	text := err.Error()
	if strings.Contains(text, "malformed HTTP response") || strings.Contains(text, "readLoopPeekFailLocked") {
		return fmt.Errorf("--server %s does not speak HTTP: name the port of the server's --listen (8080 unless said), "+
			"not that of --grpc-listen", address)
	}

	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err // without the whole URL
	}

	if errors.Is(err, errUncertified) {
		return fmt.Errorf("the server at %s asks for a certificate: show one by --client-cert and --client-key, or a context", address)
	}

	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return fmt.Errorf("the server at %s is vouched for by nobody known: name the authority's certificate by --ca (%w)", address, err)
	}

	if fix := mendCertificate(err, server.Scheme == "https"); fix != "" {
		return fmt.Errorf("the server at %s cannot be asked: %w (%s)", address, err, fix)
	}

	if errors.Is(err, http.ErrSchemeMismatch) {
		return fmt.Errorf("the server at %s does not speak TLS: write http:// before its address, or start it with --tls-cert and "+
			"--tls-key", address)
	}

	if _, ok := errors.AsType[*net.OpError](err); ok {
		return fmt.Errorf("the server at %s cannot be asked: %w (start leaseway serve there, or name its --listen by --server or "+
			"leaseway context)", address, err)
	}

	return fmt.Errorf("ask the server at %s: %w", address, err)
}

// mendCertificate says what to do about an error of a certificate, the server's or ours; "" if it is none. A server that wants
// another one of ours hangs up, and what it said is lost when we were still sending.
func mendCertificate(err error, secure bool) string {
	const another = "show one by --client-cert and --client-key of an authority in its --tls-client-ca"

	if secure && (errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)) {
		return "if it asks for a certificate, " + another + ", which has not expired"
	}

	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "call it by a name that is in its certificate"
	}

	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return "renew its certificate, or set this machine's clock"
	}

	switch _, said, _ := strings.Cut(err.Error(), "remote error: tls: "); {
	case strings.HasPrefix(said, "expired certificate"):
		return "renew the certificate of --client-cert, or set the server's clock"
	case strings.Contains(said, "certificate"):
		return another
	default:
		return ""
	}
}
