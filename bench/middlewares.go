package main

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"github.com/didip/tollbooth/v7"
	"github.com/go-chi/httprate"
	"github.com/sethvargo/go-limiter/httplimit"
	"github.com/throttled/throttled/v2"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	"golang.org/x/time/rate"

	"github.com/leaseway/leaseway/leasewayhttp"
)

// keyField is the request's header field that names the caller.
const keyField = "X-Api-Key"

// wrap puts a library's middleware around a handler.
type wrap func(next http.Handler) http.Handler

// wrapper is a library with a middleware, or without one.
type wrapper struct {
	name string
	side side
	make func(q quota) (w wrap, done func(), err error)
}

func wrappers() []wrapper {
	return []wrapper{
		{"Leaseway, all fields", ours, leasewayMiddleware()},
		{"Leaseway, `X-RateLimit-*` only", ours, leasewayMiddleware(leasewayhttp.WithHeaders(leasewayhttp.HeadersLegacy))},
		{"sethvargo/go-limiter", peer, sethvargoMiddleware},
		{"throttled", peer, throttledMiddleware},
		{"go-chi/httprate", peer, httprateMiddleware},
		{"ulule/limiter", peer, ululeMiddleware},
		{"tollbooth", peer, tollboothMiddleware},
		{"x/time/rate in a sync.Map, fields by hand", peer, xTimeMiddleware},
		{"no limiter: five fields of prepared text", floor, preparedFields},
		{"no middleware", floor, func(quota) (wrap, func(), error) {
			return func(next http.Handler) http.Handler { return next }, nil, nil
		}},
	}
}

// middlewares enters every wrapper under an endless quota.
func middlewares() []entrant {
	all := make([]entrant, len(wrappers()))

	for i, m := range wrappers() {
		all[i] = entrant{name: m.name, side: m.side, open: func() (opened, error) {
			w, done, err := m.make(endless())
			if err != nil {
				return opened{}, fmt.Errorf("%s: %w", m.name, err)
			}

			return opened{worker: serve(w), close: done}, nil
		}}
	}

	return all
}

// discard is a ResponseWriter that keeps only a header, and how often it was told a status.
type discard struct {
	header   http.Header
	statuses int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             { d.statuses++ }

// serve is a worker of requests to a middleware around a handler that does nothing. A status is only ever written by a refusal.
func serve(w wrap) func() func(n int) (wrong int) {
	h := w(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))

	return func() func(n int) (wrong int) {
		r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/v1/search?q=x", http.NoBody)
		r.Header.Set(keyField, hotKey)

		out := &discard{}

		return func(n int) (wrong int) {
			before := out.statuses

			for range n {
				out.header = make(http.Header)
				h.ServeHTTP(out, r)
			}

			return out.statuses - before
		}
	}
}

func leasewayMiddleware(opts ...leasewayhttp.Option) func(quota) (wrap, func(), error) {
	return func(q quota) (wrap, func(), error) {
		l, done, err := embed(fmt.Sprintf("rules: [{id: r, keyBy: apikey, limit: %d, window: %s}]", q.limit, q.window))
		if err != nil {
			return nil, nil, err
		}

		return leasewayhttp.New(l, opts...).Handler, done, nil
	}
}

func sethvargoMiddleware(q quota) (wrap, func(), error) {
	store, err := newSethvargo(q)
	if err != nil {
		return nil, nil, err
	}

	m, err := httplimit.NewMiddleware(store, func(r *http.Request) (string, error) { return r.Header.Get(keyField), nil })
	if err != nil {
		return nil, nil, err
	}

	return m.Handle, nil, nil
}

func throttledMiddleware(q quota) (wrap, func(), error) {
	l, err := newThrottled(q)
	if err != nil {
		return nil, nil, err
	}

	m := throttled.HTTPRateLimiterCtx{
		RateLimiter: l,
		VaryBy:      &throttled.VaryBy{Custom: func(r *http.Request) string { return r.Header.Get(keyField) }},
	}

	return m.RateLimit, nil, nil
}

func httprateMiddleware(q quota) (wrap, func(), error) {
	return httprate.LimitBy(q.limit, q.window, func(r *http.Request) (string, error) { return r.Header.Get(keyField), nil }), nil, nil
}

func ululeMiddleware(q quota) (wrap, func(), error) {
	m := stdlib.NewMiddleware(newUlule(q), stdlib.WithKeyGetter(func(r *http.Request) string { return r.Header.Get(keyField) }))

	return m.Handler, nil, nil
}

func tollboothMiddleware(q quota) (wrap, func(), error) {
	l := newTollbooth(q).SetIgnoreURL(true).SetIPLookups([]string{"RemoteAddr"}).SetHeader(keyField, nil)

	return func(next http.Handler) http.Handler { return tollbooth.LimitHandler(l, next) }, nil, nil
}

// preparedFields is the least that five fields cost: their texts are there, and every response has the same.
func preparedFields(quota) (wrap, func(), error) {
	text := func(s string) []string { return []string{s} }
	limit, remaining, reset := text("1000000000"), text("999999999"), text("1800000000")
	policy, left := text(`"r";q=1000000000;w=1`), text(`"r";r=999999999;t=1`)

	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h := w.Header()
			h["X-Ratelimit-Limit"], h["X-Ratelimit-Remaining"], h["X-Ratelimit-Reset"] = limit, remaining, reset
			h["Ratelimit-Policy"], h["Ratelimit"] = policy, left

			next.ServeHTTP(w, r)
		})
	}, nil, nil
}

// xTimeMiddleware is what one writes around x/time/rate, which has no middleware.
func xTimeMiddleware(q quota) (wrap, func(), error) {
	of := byKey(func() *rate.Limiter { return newXTime(q) })

	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			now := time.Now()
			l := of(r.Header.Get(keyField))
			ok := l.AllowN(now, 1)
			left := max(0, l.TokensAt(now))
			full := time.Duration(math.Ceil((float64(l.Burst())-left)/float64(l.Limit())) * float64(time.Second))

			h := w.Header()
			h.Set("X-Ratelimit-Limit", strconv.Itoa(l.Burst()))
			h.Set("X-Ratelimit-Remaining", strconv.Itoa(int(left)))
			h.Set("X-Ratelimit-Reset", strconv.FormatInt(now.Add(full).Unix(), 10))

			if !ok {
				h.Set("Retry-After", strconv.Itoa(int(math.Ceil(1/float64(l.Limit())))))
				http.Error(w, "too many requests", http.StatusTooManyRequests)

				return
			}

			next.ServeHTTP(w, r)
		})
	}, nil, nil
}
