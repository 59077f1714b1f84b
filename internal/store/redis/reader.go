package redis

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/store"
)

// A Reader looks at what stores keep, for people, and changes nothing: it does
// not even begin data where there is none.
type Reader struct {
	client rueidis.Client
	config Config
	names  names
	clock  func() int64
}

// NewReader connects to Redis, within ctx.
func NewReader(ctx context.Context, cfg Config) (*Reader, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}

	client, err := rueidis.NewClient(cfg.client(ctx))
	if err != nil {
		return nil, fmt.Errorf("redis store: %v cannot be used: %w", cfg.Addresses, err)
	}

	return &Reader{client: client, config: cfg, names: newNames(cfg.Prefix), clock: cfg.Clock}, nil
}

// Close closes the connections.
func (r *Reader) Close() { r.client.Close() }

// How a ledger is kept.
const (
	KeptNowhere = ""      // there is none: nothing was spent, or it was lost
	KeptAtRest  = "group" // in a few bytes of a hash that it shares with others
	KeptHeld    = "held"  // by itself: it has leases, a log or slots
)

// A Found is one ledger as it is kept.
type Found struct {
	State ledger.State // as it was left at State.Now; the zero State if there is none
	Kept  string       // KeptNowhere, KeptAtRest or KeptHeld
	Now   int64        // the store's time, µs
	Lost  int64        // when data of its slot was lost, µs; 0 for never, as far as is known
	Key   string       // the key in Redis that it is in, or would be
	Field string       // of that key, if it is a hash: 12 bytes
	Mark  string       // the key that says whether data was lost
	Slot  int          // the hash slot of the cluster
	Lives int64        // how long Redis keeps the key, ms; 0 if there is none
}

// Ledger reads the ledger of key.
func (r *Reader) Ledger(ctx context.Context, key store.Key) (*Found, error) {
	now, err := timeOf(ctx, r.client, r.clock)
	if err != nil {
		return nil, err
	}

	at := r.names.place(key)
	f := &Found{Now: now, Key: at.group, Field: at.name, Mark: at.mark, Slot: slotOf(at.mark, r.names.prefix)}

	b := r.client.B
	responses := r.client.DoMulti(ctx,
		b().Get().Key(at.held).Build(), b().Hget().Key(at.group).Field(at.name).Build(), b().Get().Key(at.mark).Build(),
		b().Pttl().Key(at.held).Build(), b().Pttl().Key(at.group).Build())

	var texts [3]string

	for i := range texts {
		if texts[i], err = textOf(responses[i]); err != nil {
			return nil, err
		}
	}

	if f.Lost, err = r.lost(ctx, texts[2], now); err != nil {
		return nil, err
	}

	lives := responses[4]

	switch held, rest := texts[0], texts[1]; {
	case held != "":
		f.Kept, f.Key, f.Field, lives = KeptHeld, at.held, "", responses[3]
		f.State, err = readHeld(held)
	case rest != "":
		f.Kept = KeptAtRest
		f.State, err = r.atRest(ctx, &at, rest)
	default:
		return f, nil
	}

	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Key, err)
	}

	f.Lives, err = lives.AsInt64()

	return f, err
}

// longestRest is the most bytes of a ledger at rest; all of one is longer.
const longestRest = 64

// atRest reads a ledger at rest, by the terms that its group has.
func (r *Reader) atRest(ctx context.Context, at *place, rest string) (s ledger.State, err error) {
	if len(rest) > longestRest { // since its slot moved
		return readHeld(rest)
	}

	body, err := textOf(r.client.Do(ctx, r.client.B().Hget().Key(at.group).Field("t"+restRef(rest)).Build()))
	if err != nil {
		return s, err
	}

	c := &cursor{left: []byte(body)}

	terms := c.terms()
	if c.over {
		return s, errLayout
	}

	return readRest(rest, terms)
}

// lost returns when the slot's data was lost. A mark that is not there was, by now, if there is any data at all.
func (r *Reader) lost(ctx context.Context, mark string, now int64) (int64, error) {
	if mark != "" {
		return lossIn(mark)
	}

	id, err := textOf(r.client.Do(ctx, r.client.B().Get().Key(r.names.id()).Build()))
	if err != nil || id == "" {
		return 0, err
	}

	return now, nil
}

// textOf returns a value, "" if there is none.
func textOf(response rueidis.RedisResult) (string, error) {
	text, err := response.ToString()
	if rueidis.IsRedisNil(err) {
		return "", nil
	}

	return text, err
}
