package sim

import (
	"time"

	"github.com/leaseway/leaseway/internal/rate"
)

const (
	sec = time.Second
	ms  = time.Millisecond
)

// calmLoads are those in which nothing goes wrong. What they must reach is the
// whole of the limit, fairly, for few calls: one ask in 100 requests of a hot key
// (500 a second to a server, or more) below its limit, one in 20 above it. Slow
// keys, and small limits that are taken token by token, are not judged by their calls.
func calmLoads() []Load {
	buckets := []rate.Algorithm{rate.TokenBucket}

	large, burst := []string{"limit: 20000, window: 1s"}, []string{"limit: 1000, window: 1s, burst: 100"}
	medium, small := []string{"limit: 1000, window: 1s"}, []string{"limit: 10, window: 1s"}

	return []Load{
		{Name: "large-80", About: "80 % of 20,000 a second", Lasts: 10 * sec, Holders: 20, Rules: large,
			demand: demand{times: 0.8}, bars: bars{admitted: 0.98, asks: 0.01, fair: 15}},
		{Name: "large-99", About: "99 % of 20,000 a second", Lasts: 10 * sec, Holders: 20, Rules: large,
			demand: demand{times: 0.99}, bars: bars{admitted: 0.98, asks: 0.05, fair: 15}},
		{Name: "large-200", About: "twice 20,000 a second", Lasts: 10 * sec, Holders: 20, Rules: large,
			demand: demand{times: 2}, bars: bars{admitted: 0.98, asks: 0.05, fair: 15}},

		{Name: "medium-90", About: "90 % of 1,000 a second", Lasts: 20 * sec, Holders: 20, Rules: medium,
			demand: demand{times: 0.9}, bars: bars{admitted: 0.98, fair: 15}},
		{Name: "medium-200", About: "twice 1,000 a second", Lasts: 20 * sec, Holders: 20, Rules: medium,
			demand: demand{times: 2}, bars: bars{admitted: 0.98, fair: 15}},
		{Name: "medium-2000", About: "20 times 1,000 a second", Lasts: 10 * sec, Holders: 20, Rules: medium,
			demand: demand{times: 20}, bars: bars{admitted: 0.98, asks: 0.05, fair: 15}},

		{Name: "burst-90", About: "90 % of 1,000 a second, burst 100", Lasts: 20 * sec, Holders: 20, Rules: burst, only: buckets,
			demand: demand{times: 0.9}, bars: bars{admitted: 0.98, asks: spread(20, 100), fair: 15}},
		{Name: "burst-200", About: "twice 1,000 a second, burst 100", Lasts: 20 * sec, Holders: 20, Rules: burst, only: buckets,
			demand: demand{times: 2}, bars: bars{admitted: 0.98, asks: spread(20, 100), fair: 15}},
		{Name: "burst-2000", About: "20 times 1,000 a second, burst 100", Lasts: 10 * sec, Holders: 20, Rules: burst, only: buckets,
			demand: demand{times: 20}, bars: bars{admitted: 0.98, asks: spread(20, 100), fair: 15}},

		{Name: "small-80", About: "80 % of 10 a second", Lasts: 3000 * sec, Holders: 20, Rules: small,
			demand: demand{times: 0.8}, bars: bars{admitted: 0.995, fair: 15}},
		{Name: "small-300", About: "3 times 10 a second", Lasts: 3000 * sec, Holders: 20, Rules: small,
			demand: demand{times: 3}, bars: bars{admitted: 0.995, fair: 15}},
		{Name: "single-80", About: "80 % of 10 a second, burst 1", Lasts: 3000 * sec, Holders: 20,
			Rules: []string{"limit: 10, window: 1s, burst: 1"}, only: buckets,
			demand: demand{times: 0.8}, bars: bars{admitted: 0.995, fair: 15}},
		{Name: "single-300", About: "3 times 10 a second, burst 1", Lasts: 3000 * sec, Holders: 20,
			Rules: []string{"limit: 10, window: 1s, burst: 1"}, only: buckets,
			demand: demand{times: 3}, bars: bars{admitted: 0.995, fair: 15}},
		{Name: "minute", About: "twice 100 a minute", Lasts: 600 * sec, Holders: 20, Rules: []string{"limit: 100, window: 1m"},
			demand: demand{times: 2}, bars: bars{admitted: 0.995}},

		{Name: "hot-server", About: "twice 1,000 a second, 9 of 10 requests to one of 20 servers", Lasts: 10 * sec, Holders: 20,
			Rules: medium, demand: demand{times: 2, hot: 0.9}, bars: bars{admitted: 0.98, asks: 0.05}},
		{Name: "hot-hops", About: "90 % of 1,000 a second, nearly all to one server, another each 0.4 s", Lasts: 20 * sec, Holders: 20,
			Rules: medium, demand: demand{times: 0.9, hot: 0.9, hops: 400 * ms}, bars: bars{admitted: 0.98}},
		{Name: "on-off", About: "twice 1,000 a second for 3 s, nothing for 3 s", Lasts: 30 * sec, Holders: 20, Rules: medium,
			demand: demand{times: 2, on: 3 * sec, off: 3 * sec}, bars: bars{admitted: 0.98, fair: 15}},
		{Name: "wide", About: "90 % of 20,000 a second over 100 servers", Lasts: 10 * sec, Holders: 100, Rules: large,
			demand: demand{times: 0.9}, bars: bars{admitted: 0.98, fair: 15}},
		{Name: "wide-200", About: "twice 20,000 a second over 100 servers", Lasts: 5 * sec, Holders: 100, Rules: large,
			demand: demand{times: 2}, bars: bars{admitted: 0.98, fair: 15}},
	}
}

// spread is the most asks a request where it is the limit that keeps leases small:
// of B tokens 0.8 are leased, in as many parts as there are holders.
func spread(holders, tokens int64) float64 { return 1.3 * float64(holders) / (0.8 * float64(tokens)) }
