//go:build linux

package deploy

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// traefik is what a file of Traefik's file provider may have, by its documentation, as far as ours uses it.
type traefik struct {
	HTTP struct {
		Routers map[string]struct {
			Rule        string   `yaml:"rule"`
			EntryPoints []string `yaml:"entryPoints"`
			Middlewares []string `yaml:"middlewares"`
			Service     string   `yaml:"service"`
		} `yaml:"routers"`
		Middlewares map[string]struct {
			Headers *struct {
				CustomRequestHeaders map[string]string `yaml:"customRequestHeaders"`
			} `yaml:"headers"`
			ForwardAuth *struct {
				Address                  string `yaml:"address"`
				TrustForwardHeader       bool   `yaml:"trustForwardHeader"`
				AuthResponseHeadersRegex string `yaml:"authResponseHeadersRegex"`
			} `yaml:"forwardAuth"`
		} `yaml:"middlewares"`
		Services map[string]struct {
			LoadBalancer struct {
				Servers []struct {
					URL string `yaml:"url"`
				} `yaml:"servers"`
			} `yaml:"loadBalancer"`
		} `yaml:"services"`
	} `yaml:"http"`
}

// Traefik is not to be had here. So its configuration is held against what may stand in one, and Leaseway is asked at its address as
// Traefik is documented to ask: a GET with the client's fields and five of its own, which no client sets.
func TestTraefik(t *testing.T) {
	t.Parallel()

	var config traefik

	decoder := yaml.NewDecoder(strings.NewReader(read(t, "traefik/dynamic.yaml")))
	decoder.KnownFields(true)

	if err := decoder.Decode(&config); err != nil {
		t.Fatal(err)
	}

	router := config.HTTP.Routers["api"]
	auth := config.HTTP.Middlewares["leaseway"].ForwardAuth
	words := config.HTTP.Middlewares["own-words"].Headers

	if auth == nil || words == nil || auth.TrustForwardHeader || !slices.Equal(router.Middlewares, []string{"own-words", "leaseway"}) ||
		len(config.HTTP.Services[router.Service].LoadBalancer.Servers) == 0 {
		t.Fatalf("got %+v", config.HTTP)
	}

	// An empty value removes a field: what this proxy alone may say must not come from a client.
	for _, name := range []string{"X-User", "Leaseway-Class"} {
		if value, there := words.CustomRequestHeaders[name]; !there || value != "" {
			t.Errorf("clients may say %s", name)
		}
	}

	passed, err := regexp.Compile(auth.AuthResponseHeadersRegex)
	if err != nil {
		t.Fatal(err)
	}

	dir, leaseway := t.TempDir(), freeAddress(t)
	write(t, filepath.Join(dir, "rules.yaml"), rules)
	startProcess(t, os.Args[0], "serve", "--rules", filepath.Join(dir, "rules.yaml"), "--listen", leaseway, "--grpc-listen", "127.0.0.1:0",
		"--data-dir", filepath.Join(dir, "data"), "--trusted-proxies", "127.0.0.1").Answers(t, leaseway)

	address := strings.Replace(auth.Address, leasewayAddress, leaseway, 1)

	for i, method := range []string{http.MethodPost, http.MethodHead, http.MethodGet, http.MethodHead, http.MethodPost} {
		status := http.StatusNoContent
		if i >= 2 {
			status = http.StatusTooManyRequests
		}

		got := forwardAuth(t, address, "192.0.2.1", method)
		got.want(t, status, "asked as Traefik does")
		got.wantTold(t, "asked as Traefik does")

		// What Traefik answers with unless it is 2xx, as it is; and what it passes to the API if it is.
		if status == http.StatusTooManyRequests {
			if method != http.MethodHead {
				got.wantProblem(t, "per-address")
			}

			if got.header.Get("Retry-After") == "" {
				t.Errorf("%s over the limit: fields %v", method, got.header)
			}
		}

		for name := range got.header {
			if ours := strings.Contains(strings.ToLower(name), "ratelimit"); ours != passed.MatchString(name) {
				t.Errorf("%s is passed to the API: %v", name, !ours)
			}
		}
	}

	other := forwardAuth(t, address, "192.0.2.2", http.MethodPost)
	other.want(t, http.StatusNoContent, "another client")
}

// forwardAuth asks about a client's request as Traefik's middleware does.
func forwardAuth(t *testing.T, address, client, method string) answer {
	t.Helper()

	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}

	for name, value := range map[string]string{
		"X-Forwarded-Method": method, "X-Forwarded-Proto": "http", "X-Forwarded-Host": "api.example.com",
		"X-Forwarded-Uri": "/v1/addresses?a=b", "X-Forwarded-For": client, "Accept-Encoding": "gzip", "User-Agent": "of the client",
	} {
		r.Header.Set(name, value)
	}

	return hear(t, from("127.0.0.1"), r)
}
