package server

import (
	"bytes"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/leaseway/leaseway/internal/store/redis"
)

const (
	memoryStore = "memory"
	// maxPassword is the size of the largest file with a password, in bytes.
	maxPassword = 4 << 10
)

// StoreFlags are the settings that say how Redis is reached, bound to c: of serve, and of commands that look at the same store.
func (c *Config) StoreFlags(unless string) *pflag.FlagSet {
	fs := pflag.NewFlagSet("store", pflag.ContinueOnError)
	fs.SortFlags = false

	fs.StringVar(&c.Store, "store", unless,
		"where the counts are: memory, or redis://[USER:PASSWORD@]HOST:PORT,… for some nodes of a cluster (rediss:// for TLS), "+
			"or redis+sentinel://HOST:PORT,…/MASTER")
	fs.StringVar(&c.StorePasswordFile, "store-password-file", "", "`file` with the password of the Redis user")
	fs.StringVar(&c.StoreSentinelPasswordFile, "store-sentinel-password-file", "", "`file` with the password of the sentinels")
	fs.StringVar(&c.StoreCA, "store-ca", "",
		"`file` with the certificates that vouch for Redis, read for each connection, as those to show are")
	fs.StringVar(&c.StoreCert, "store-cert", "", "`file` with the certificate to show to Redis")
	fs.StringVar(&c.StoreKey, "store-key", "", "`file` with its private key")
	fs.StringVar(&c.StorePrefix, "store-prefix", redis.DefaultPrefix, "how the names of all keys in Redis begin")
	fs.IntVar(&c.StoreConnections, "store-connections", 0,
		"how many connections to each node, a power of two up to 256 (0: one to a node of a cluster, up to four to a single server)")
	fs.DurationVar(&c.StoreDialTimeout, "store-dial-timeout", redis.DefaultDialTimeout, "how long a connection to Redis is waited for")
	fs.DurationVar(&c.StoreSilence, "store-silence", redis.DefaultDeadAfter,
		"how long a connection to Redis may be silent before another is made")
	fs.BoolVar(&c.StoreOwnClock, "store-own-clock", false,
		"count by this machine's clock, for a Redis that forbids TIME; the clocks of all coordinators must then agree")

	return fs
}

// inMemory reports whether the counts are in this process; so they are unless something is said.
func (c *Config) inMemory() bool { return c.Store == "" || c.Store == memoryStore }

// RedisConfig returns how Redis is reached, nil for a store in memory. It reads the files that the settings name; log hears of
// those for TLS that change, unless it is nil. The error
// is a *UsageError, and never has the password in it.
func (c *Config) RedisConfig(log *slog.Logger) (*redis.Config, error) {
	if c.inMemory() {
		for flag, set := range map[string]bool{
			"--store-password-file": c.StorePasswordFile != "", "--store-ca": c.StoreCA != "",
			"--store-sentinel-password-file": c.StoreSentinelPasswordFile != "",
			"--store-cert":                   c.StoreCert != "", "--store-key": c.StoreKey != "",
			"--store-prefix":      c.StorePrefix != "" && c.StorePrefix != redis.DefaultPrefix,
			"--store-connections": c.StoreConnections != 0, "--store-own-clock": c.StoreOwnClock,
			"--store-dial-timeout": c.StoreDialTimeout != 0 && c.StoreDialTimeout != redis.DefaultDialTimeout,
			"--store-silence":      c.StoreSilence != 0 && c.StoreSilence != redis.DefaultDeadAfter,
		} {
			if set {
				return nil, usage("%s needs --store redis://HOST:PORT, which it is for", flag)
			}
		}

		return nil, nil //nolint:nilnil // no Redis, and nothing wrong
	}

	config, err := redis.ParseURL(c.Store)
	if err != nil {
		return nil, unusable("--store", err)
	}

	config.Prefix = c.StorePrefix
	if strings.ContainsAny(config.Prefix, "{}") {
		return nil, usage("--store-prefix %q has a brace, which Redis reads as the name of a slot: leave it out", config.Prefix)
	}

	if err := problems(c.storePasswords(config), c.storeTLS(config, log), c.storeLink(config)); err != nil {
		return nil, err
	}

	return config, nil
}

// storeLink takes over what connections are like, and whose clock counts.
func (c *Config) storeLink(config *redis.Config) error {
	switch n := c.StoreConnections; {
	case n < 0 || n > redis.MaxConnections || n&(n-1) != 0:
		return usage("--store-connections is %d: write a power of two up to %d, or 0", n, redis.MaxConnections)
	case c.StoreDialTimeout != 0 && (c.StoreDialTimeout < redis.LeastDialTimeout || c.StoreDialTimeout > redis.LongestWait):
		return usage("--store-dial-timeout %v is not between %v and %v: write one such as 1s",
			c.StoreDialTimeout, redis.LeastDialTimeout, redis.LongestWait)
	case c.StoreSilence != 0 && (c.StoreSilence < redis.LeastSilence || c.StoreSilence > redis.LongestWait):
		return usage("--store-silence %v is not between %v and %v: Redis may pause for a moment, so write one such as 2s",
			c.StoreSilence, redis.LeastSilence, redis.LongestWait)
	}

	config.Connections, config.DialTimeout, config.DeadAfter = c.StoreConnections, c.StoreDialTimeout, c.StoreSilence
	if c.StoreOwnClock {
		config.Clock = func() int64 { return time.Now().UnixMicro() }
	}

	return nil
}

// storePasswords reads the passwords that are in files.
func (c *Config) storePasswords(config *redis.Config) error {
	if path := c.StorePasswordFile; path != "" {
		if config.Password != "" {
			return usage("--store and --store-password-file both have a password: leave it out of the URL")
		}

		text, err := readBounded(path, maxPassword)
		if err != nil {
			return unusable("--store-password-file", err)
		}

		config.Password = string(bytes.TrimRight(text, "\r\n"))
	}

	if path := c.StoreSentinelPasswordFile; path != "" {
		if config.Sentinel == nil {
			return usage("--store-sentinel-password-file needs --store redis+sentinel://HOST:PORT,…/MASTER, which it is for")
		}

		text, err := readBounded(path, maxPassword)
		if err != nil {
			return unusable("--store-sentinel-password-file", err)
		}

		config.Sentinel.Password = string(bytes.TrimRight(text, "\r\n"))
	}

	return nil
}

// storeTLS reads who vouches for Redis, and what is shown to it.
func (c *Config) storeTLS(config *redis.Config, log *slog.Logger) error {
	switch {
	case config.TLS == nil && c.StoreCA != "":
		return usage("--store-ca is for TLS: write --store rediss://…, or leave it out")
	case config.TLS == nil && (c.StoreCert != "" || c.StoreKey != ""):
		return usage("--store-cert and --store-key are for TLS: write --store rediss://…, or leave them out")
	case (c.StoreCert == "") != (c.StoreKey == ""):
		return usage("--store-cert and --store-key need each other: set both or neither")
	}

	if config.TLS == nil {
		return nil
	}

	own := &identity{log: log, files: [...]pemFile{
		{flag: "--store-cert", path: c.StoreCert}, {flag: "--store-key", path: c.StoreKey}, {flag: "--store-ca", path: c.StoreCA},
	}}
	config.TLS = own.calls

	return own.open()
}
