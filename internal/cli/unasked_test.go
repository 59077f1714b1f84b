package cli

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"syscall"
	"testing"
)

// Whatever is wrong with a certificate, the error says which one to change, and never to start a server that runs.
func TestAnErrorOfACertificateNamesItsFix(t *testing.T) {
	remote := func(text string) error { return &net.OpError{Op: "remote error", Err: errors.New("tls: " + text)} }
	write := func(code syscall.Errno) error { return &net.OpError{Op: "write", Err: code} }

	for _, row := range []struct {
		err  error
		want string
	}{
		{x509.UnknownAuthorityError{}, "--ca"},
		{x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"a.example"}}, Host: "b.example"}, "a name that is in its certificate"},
		{x509.CertificateInvalidError{Reason: x509.Expired}, "renew its certificate"},
		{remote("expired certificate"), "renew the certificate of --client-cert"},
		{remote("certificate required"), "--tls-client-ca"},
		{remote("unknown certificate authority"), "--tls-client-ca"},
		{write(syscall.EPIPE), "if it asks for a certificate"},
		{write(syscall.ECONNRESET), "if it asks for a certificate"},
	} {
		secure := &url.URL{Scheme: "https", Host: "limits.example:8080"}

		text := unasked(secure, fmt.Errorf("tls: %w", row.err)).Error()
		if !strings.Contains(text, row.want) || strings.Contains(text, "start leaseway serve") {
			t.Errorf("%v: %s, want %q", row.err, text, row.want)
		}
	}

	plain := &url.URL{Scheme: "http", Host: "limits.example:8080"}
	if text := unasked(plain, write(syscall.ECONNRESET)).Error(); !strings.Contains(text, "start leaseway serve") {
		t.Errorf("without TLS: %s", text)
	}
}
