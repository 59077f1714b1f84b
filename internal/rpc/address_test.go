package rpc

import (
	"crypto/ed25519"
	"crypto/tls"
	"strings"
	"testing"
)

func TestAddresses(t *testing.T) {
	for _, c := range []struct {
		url              string
		secure           bool // TLS is configured
		target           string
		tls, onlyMachine bool
	}{
		{"127.0.0.1:8081", false, "dns:///127.0.0.1:8081", false, true},
		{"coordinator:8081", true, "dns:///coordinator:8081", true, false},
		{"grpc://localhost:8081", true, "dns:///localhost:8081", false, true},
		{"grpc://[::1]:8081", false, "dns:///[::1]:8081", false, true},
		{"grpc://[::ffff:127.0.0.9]:8081", false, "dns:///[::ffff:127.0.0.9]:8081", false, true},
		{"grpcs://c.example:443/", false, "dns:///c.example:443", true, false},
		{"grpc://10.0.0.1:8081", false, "dns:///10.0.0.1:8081", false, false},
		{"grpc://localhost.example:8081", false, "dns:///localhost.example:8081", false, false},
	} {
		a, err := parseAddress(c.url, c.secure)
		if err != nil {
			t.Errorf("%s: %v", c.url, err)

			continue
		}

		if a.target() != c.target || a.tls != c.tls || a.loopback() != c.onlyMachine {
			t.Errorf("%s: target %s, TLS %v, loopback %v; want %s, %v, %v", c.url, a.target(), a.tls, a.loopback(), c.target, c.tls, c.onlyMachine)
		}
	}

	for _, url := range []string{
		"", "coordinator", ":8081", "grpc://:8081", "http://c:80", "c:0", "c:65536", "c:http", "c:80/path", "grpc://c:80/path",
		"grpc://user@c:80", "grpc://c", "[::1]", "grpc:///c:80", "a b:80", "fe80::1:80",
	} {
		if a, err := parseAddress(url, false); err == nil {
			t.Errorf("%q was taken as %s", url, a.target())
		}
	}
}

func TestDialNamesWhatToChange(t *testing.T) {
	good := func() Config {
		return Config{URLs: []string{"127.0.0.1:1"}, Holder: 1, Keys: []ed25519.PublicKey{publicKey(1)}}
	}

	for want, change := range map[string]func(*Config){
		"0 coordinators are named":     func(c *Config) { c.URLs = nil },
		"65 coordinators are named":    func(c *Config) { c.URLs = make([]string, 65) },
		"coordinator 2: ":              func(c *Config) { c.URLs = append(c.URLs, "nonsense") },
		"there twice":                  func(c *Config) { c.URLs = append(c.URLs, "grpc://127.0.0.1:1") },
		"plaintext":                    func(c *Config) { c.URLs = []string{"192.0.2.1:8081"} },
		"grpcs://":                     func(c *Config) { c.URLs = []string{"grpc://c.example:8081"}; c.TLS = steady(&tls.Config{}) },
		"Config.Holder is 0":           func(c *Config) { c.Holder = 0 },
		"leaseway.WithCoordinatorKeys": func(c *Config) { c.Keys = nil },
		"public key 1 has 31":          func(c *Config) { c.Keys[0] = c.Keys[0][:31] },
	} {
		config := good()
		change(&config)

		if c, err := Dial(config); err == nil {
			t.Errorf("%s: taken", want)

			_ = c.Close()
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}

	for name, change := range map[string]func(*Config){
		"as it is": func(*Config) {},
		"insecure": func(c *Config) { c.URLs, c.Insecure = []string{"192.0.2.1:8081"}, true },
		"unsigned": func(c *Config) { c.Keys, c.AllowUnsigned = nil, true },
		"with TLS": func(c *Config) { c.URLs, c.TLS = []string{"192.0.2.1:8081"}, steady(&tls.Config{}) },
	} {
		config := good()
		change(&config)

		c, err := Dial(config)
		if err != nil {
			t.Errorf("%s: %v", name, err)

			continue
		}

		if err := c.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
