package rpc

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leaseway/leaseway/internal/ledger"
)

const (
	maxReplicas    = 64
	defaultTimeout = time.Second
	// leastTry is what must be left of a deadline for another replica to be worth a try: less would only call it late.
	leastTry = 2 * time.Millisecond
)

// ErrUnavailable says that no coordinator answers: each has failed lately, and the call was not made.
var ErrUnavailable = errors.New("rpc: no coordinator answers")

// Config says which coordinators a Client calls, and what it believes.
type Config struct {
	// URLs are HOST:PORT (TLS if TLS is set), grpc://HOST:PORT (plaintext) or
	// grpcs://HOST:PORT (TLS): 1 to 64 coordinators of one store.
	URLs []string
	// Name is the holder's name for people; at most 256 bytes are sent.
	Name string
	// Holder is the incarnation, random and not 0.
	Holder uint64
	// Keys are the public keys whose signature is believed; several while one is exchanged.
	Keys []ed25519.PublicKey
	// AllowUnsigned lets Keys be empty, and then believes whatever comes.
	AllowUnsigned bool
	// Insecure allows plaintext to other machines.
	Insecure bool
	// TLS returns the client's side of TLS, as it is when a connection is made; nil is the system's roots.
	TLS func() *tls.Config
	// Token returns what is sent with a call, "" for none; nil is none with any.
	Token func() string
	// Timeout bounds a call whose context has no deadline; 1 s by default.
	Timeout time.Duration
	// Logger hears of refused answers and of coordinators that come and go; silent by default.
	Logger *slog.Logger
}

// Client calls several coordinators of one store as if they were one. It is safe
// for concurrent use. Close it.
type Client struct {
	config   Config
	trust    trust
	replicas []*replica
	crowd    crowd
	started  time.Time

	sticky    atomic.Int64  // index of the replica that is asked first
	newest    atomic.Uint64 // version of the newest rules seen
	refused   [causes]atomic.Int64
	logged    rarely
	binding   binding
	wires     sync.Pool // of *batchWire
	overrides overrideTellers
	back      chan struct{} // has one when a coordinator answers that was taken for gone, for Watch to hear of

	// The survey of the stores; see survey.
	surveyed atomic.Int64
	closing  context.Context //nolint:containedctx // it is the client's life, which surveys end with
	close    context.CancelFunc
	mu       sync.Mutex // held to start a survey, or to end the last
	// background is surveys, and what follows the connections.
	background sync.WaitGroup
}

// Dial returns a Client of the coordinators at config.URLs. It connects in the
// background: an error is one of config, and names what to change.
func Dial(config Config) (*Client, error) {
	switch n := len(config.URLs); {
	case n == 0 || n > maxReplicas:
		return nil, fmt.Errorf("rpc: %d coordinators are named (name 1 to %d)", n, maxReplicas)
	case config.Holder == 0:
		return nil, errors.New("rpc: Config.Holder is 0 (draw a random incarnation at each start)")
	}

	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}

	if config.Timeout <= 0 {
		config.Timeout = defaultTimeout
	}

	if err := CheckURLs(config.URLs); err != nil {
		return nil, err
	}

	trust, err := newTrust(config.Keys, config.AllowUnsigned)
	if err != nil {
		return nil, err
	}

	c := newClient(config, trust)
	seen := map[string]bool{}

	for i, url := range config.URLs {
		address, err := parseAddress(url, config.TLS != nil)
		if err == nil && seen[address.target()] {
			err = fmt.Errorf("%s is there twice (name each coordinator once)", url)
		}

		seen[address.target()] = true

		var r *replica
		if err == nil {
			r, err = dial(address, &c.config, &c.crowd)
		}

		if err != nil {
			_ = c.Close()

			return nil, fmt.Errorf("rpc: coordinator %d: %w", i+1, err)
		}

		c.replicas = append(c.replicas, r)
	}

	// Each holder begins elsewhere, so that the coordinators share the holders.
	c.sticky.Store(rand.Int64N(int64(len(c.replicas))))

	for _, r := range c.replicas {
		c.background.Go(func() { r.follow(c.closing, c.now) })
	}

	return c, nil
}

// newClient returns a Client without replicas.
func newClient(config Config, trust trust) *Client {
	c := &Client{
		config: config, trust: trust, started: time.Now(), back: make(chan struct{}, 1),
		wires: sync.Pool{New: func() any { return &batchWire{} }},
	}
	c.closing, c.close = context.WithCancel(context.Background())

	return c
}

// Close ends what the client runs and closes its connections; calls in flight fail.
func (c *Client) Close() error {
	c.mu.Lock()
	c.close()
	c.mu.Unlock()
	c.background.Wait()

	var err error
	for _, r := range c.replicas {
		err = errors.Join(err, r.conn.Close())
	}

	return err
}

// Unavailable reports whether Acquire would fail at once because no coordinator
// has answered lately. It is cheap: ask it before queueing for a call.
func (c *Client) Unavailable() bool {
	now := c.now()

	for _, r := range c.replicas {
		if !r.dead(now) {
			return false
		}
	}

	return true
}

// Acquire sends one batch to a coordinator that lives. When it fails and ctx
// leaves time, the next one is asked: the batch keeps its seq, so nothing is
// counted twice. The error is ErrUnavailable, a *RefusedError, a *MixedError, or that of the last call.
func (c *Client) Acquire(ctx context.Context, batch *ledger.Batch) (*ledger.Answers, error) {
	if err := c.binding.conflict(); err != nil {
		c.survey()

		return nil, err
	}

	if err := ctx.Err(); err != nil {
		return nil, err
	}

	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.config.Timeout)
		defer cancel()
	}

	wire, err := c.encode(batch)
	if err != nil {
		return nil, err
	}

	defer c.wires.Put(wire)

	n := int64(len(c.replicas))
	first := c.sticky.Load()
	last := ErrUnavailable

	for i := range n {
		at := (first + i) % n

		ok, probe := c.replicas[at].enter(c.now())
		if !ok {
			continue
		}

		answers, err := c.ask(ctx, call{c.replicas[at], probe, false, wire, batch})

		switch {
		case err == nil:
			c.sticky.CompareAndSwap(first, at)
			c.survey()

			return answers, nil
		case blameless(err):
			return nil, err
		}

		last = err

		if !worthwhile(ctx) {
			// Late once is enough: the next call begins with another one.
			c.sticky.CompareAndSwap(first, (at+1)%n)

			break
		}
	}

	return nil, last
}

// call is one try of a batch at one replica.
type call struct {
	replica *replica
	probe   bool
	survey  bool // whatever store it has
	wire    *batchWire
	batch   *ledger.Batch
}

// ask makes one try and tells the replica's breaker what came of it.
func (c *Client) ask(ctx context.Context, call call) (*ledger.Answers, error) {
	r := call.replica
	newest := c.newest.Load()
	sent := c.now()

	if err := r.acquire(ctx, call.wire); err != nil {
		c.failed(call, err)

		return nil, err
	}

	answers, refusal := c.believe(call.batch, &call.wire.reply)
	if refusal == nil {
		refusal = check(answers, max(newest, call.batch.Version), c.now()-sent)
	}

	if refusal != nil {
		err := c.refuse(r, refusal)
		c.failed(call, err)

		return nil, err
	}

	if r.succeed() {
		select {
		case c.back <- struct{}{}:
		default: // it is there already
		}
	}

	c.crowd.live.Store(answers.Live)

	if call.survey {
		return answers, nil
	}

	// Another store is no failure of this replica: the survey must still reach it.
	if refusal := c.binding.accept(r, answers.Store); refusal != nil {
		return nil, c.refuse(r, refusal)
	}

	return answers, nil
}

// failed tells the replica of a try that brought nothing, if it is to blame.
func (c *Client) failed(call call, err error) {
	if after, said := comeBack(err); said {
		// Spaced by the server, but for those whom it told the latest time that it tells.
		call.replica.spare(c.now() + after + rand.N(after/4+1))
		c.rarely("a coordinator has too many calls", call.replica, err)

		return
	}

	if !blameless(err) {
		call.replica.trouble.Store(&err)
		call.replica.failed(c.now(), call.probe)
		c.rarely("a coordinator did not answer as it should", call.replica, err)
	}
}

// now is the time on the client's own clock, which never steps.
func (c *Client) now() time.Duration { return time.Since(c.started) }

// rarely logs, once in a while: what fails at all can fail with every call.
func (c *Client) rarely(message string, r *replica, err error) {
	if c.logged.allow(time.Now()) {
		c.config.Logger.Warn(message, "coordinator", r.url, "error", inShort(err)) //nolint:sloglint // the message is fixed at each call
	}
}

// worthwhile reports whether enough is left of the deadline for another try.
func worthwhile(ctx context.Context) bool {
	deadline, bounded := ctx.Deadline()

	return ctx.Err() == nil && (!bounded || time.Until(deadline) >= leastTry)
}
