package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/didip/tollbooth/v7"
	tollboothlimiter "github.com/didip/tollbooth/v7/limiter"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
	jujuratelimit "github.com/juju/ratelimit"
	sethvargolimiter "github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	ulule "github.com/ulule/limiter/v3"
	ululememory "github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/rule"
)

// limiter decides one request for a key.
type limiter struct {
	take  func(key string) bool
	close func()
}

// decider is a library that decides by key.
type decider struct {
	name string
	side side
	make func(q quota) (limiter, error)
}

const leasewayDecideName = "Leaseway, `Decide`"

func deciders() []decider {
	return []decider{
		{"Leaseway, `Rule.Take`", ours, leasewayTake},
		{leasewayDecideName, ours, leasewayDecide},
		{"failsafe-go in a sync.Map", peer, failsafe},
		{"sethvargo/go-limiter", peer, sethvargo},
		{"x/time/rate in a sync.Map", peer, xTimeSyncMap},
		{"x/time/rate in a map with a mutex", peer, xTimeMutex},
		{"throttled", peer, throttledGCRA},
		{"ulule/limiter", peer, ululeLimiter},
		{"juju/ratelimit in a sync.Map", peer, juju},
		{"tollbooth", peer, tollboothKeys},
		{"no limiter: a counter in a sync.Map", floor, counter},
	}
}

// decisions enters every decider under q; prepare is what happens between opening and measuring.
func decisions(q quota, prepare func(limiter) func() func(n int) (wrong int)) []entrant {
	all := make([]entrant, len(deciders()))

	for i, d := range deciders() {
		all[i] = entrant{name: d.name, side: d.side, open: func() (opened, error) {
			l, err := d.make(q)
			if err != nil {
				return opened{}, fmt.Errorf("%s: %w", d.name, err)
			}

			return opened{worker: prepare(l), close: l.close}, nil
		}}
	}

	return all
}

// embed runs Leaseway inside this process, under a document of rules.
func embed(document string) (*leaseway.Limiter, func(), error) {
	set, err := rule.Parse("rules.yaml", []byte(document))
	if err != nil {
		return nil, nil, err
	}

	l, err := leaseway.Embedded(set)
	if err != nil {
		return nil, nil, err
	}

	// What is leased goes back to a store that goes away with it.
	return l, func() { _ = l.Close(context.Background()) }, nil
}

func perUser(q quota) string {
	return fmt.Sprintf("rules: [{id: r, keyBy: user, limit: %d, window: %s}]", q.limit, q.window)
}

func leasewayTake(q quota) (limiter, error) {
	l, closeLimiter, err := embed(perUser(q))
	if err != nil {
		return limiter{}, err
	}

	r, err := l.Rule("r")

	return limiter{take: func(key string) bool { return r.Take(key).Allowed }, close: closeLimiter}, err
}

func leasewayDecide(q quota) (limiter, error) {
	l, closeLimiter, err := embed(perUser(q))
	ctx := context.Background()

	return limiter{take: func(key string) bool {
		return l.Decide(ctx, leaseway.Request{User: key, Method: "GET", Path: "/v1/search"}).Allowed
	}, close: closeLimiter}, err
}

// byKey keeps one V for each key, made when the key is first seen.
func byKey[V any](fresh func() V) func(key string) V {
	var all sync.Map

	return func(key string) V {
		v, ok := all.Load(key)
		if !ok {
			v, _ = all.LoadOrStore(key, fresh())
		}

		return v.(V) //nolint:forcetypeassert // nothing else is stored
	}
}

func failsafe(q quota) (limiter, error) {
	of := byKey(func() ratelimiter.RateLimiter[any] { return ratelimiter.NewBursty[any](uint(q.limit), q.window) })

	return limiter{take: func(key string) bool { return of(key).TryAcquirePermit() }}, nil
}

func newXTime(q quota) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(float64(q.limit)/q.window.Seconds()), q.limit)
}

func xTimeSyncMap(q quota) (limiter, error) {
	of := byKey(func() *rate.Limiter { return newXTime(q) })

	return limiter{take: func(key string) bool { return of(key).Allow() }}, nil
}

func xTimeMutex(q quota) (limiter, error) {
	var (
		mu  sync.Mutex
		all = map[string]*rate.Limiter{}
	)

	return limiter{take: func(key string) bool {
		mu.Lock()

		l, ok := all[key]
		if !ok {
			l = newXTime(q)
			all[key] = l
		}

		mu.Unlock()

		return l.Allow()
	}}, nil
}

// newSethvargo stretches an endless quota: what comes back in an interval is interval/tokens, in ns, which of a billion a
// second is one token.
func newSethvargo(q quota) (sethvargolimiter.Store, error) {
	config := memorystore.Config{Tokens: uint64(q.limit), Interval: q.window}
	if q == endless() {
		config.Tokens, config.Interval = 3_600*config.Tokens, 3_600*config.Interval
	}

	return memorystore.New(&config)
}

func sethvargo(q quota) (limiter, error) {
	ctx := context.Background()
	store, err := newSethvargo(q)

	return limiter{take: func(key string) bool {
		_, _, _, ok, err := store.Take(ctx, key)

		return ok && err == nil
	}, close: func() { _ = store.Close(ctx) }}, err
}

func newThrottled(q quota) (*throttled.GCRARateLimiterCtx, error) {
	store, err := memstore.NewCtx(0) // no bound on the keys, which is its faster kind
	if err != nil {
		return nil, err
	}

	return throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
		MaxRate: throttled.PerDuration(q.limit, q.window), MaxBurst: q.limit - 1,
	})
}

func throttledGCRA(q quota) (limiter, error) {
	ctx := context.Background()
	l, err := newThrottled(q)

	return limiter{take: func(key string) bool {
		limited, _, err := l.RateLimitCtx(ctx, key, 1)

		return !limited && err == nil
	}}, err
}

func newUlule(q quota) *ulule.Limiter {
	return ulule.New(ululememory.NewStore(), ulule.Rate{Period: q.window, Limit: int64(q.limit)})
}

func ululeLimiter(q quota) (limiter, error) {
	ctx := context.Background()
	l := newUlule(q)

	return limiter{take: func(key string) bool {
		c, err := l.Get(ctx, key)

		return !c.Reached && err == nil
	}}, nil
}

func juju(q quota) (limiter, error) {
	perSecond := float64(q.limit) / q.window.Seconds()
	of := byKey(func() *jujuratelimit.Bucket { return jujuratelimit.NewBucketWithRate(perSecond, int64(q.limit)) })

	return limiter{take: func(key string) bool { return of(key).TakeAvailable(1) == 1 }}, nil
}

func newTollbooth(q quota) *tollboothlimiter.Limiter {
	return tollboothlimiter.New(&tollboothlimiter.ExpirableOptions{DefaultExpirationTTL: time.Hour}).
		SetMax(float64(q.limit) / q.window.Seconds()).SetBurst(q.limit)
}

func tollboothKeys(q quota) (limiter, error) {
	l := newTollbooth(q)

	return limiter{take: func(key string) bool { return tollbooth.LimitByKeys(l, []string{key}) == nil }}, nil
}

func counter(q quota) (limiter, error) {
	of := byKey(func() *atomic.Int64 { return new(atomic.Int64) })

	return limiter{take: func(key string) bool { return of(key).Add(1) <= int64(q.limit) }}, nil
}
