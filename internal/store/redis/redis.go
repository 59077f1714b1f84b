// Package redis keeps the ledgers in Redis, in a cluster or a single server, so
// that any number of coordinators share them.
//
//	op ── (rule, key) ── SHA-256 ──> one of 1,024 hash slots ──> its master ──> function, atomic
//	                                   │
//	                                   ├─ group: a hash of some hundred ledgers at rest, a few bytes each
//	                                   ├─ held: a ledger with leases, by itself
//	                                   └─ mark: when this slot's data was lost, if ever
//
// The function (lua) is package ledger once more, step by step under the same
// names, on the same integers: all of them are below 2^53, where Lua's doubles
// are exact. It runs in Redis 7 or later, at Redis's time, on keys
// that share one slot whatever bytes a client's key has.
//
// All ops of a call go out at once, those of a node in one command (together.go). What a node
// refuses before it has done anything is sent again: an unknown function after
// the library was loaded, an op whose keys are not that node's by itself, to wherever its slot is, and one
// whose slot is on its way to another node in steps that need one key each (move.go). What may have been done is not: its result is an
// error, and its sender may ask once more with the same seq, which the ledger
// answers without counting twice. READONLY, OOM and the like are errors of the
// op, never an answer. A node that does not answer costs its own ops only
// (exchange.go), and is soon not asked but now and then (nodes.go).
//
// Redis may lose data: what a master did not replicate before it died, or all of
// it. The first is bounded by what was granted in that time. The second shows:
// each slot has a mark from before the first op on, and where it is missing the
// slot's ledgers begin as used up at that moment.
//
// Its neighbours are store (the contract), ledger (the arithmetic that
// Lua repeats), memory (the other store) and storetest (the suite of both).
package redis

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/leaseway/leaseway/internal/store"
)

// DefaultPrefix begins the name of every key in Redis.
const DefaultPrefix = "rl:"

// What a Config has that says nothing of it, and the most connections that it may have.
const (
	DefaultDialTimeout = time.Second
	DefaultDeadAfter   = 2 * time.Second
	MaxConnections     = 1 << rueidis.MaxPipelineMultiplex
)

// The bounds of what a Config says of time. A Redis that is well pauses for less than LeastSilence, and a connection that is given up
// for that is one more to make.
const (
	LeastDialTimeout = 10 * time.Millisecond
	LeastSilence     = 100 * time.Millisecond
	LongestWait      = time.Minute
)

const (
	// keepData is how long a mark and the id of the data live without a coordinator.
	keepData = 400 * 24 * time.Hour
	// clockSlack is the shortest time to live of a key where time is not Redis's own: clocks differ.
	clockSlack = time.Minute
	// idleTimeout is how long a call without a deadline may take.
	idleTimeout = time.Second
	// callPart is the part of a call's time in which nodes must answer.
	callPart = 0.5
	// lookEvery is how often the driver asks which node has which slots, besides when one refuses or is gone.
	lookEvery = time.Second
	// maxRedirects is how often one command follows a slot to another node.
	maxRedirects = 5
)

// ErrClosed is the error of every call after Close.
var ErrClosed = errors.New("the Redis store is closed")

// Config says where Redis is and how to speak to it.
type Config struct {
	// Addresses are host:port of some nodes of a cluster, or of one server. Required.
	Addresses []string
	// Username and Password are those of an ACL user; both may be empty.
	Username, Password string
	// TLS returns how to encrypt a connection that is about to be made; nil for not at all.
	TLS func() *tls.Config
	// Sentinel is set where Addresses are those of sentinels.
	Sentinel *Sentinel
	// Connections is how many each node is given at most, a power of two up to 256. 0, the default, is one to each node
	// of a cluster, and up to four to a single server. All calls share them; more help only where the network is slow.
	Connections int
	// DialTimeout bounds how long a connection is waited for, 10 ms to 1 m; 1 s if 0.
	DialTimeout time.Duration
	// DeadAfter is how long a connection may be silent before another one is made, 100 ms to 1 m; 2 s if 0.
	DeadAfter time.Duration
	// Prefix begins the name of every key; DefaultPrefix if empty. Stores of
	// different prefixes have nothing in common. It has no braces.
	Prefix string
	// Clock returns the time in µs since the Unix epoch. nil, the default, is
	// Redis's own, which all coordinators see alike.
	Clock func() int64
	// Seen is the path of a file that remembers where there was data, so that a loss of all of it is noticed though no
	// coordinator ran then; "" for none. Its directory is made.
	Seen string
	// Logger hears of settings of Redis that lose data. The default is silent.
	Logger *slog.Logger
}

// Sentinel says which master the sentinels look after that Config.Addresses names.
type Sentinel struct {
	// Master is the name that the sentinels have for it. Required.
	Master string
	// Username and Password are for the sentinels themselves; both may be empty. Encryption is as for Redis.
	Username, Password string
}

// Store is a store.Store in Redis. It is safe for concurrent use.
type Store struct {
	client  rueidis.Client
	names   names
	clock   func() int64
	least   string // the shortest time to live of a key, ms
	library *library
	id      atomic.Uint64
	began   time.Time
	layout  atomic.Pointer[layout]
	looking atomic.Bool    // somebody asks for the layout
	work    sync.WaitGroup // what outlives a call
	closing sync.RWMutex   // held by calls, and by Close while it says so
	closed  atomic.Bool
	counts  counts
	lost    lost
	known   bool // there was data here when this process, or one before it, last looked
	first   bool // this process began the data, with full budgets
}

var _ store.Store = (*Store)(nil)

// New connects to Redis and makes sure of the data's id, within ctx. The error
// says which address cannot be used and why.
func New(ctx context.Context, cfg Config) (*Store, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}

	s := &Store{names: newNames(cfg.Prefix), clock: cfg.Clock, least: "1", began: time.Now()}

	if cfg.Clock != nil {
		s.least = decimal(clockSlack.Milliseconds())
	}

	var err error

	if s.library, err = newLibrary(); err != nil {
		return nil, err
	}

	if s.client, err = rueidis.NewClient(cfg.client(ctx)); err != nil {
		return nil, fmt.Errorf("redis store: %v cannot be used: %w", cfg.Addresses, err)
	}

	s.layout.Store(alone(s.client))

	if err := s.openSeen(ctx, &cfg); err != nil {
		s.client.Close()

		return nil, fmt.Errorf("redis store: %v cannot be used: %w", cfg.Addresses, err)
	}

	s.lookNow(ctx)

	if cfg.Logger != nil {
		s.warn(ctx, cfg.Logger)
	}

	return s, nil
}

// Check returns what is wrong with the settings, by the field and what to write.
func (c *Config) Check() error {
	if len(c.Addresses) == 0 {
		return errors.New("redis store: Addresses is empty (name one node at least, such as 127.0.0.1:6379)")
	}

	if c.Prefix == "" {
		c.Prefix = DefaultPrefix
	}

	for _, r := range c.Prefix {
		if r == '{' || r == '}' {
			return fmt.Errorf("redis store: Prefix %q has a brace, which Redis reads as where a slot is named (leave it out)", c.Prefix)
		}
	}

	switch n := c.Connections; {
	case n < 0 || n > MaxConnections || n&(n-1) != 0:
		return fmt.Errorf("redis store: Connections is %d (write a power of two up to %d, or 0)", n, MaxConnections)
	case c.DialTimeout != 0 && (c.DialTimeout < LeastDialTimeout || c.DialTimeout > LongestWait):
		return fmt.Errorf("redis store: DialTimeout is %v (write %v to %v, or 0 for %v)",
			c.DialTimeout, LeastDialTimeout, LongestWait, DefaultDialTimeout)
	case c.DeadAfter != 0 && (c.DeadAfter < LeastSilence || c.DeadAfter > LongestWait):
		return fmt.Errorf("redis store: DeadAfter is %v (write %v to %v, or 0 for %v)",
			c.DeadAfter, LeastSilence, LongestWait, DefaultDeadAfter)
	case c.Sentinel != nil && c.Sentinel.Master == "":
		return errors.New("redis store: Sentinel.Master is empty (give the name that the sentinels have for the master)")
	}

	return nil
}

// client returns the options of the driver. Always pipelining, because a call
// that is given up otherwise closes its connection, and many do when Redis is slow.
func (c *Config) client(ctx context.Context) rueidis.ClientOption {
	option := rueidis.ClientOption{
		InitAddress: slices.Clone(c.Addresses), // which the driver shuffles
		Username:    c.Username, Password: c.Password,
		ClientName: "leaseway", DisableCache: true, AlwaysPipelining: true, ShuffleInit: true,
		Dialer:           net.Dialer{Timeout: cmp.Or(c.DialTimeout, DefaultDialTimeout)},
		ConnWriteTimeout: cmp.Or(c.DeadAfter, DefaultDeadAfter),
		ClusterOption:    rueidis.ClusterOption{MaxMovedRedirections: maxRedirects, ShardsRefreshInterval: lookEvery},
	}

	if deadline, ok := ctx.Deadline(); ok {
		option.Dialer.Timeout = min(option.Dialer.Timeout, max(time.Millisecond, time.Until(deadline)))
	}

	if c.Connections > 0 {
		// Where 0 is the driver's word for its default, -1 is its word for one.
		option.PipelineMultiplex = cmp.Or(bits.TrailingZeros(uint(c.Connections)), -1)
	}

	if c.Sentinel != nil {
		option.Sentinel = rueidis.SentinelOption{
			MasterSet: c.Sentinel.Master, Username: c.Sentinel.Username, Password: c.Sentinel.Password, ClientName: option.ClientName,
			Dialer: option.Dialer, TopologyRefreshInterval: lookEvery,
		}
	}

	if c.TLS != nil {
		option.TLSConfig = c.TLS() // which says to ask nodes for their encrypted ports
		option.Sentinel.TLSConfig = option.TLSConfig
		option.DialCtxFn = c.dialTLS
	}

	return option
}

// dialTLS makes a connection that is encrypted as Config says now, and not as it said when the driver was made.
func (c *Config) dialTLS(ctx context.Context, address string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
	encrypted := tls.Dialer{NetDialer: dialer, Config: c.TLS()}

	return encrypted.DialContext(ctx, "tcp", address)
}

// ID identifies the data; see store.Store. When Redis loses it, what runs goes on
// under the same id, so that all coordinators have one at any time: the marks say what is lost.
func (s *Store) ID() uint64 { return s.id.Load() }

// Close closes the connections. The data stays in Redis.
func (s *Store) Close(context.Context) error {
	s.closing.Lock()
	closed := s.closed.Swap(true)
	s.closing.Unlock()

	if !closed {
		s.client.Close()
		s.work.Wait()
	}

	return nil
}

// within returns ctx with a deadline that leaves the caller time to answer for the nodes that are not slow.
func within(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithTimeout(ctx, idleTimeout)
	}

	return context.WithTimeout(ctx, time.Duration(float64(time.Until(deadline))*callPart))
}
