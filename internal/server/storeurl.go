package server

import (
	"bytes"
	"crypto/tls"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/leaseway/leaseway/internal/store/redis"
)

const (
	memoryStore = "memory"
	redisPort   = "6379"
	// maxPassword is the size of the largest file with a password, in bytes.
	maxPassword = 4 << 10
)

// inMemory reports whether the counts are in this process; so they are unless something is said.
func (c *Config) inMemory() bool { return c.Store == "" || c.Store == memoryStore }

// storeConfig returns how Redis is reached, nil for a store in memory. It reads the files that the settings name. The error
// is a *UsageError, and never has the password in it.
func (c *Config) storeConfig() (*redis.Config, error) {
	if c.inMemory() {
		for flag, set := range map[string]bool{
			"--store-password-file": c.StorePasswordFile != "", "--store-ca": c.StoreCA != "",
			"--store-prefix": c.StorePrefix != "" && c.StorePrefix != redis.DefaultPrefix,
		} {
			if set {
				return nil, usage("%s needs --store redis://HOST:PORT, which it is for", flag)
			}
		}

		return nil, nil //nolint:nilnil // no Redis, and nothing wrong
	}

	config, err := parseStore(c.Store)
	if err != nil {
		return nil, err
	}

	config.Prefix = c.StorePrefix
	if strings.ContainsAny(config.Prefix, "{}") {
		return nil, usage("--store-prefix %q has a brace, which Redis reads as the name of a slot: leave it out", config.Prefix)
	}

	if path := c.StorePasswordFile; path != "" {
		if config.Password != "" {
			return nil, usage("--store and --store-password-file both have a password: leave it out of the URL")
		}

		text, err := readBounded(path, maxPassword)
		if err != nil {
			return nil, usage("--store-password-file: %v", err)
		}

		config.Password = string(bytes.TrimRight(text, "\r\n"))
	}

	if path := c.StoreCA; path != "" {
		if config.TLS == nil {
			return nil, usage("--store-ca is for TLS: write --store rediss://…, or leave it out")
		}

		text, err := readBounded(path, maxPEM)
		if err == nil {
			config.TLS.RootCAs, err = certPool(path, text)
		}

		if err != nil {
			return nil, usage("--store-ca: %v", err)
		}
	}

	return config, nil
}

// parseStore reads redis://[USER:PASSWORD@]HOST[:PORT],HOST[:PORT]…, which is no URL where it has several hosts.
func parseStore(text string) (*redis.Config, error) {
	config := &redis.Config{}

	scheme, rest, ok := strings.Cut(text, "://")
	switch {
	case ok && scheme == "redis":
	case ok && scheme == "rediss":
		config.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	default:
		return nil, usage("--store is neither memory nor a URL that begins with redis:// or rediss://: write redis://HOST:PORT")
	}

	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		user, password, _ := strings.Cut(rest[:at], ":")
		rest = rest[at+1:]

		var errs [2]error

		config.Username, errs[0] = url.PathUnescape(user)
		config.Password, errs[1] = url.PathUnescape(password)

		if errs[0] != nil || errs[1] != nil {
			return nil, usage("--store has a percent sign in its user or password that begins no code: write it as %%25")
		}
	}

	rest = strings.TrimSuffix(rest, "/")
	if strings.ContainsAny(rest, "/?#") {
		return nil, usage("--store has more than hosts: leave out what is behind them (there are no numbered databases here)")
	}

	for host := range strings.SplitSeq(rest, ",") {
		address, err := storeAddress(host)
		if err != nil {
			return nil, err
		}

		config.Addresses = append(config.Addresses, address)
	}

	return config, nil
}

// storeAddress returns host:port of HOST or HOST:PORT.
func storeAddress(text string) (string, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		host, port = strings.Trim(text, "[]"), redisPort
		if strings.Contains(host, ":") && net.ParseIP(host) == nil {
			host = ""
		}
	}

	if _, err := strconv.ParseUint(port, 10, 16); err != nil || host == "" {
		return "", usage("--store: %q is no HOST:PORT: write such as 10.0.0.1:6379,10.0.0.2:6379", text)
	}

	return net.JoinHostPort(host, port), nil
}
