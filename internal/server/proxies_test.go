package server

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// asProxy asks r at GET /v1/check about a request to /v1/things, as Caddy does; more are fields, a name and a value each.
func (r *running) asProxy(t *testing.T, method string, more ...string) (status int, body string) {
	t.Helper()

	req, err := http.NewRequestWithContext(t.Context(), method, r.scheme+"://"+r.HTTP+"/v1/check?profile=caddy", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}

	req.Header.Set("X-Forwarded-Method", http.MethodGet)
	req.Header.Set("X-Forwarded-Uri", "/v1/things")
	req.Header.Set("X-Forwarded-For", "192.0.2.1")
	req.Header.Set("Authorization", "Bearer of-the-client")

	for i := 0; i < len(more); i += 2 {
		req.Header.Set(more[i], more[i+1])
	}

	resp, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}

	defer func() { _ = resp.Body.Close() }()

	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}

	return resp.StatusCode, string(text)
}

const perAddress = "rules: [{id: per-address, scope: /v1/things, keyBy: ip, limit: 2, window: 1h}]"

func TestTrustedProxiesAskForTheirClients(t *testing.T) {
	r := start(t, "--rules", file(t, perAddress), "--trusted-proxies", "127.0.0.1")

	for _, method := range []string{http.MethodGet, http.MethodPost} { // whatever the proxy sends
		if status, body := r.asProxy(t, method); status != http.StatusNoContent {
			t.Errorf("%s: status %d: %s", method, status, body)
		}
	}

	if status, body := r.asProxy(t, http.MethodGet); status != http.StatusTooManyRequests || !strings.Contains(body, "per-address") {
		t.Errorf("over the limit: status %d: %s", status, body)
	}

	if status, _ := r.asProxy(t, http.MethodGet, "X-Forwarded-For", "192.0.2.2"); status != http.StatusNoContent {
		t.Errorf("another client: status %d", status)
	}
}

func TestNobodyIsATrustedProxyUnlessTold(t *testing.T) {
	r := start(t, "--rules", file(t, perAddress))

	if status, body := r.asProxy(t, http.MethodGet); status != http.StatusForbidden || !strings.Contains(body, "--trusted-proxies") {
		t.Errorf("status %d: %s", status, body)
	}
}

func TestProxiesHaveATokenOfTheirOwn(t *testing.T) {
	r := start(t, "--rules", file(t, perAddress), "--trusted-proxies", "127.0.0.0/8", "--token-file", file(t, "of-the-proxy-0123456789\n"))

	if status, body := r.asProxy(t, http.MethodGet); status != http.StatusForbidden || !strings.Contains(body, "X-Leaseway-Token") {
		t.Errorf("without the token: status %d: %s", status, body)
	}

	// The token is not one that a client could send as its own credential instead.
	if status, _ := r.asProxy(t, http.MethodGet, "Authorization", "Bearer of-the-proxy-0123456789"); status != http.StatusForbidden {
		t.Errorf("with the token as a credential: status %d", status)
	}

	if status, body := r.asProxy(t, http.MethodGet, "X-Leaseway-Token", "of-the-proxy-0123456789"); status != http.StatusNoContent {
		t.Errorf("with the token: status %d: %s", status, body)
	}
}

func TestTrustedProxiesAreNetworks(t *testing.T) {
	for _, row := range []struct{ networks, says string }{
		{"10.0.0.0/33", "no network"},
		{"proxy.internal", "no network"},
		{"0.0.0.0/0", "everyone"},
		{"10.0.0.1,::/0", "everyone"},
		{"::ffff:10.0.0.0/104", "IPv4 in the form of IPv6"},
	} {
		_, err := load([]string{"--trusted-proxies", row.networks}, nil)
		if err == nil || !strings.Contains(err.Error(), row.says) || !strings.Contains(err.Error(), "--trusted-proxies") {
			t.Errorf("%s: %v, want a word of %q", row.networks, err, row.says)
		}
	}

	config, err := load([]string{"--trusted-proxies", "10.1.2.3, fd00::1/8,192.0.2.7"}, nil)
	if err != nil {
		t.Fatal(err)
	}

	networks, err := config.trustedProxies()
	if err != nil {
		t.Fatal(err)
	}

	var text []string
	for _, network := range networks {
		text = append(text, network.String())
	}

	if got := strings.Join(text, " "); got != "10.1.2.3/32 fd00::/8 192.0.2.7/32" {
		t.Errorf("got %s", got)
	}
}
