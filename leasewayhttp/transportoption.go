package leasewayhttp

import "time"

// TransportOption configures a Transport. Each says what is done without it.
type TransportOption interface{ applyTransport(c *transportConfig) }

type transportConfig struct {
	attempts     int
	first, most  time.Duration // bounds of the random part of waits
	patience     time.Duration
	ratio, floor float64 // of retries
	throttle     float64 // k; 0 is never
}

func defaultTransport() transportConfig {
	return transportConfig{
		attempts: 5, first: 250 * time.Millisecond, most: 20 * time.Second, patience: time.Minute,
		ratio: 0.1, floor: 10, throttle: 2,
	}
}

type transportOptionFunc func(c *transportConfig)

func (f transportOptionFunc) applyTransport(c *transportConfig) { f(c) }

// WithAttempts sends a request n times at most, the first one included. The default is 5.
func WithAttempts(n int) TransportOption {
	return transportOptionFunc(func(c *transportConfig) { c.attempts = max(1, n) })
}

// WithBackoff bounds the random part of waits: the first is shorter than first, each later bound is twice the one before,
// and none is above most. The default is 250 ms and 20 s.
func WithBackoff(first, most time.Duration) TransportOption {
	return transportOptionFunc(func(c *transportConfig) { c.first, c.most = max(0, first), max(0, most) })
}

// WithPatience bounds the waits of one request in all. A refusal that asks for more is returned at once: the Retry-After
// of a daily quota may be hours. The default is a minute; the deadline of a request holds as well.
func WithPatience(d time.Duration) TransportOption {
	return transportOptionFunc(func(c *transportConfig) { c.patience = max(0, d) })
}

// WithRetryBudget bounds, for each host, the retries of the last two minutes to ratio of its requests, and floor more, so that
// a server in trouble does not get several times its load. Waiting out a 429 is not counted. The default is 0.1 and 10.
func WithRetryBudget(ratio float64, floor int) TransportOption {
	return transportOptionFunc(func(c *transportConfig) { c.ratio, c.floor = max(0, ratio), max(0, float64(floor)) })
}

// WithThrottle begins to hold requests back when a host has accepted fewer than one in k of those of the last two minutes, 20
// or more; k is 1 at least, or 0 for never. The default is 2.
func WithThrottle(k float64) TransportOption {
	return transportOptionFunc(func(c *transportConfig) {
		if c.throttle = 0; k > 0 {
			c.throttle = max(1, k)
		}
	})
}
