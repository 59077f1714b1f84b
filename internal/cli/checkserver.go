package cli

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/leaseway/leaseway/internal/check"
	"github.com/leaseway/leaseway/internal/phrase"
	"github.com/leaseway/leaseway/internal/server"
)

// checkServer is a running server, and how to be let in.
type checkServer struct {
	url       string
	tokenFile string // "" sends no token
	ca        string // "" trusts the system's authorities
	cert, key string // what is shown of ourselves; "" shows nothing
}

const (
	serverPatience = 10 * time.Second
	maxAnswer      = 64 << 20 // bytes; every rule may be in it
	maxSecret      = 1 << 20  // bytes of a token or certificate file
)

// ask asks the server's check door.
func (s *checkServer) ask(ctx context.Context, q *question) (*check.Explained, error) {
	body, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}

	text, err := s.call(ctx, http.MethodPost, "/v1/check", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}

	answer := &check.Explained{}
	if err := json.Unmarshal(text, answer); err != nil {
		return nil, fmt.Errorf("the server's answer is not that of a check (is a Leaseway server at that URL?): %w", err)
	}

	return answer, nil
}

// call makes one call to the server, and returns its answer if that has status 200.
func (s *checkServer) call(ctx context.Context, method, path string, body io.Reader) ([]byte, error) {
	address, err := s.address()
	if err != nil {
		return nil, err
	}

	client, err := s.client()
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()

	path, query, _ := strings.Cut(path, "?")
	address = address.JoinPath(path)
	address.RawQuery = query

	req, err := http.NewRequestWithContext(ctx, method, address.String(), body)
	if err != nil {
		return nil, err
	}

	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}

	if s.tokenFile != "" {
		token, err := firstToken(s.tokenFile)
		if err != nil {
			return nil, fmt.Errorf("--token-file: %w", err)
		}

		req.Header.Set("Authorization", "Bearer "+token)
	}

	resp, err := client.Do(req)
	if err != nil {
		return nil, unasked(address, err)
	}
	defer resp.Body.Close()

	return readAnswer(resp)
}

// address is the server's URL. A token goes only where others cannot read it.
func (s *checkServer) address() (*url.URL, error) {
	text := s.url
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}

	u, err := url.Parse(text)

	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("--server %q is no URL: write http://HOST:PORT or https://HOST:PORT", phrase.Address(s.url))
	case s.tokenFile != "" && u.Scheme == "http" && !isLoopback(u.Hostname()):
		return nil, fmt.Errorf("--server %s would be sent the token in the clear: write https://", phrase.Address(s.url))
	}

	return u, nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)

	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (s *checkServer) client() (*http.Client, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}

	if s.ca != "" {
		text, err := readAtMost(s.ca, maxSecret)
		if err != nil {
			return nil, fmt.Errorf("--ca: %w", err)
		}

		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--ca: %s has no certificate in PEM form", s.ca)
		}
	}

	switch {
	case (s.cert == "") != (s.key == ""):
		return nil, errors.New("--client-cert and --client-key need each other")
	case s.cert != "":
		pair, err := server.ReadPair("--client-cert", s.cert, "--client-key", s.key)
		if err != nil {
			return nil, err
		}

		config.Certificates = []tls.Certificate{pair}
	}

	return &http.Client{
		Timeout:   serverPatience,
		Transport: newCertifying(config),
		// A redirect could lead the token elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// errUncertified is why a call failed whose server wanted a certificate, and got none.
var errUncertified = errors.New("the server asks for a certificate")

// certifying is a transport that knows whether the server wanted a certificate which there is not. A connection that fails for
// that may as well break off before the server's reason arrives.
type certifying struct {
	*http.Transport

	wanted atomic.Bool
}

func newCertifying(config *tls.Config) *certifying {
	c := &certifying{Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}}

	if len(config.Certificates) == 0 {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			c.wanted.Store(true)

			return &tls.Certificate{}, nil
		}
	}

	return c
}

// RoundTrip is that of the transport.
func (c *certifying) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := c.Transport.RoundTrip(req)
	if err != nil && c.wanted.Load() {
		err = fmt.Errorf("%w: %w", errUncertified, err)
	}

	return resp, err
}

// readAnswer reads an answer, or the problem that the server has with the question.
func readAnswer(resp *http.Response) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))

	switch {
	case err != nil:
		return nil, fmt.Errorf("read the server's answer: %w", err)
	case len(text) > maxAnswer:
		return nil, fmt.Errorf("the server's answer has more than %d bytes", maxAnswer)
	}

	if resp.StatusCode != http.StatusOK {
		var problem struct {
			Detail string `json:"detail"`
		}
		if err := json.Unmarshal(text, &problem); err != nil || problem.Detail == "" {
			problem.Detail = "is a Leaseway server at that URL?"
		}

		return nil, fmt.Errorf("the server answered %s: %s", resp.Status, problem.Detail)
	}

	return text, nil
}

// firstToken reads the first token of a file as servers have it: one a line, with # comments.
func firstToken(path string) (string, error) {
	text, err := readAtMost(path, maxSecret)
	if err != nil {
		return "", err
	}

	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if line := strings.TrimSpace(lines.Text()); line != "" && line[0] != '#' {
			return line, nil
		}
	}

	return "", fmt.Errorf("%s has no token", path)
}

// readAtMost reads a file of at most that many bytes.
func readAtMost(path string, most int64) ([]byte, error) {
	file, err := os.Open(path) //nolint:gosec // whoever runs the command names the file
	if err != nil {
		return nil, err
	}
	defer file.Close()

	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s is too large: at most %d bytes are read", path, most)
	}

	return text, err
}
