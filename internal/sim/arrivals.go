package sim

import (
	"time"

	"github.com/leaseway/leaseway/rule"
)

// demand is what callers want. Requests come at random (Poisson).
type demand struct {
	times   float64       // of the limit of each key, over all servers
	hot     float64       // the part of the requests that comes to one server, the others sharing the rest; 0: all alike
	hops    time.Duration // after which another server is the hot one; 0: never
	on, off time.Duration // requests come during on, none during off; 0: always
	keys    int           // that all get as much; 0: 1
	costs   []int64       // of which each request has one; nil: 1
}

// arrivals draws a load's requests.
type arrivals struct {
	demand

	gap float64 // µs between two requests on average, at 1 times the limit
}

func newArrivals(load *Load, set *rule.Set) arrivals {
	a := arrivals{demand: load.demand}
	cost := 1.0

	if len(a.costs) > 0 {
		cost = 0
		for _, n := range a.costs {
			cost += float64(n) / float64(len(a.costs))
		}
	}

	r := set.Rules[0]
	a.gap = float64(r.Window.Microseconds()) / float64(r.Limit) * cost / float64(max(1, a.keys))

	return a
}

// after returns when the first request after now comes, µs; never once the load is over.
func (a *arrivals) after(f *fleet, now int64) int64 {
	if a.times <= 0 {
		return never
	}

	at := now + int64(f.rnd.ExpFloat64()*a.gap/a.times+f.rnd.Float64())

	if on, cycle := a.on.Microseconds(), (a.on + a.off).Microseconds(); cycle > 0 {
		if gone := (at - start) % cycle; gone >= on {
			at += cycle - gone // nothing is lost by it: gaps have no memory
		}
	}

	if at >= f.end {
		return never
	}

	return at
}

// request draws who gets the request that comes now, and what it is.
func (a *arrivals) request(f *fleet) (*server, request) {
	q := request{cost: 1, at: f.now}

	if a.keys > 1 {
		q.key = f.rnd.IntN(a.keys)
	}

	if len(a.costs) > 0 {
		q.cost = a.costs[f.rnd.IntN(len(a.costs))]
	}

	n := len(f.servers)
	if a.hot == 0 || n == 1 {
		return f.servers[f.rnd.IntN(n)], q
	}

	hot := 0
	if a.hops > 0 {
		hot = int((f.now - start) / a.hops.Microseconds() % int64(n))
	}

	if f.rnd.Float64() < a.hot {
		return f.servers[hot], q
	}

	return f.servers[(hot+1+f.rnd.IntN(n-1))%n], q
}
