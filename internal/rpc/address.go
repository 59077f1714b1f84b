package rpc

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/leaseway/leaseway/internal/phrase"
)

// address is where a coordinator is.
type address struct {
	url  string // as configured
	host string
	port string
	tls  bool
}

// target returns the address as gRPC dials it.
func (a address) target() string { return "dns:///" + net.JoinHostPort(a.host, a.port) }

// loopback reports whether what is sent there stays on this machine.
func (a address) loopback() bool {
	ip, err := netip.ParseAddr(a.host)

	return a.host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// CheckURLs reports what is wrong with the URL of a coordinator, before anything else is made of it.
func CheckURLs(urls []string) error {
	for i, url := range urls {
		if _, err := parseAddress(url, false); err != nil {
			return fmt.Errorf("rpc: coordinator %d: %w", i+1, err)
		}
	}

	return nil
}

// parseAddress reads HOST:PORT, grpc://HOST:PORT or grpcs://HOST:PORT; secure is whether the first form is TLS.
func parseAddress(url string, secure bool) (address, error) {
	a := address{url: url, tls: secure}
	rest := url

	if scheme, after, found := strings.Cut(url, "://"); found {
		rest = strings.TrimSuffix(after, "/")

		switch scheme {
		case "grpc":
			a.tls = false
		case "grpcs":
			a.tls = true
		default:
			return a, fmt.Errorf("%.100q has the scheme %.20q (write grpc:// for plaintext or grpcs:// for TLS)",
				phrase.Address(url), scheme)
		}
	}

	host, port, err := net.SplitHostPort(rest)
	if err != nil || host == "" || strings.ContainsAny(host, "/@ ?#%") {
		return a, fmt.Errorf("%.100q is no coordinator (write HOST:PORT, such as grpcs://coordinator:8081)", phrase.Address(url))
	}

	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return a, fmt.Errorf("%.100q has the port %.20q (write a number from 1 to 65535)", url, port)
	}

	a.host, a.port = host, port

	return a, nil
}
