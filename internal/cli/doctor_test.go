package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/leaseway/leaseway/internal/store/redis/redistest"
)

// The exit status says whether anything is bad, and the output what to do, in each form.
func TestDoctor(t *testing.T) {
	server := redistest.NewServer(t)
	url := "redis://" + server.Address

	status, out, stderr := invoke(t, "doctor", "--store", url)
	if status != 0 || !strings.Contains(out, "warn  replicas") || !strings.Contains(out, "→ give it a replica") {
		t.Errorf("status %d: %s%s", status, out, stderr)
	}

	if err := server.Do(t.Context(), "CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru"); err != nil {
		t.Fatal(err)
	}

	status, out, stderr = invoke(t, "doctor", "--store", url, "-o", "json")

	var got diagnosis
	if err := json.Unmarshal([]byte(out), &got); err != nil || status != 1 || got.State != "bad" || !strings.Contains(stderr, "something is bad") {
		t.Errorf("status %d, %v: %s%s", status, err, out, stderr)
	}

	rules := inFile(t, "rules.yaml", shownRules)

	_, out, _ = invoke(t, "doctor", "--store", url, "--coordinator", "127.0.0.1:1", "--rules", rules, "-o", "yaml")
	if !strings.Contains(out, "check: coordinator") || !strings.Contains(out, "127.0.0.1:1") {
		t.Errorf("nothing of the coordinator: %s", out)
	}

	_, out, stderr = invoke(t, "doctor", "--coordinator", "127.0.0.1:1", "--insecure", "-o", "yaml")
	if !strings.Contains(out, "check: coordinator") || strings.Contains(out, "check: connection") {
		t.Errorf("coordinators alone: %s%s", out, stderr)
	}

	for says, args := range map[string][]string{
		"needs --store":                   {},
		"none of table":                   {"--store", url, "-o", "text"},
		"redis://HOST:PORT":               {"--store", "10.0.0.1"},
		"no such file":                    {"--store", url, "--rules", "/none"},
		"--coordinator-key":               {"--store", url, "--coordinator", "limits.example:8081"},
		"both have a password":            {"--store", "redis://a:b@" + server.Address, "--store-password-file", rules},
		"--coordinator-key is about":      {"--store", url, "--coordinator-key", "ed25519:x"},
		"--rules is about coordinators":   {"--store", url, "--rules", rules},
		"--store-ca needs --store":        {"--coordinator", "127.0.0.1:1", "--store-ca", rules},
		"takes no argument":               {"--store", url, "please"},
		"need each other":                 {"--store", "rediss://" + server.Address, "--store-cert", rules},
		"--store-ca is for TLS":           {"--store", url, "--store-ca", rules},
		"--store-sentinel-password-file ": {"--store", url, "--store-sentinel-password-file", rules},
	} {
		status, _, stderr := invoke(t, append([]string{"doctor"}, args...)...)
		if status != 2 || !strings.Contains(stderr, says) {
			t.Errorf("%q: status %d, %s", args, status, stderr)
		}
	}
}
