package leasewayredis

import (
	"crypto/tls"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/store/redis"
)

// Option configures how Redis is reached.
type Option interface{ apply(o *options) }

type options struct {
	config  *redis.Config
	limiter []leaseway.Option
	logger  *slog.Logger
	late    bool
	wrong   *leaseway.Error // of an option that does not go with the URL
}

type optionFunc func(*options)

func (f optionFunc) apply(o *options) { f(o) }

func gather(config *redis.Config, opts []Option) *options {
	o := &options{config: config, logger: slog.New(slog.DiscardHandler)}
	for _, opt := range opts {
		opt.apply(o)
	}

	return o
}

// check returns what is wrong with the options. The error is a *leaseway.Error.
func (o *options) check() error {
	if o.wrong != nil {
		return o.wrong
	}

	if err := o.config.Check(); err != nil {
		return &leaseway.Error{Code: leaseway.CodeInvalid, Message: "Redis cannot be used like this", Err: err}
	}

	return nil
}

// WithLimiter passes options on to the Limiter: leaseway.WithName,
// leaseway.WithDeadline and the like. Those about coordinators (keys, token, TLS) have no effect.
func WithLimiter(opts ...leaseway.Option) Option {
	return optionFunc(func(o *options) { o.limiter = append(o.limiter, opts...) })
}

// WithUser sets the ACL user and the password, which a secret store need not put
// into a URL. The default is what the URL says, or none.
func WithUser(username, password string) Option {
	return optionFunc(func(o *options) { o.config.Username, o.config.Password = username, password })
}

// WithTLS encrypts by config: roots of your own, a client's certificate. With
// rediss:// you do not need it where the system's roots vouch for Redis, as nil says, too.
func WithTLS(config *tls.Config) Option {
	if config = config.Clone(); config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}

	return optionFunc(func(o *options) { o.config.TLS = func() *tls.Config { return config } })
}

// WithPrefix begins the name of every key in Redis. Limiters of different
// prefixes share nothing. The default is rl: and it must not have braces.
func WithPrefix(prefix string) Option {
	return optionFunc(func(o *options) { o.config.Prefix = prefix })
}

// WithConnections is how many connections each node is given at most: a power of
// two up to 256. All calls share them. The default is one to each node of a
// cluster, up to four to a single server, and seldom needs to be changed.
func WithConnections(n int) Option {
	return optionFunc(func(o *options) { o.config.Connections = n })
}

// WithTimeouts bounds how long a connection is waited for (10 ms to 1 m, 1 s by
// default), and how long one may be silent before another is made (100 ms to 1 m,
// 2 s by default). 0 leaves the default.
// How long a request waits is leaseway.WithDeadline, 20 ms.
func WithTimeouts(dial, silent time.Duration) Option {
	return optionFunc(func(o *options) { o.config.DialTimeout, o.config.DeadAfter = dial, silent })
}

// WithSentinelUser sets the user and password of the sentinels themselves. The default is none.
func WithSentinelUser(username, password string) Option {
	return optionFunc(func(o *options) {
		if o.config.Sentinel == nil {
			o.wrong = &leaseway.Error{
				Code: leaseway.CodeInvalid, Message: "WithSentinelUser is for sentinels, and the URL names none",
				Hint: "write redis+sentinel://HOST:PORT,…/MASTER, or leave the option out",
			}

			return
		}

		o.config.Sentinel.Username, o.config.Sentinel.Password = username, password
	})
}

// WithOwnClock counts time by this machine instead of Redis, for a managed Redis
// that forbids TIME. All machines must then have the same time: what one is
// ahead is so much more that it admits. The default is Redis's own clock.
func WithOwnClock() Option {
	return optionFunc(func(o *options) { o.config.Clock = func() int64 { return time.Now().UnixMicro() } })
}

// WithStateDir keeps in dir where there was data and how many processes shared the limits, so that a Redis that lost
// everything while none of them ran is not taken for a new one, whose budgets are full. The default keeps nothing.
func WithStateDir(dir string) Option {
	return optionFunc(func(o *options) {
		o.config.Seen = filepath.Join(dir, "redis.json")
		o.limiter = append(o.limiter, leaseway.WithStateDir(dir))
	})
}

// WithLateRedis has Open succeed although Redis does not answer. Until it does
// each rule's onUnavailable decides. The default is to fail.
func WithLateRedis() Option { return optionFunc(func(o *options) { o.late = true }) }

// WithLogger has outages, refused rules and settings of Redis that lose data
// logged. The default is silent.
func WithLogger(logger *slog.Logger) Option {
	return optionFunc(func(o *options) {
		if logger != nil {
			o.logger = logger
		}
	})
}
