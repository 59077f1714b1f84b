package main

import (
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"
)

const (
	rlsTime  = 3 * time.Second // of one measurement: processor time is counted in hundredths of a second
	rlsLease = 8 * time.Second // the life of the longest leases: calls of a store come and go with it
	rlsKeys  = 1 << 10         // addresses, unless a column says otherwise
)

// rlsLoad is how many connections there are, each with one call at a time, and how many addresses.
type rlsLoad struct{ connections, keys int }

// rlsUse is what a call took under a load: of the processors, and until the next one.
type rlsUse struct{ server, store, callers, wall time.Duration }

// rlsColumn is what of it counts.
type rlsColumn struct {
	load rlsLoad
	of   func(rlsUse) time.Duration
	name string
}

func rlsColumns() []rlsColumn {
	server := func(u rlsUse) time.Duration { return u.server }
	store := func(u rlsUse) time.Duration { return u.store }
	all := func(u rlsUse) time.Duration { return u.server + u.store + u.callers }
	wall := func(u rlsUse) time.Duration { return u.wall }

	few, many, hot := rlsLoad{16, rlsKeys}, rlsLoad{64, rlsKeys}, rlsLoad{64, 16}

	return []rlsColumn{
		{few, server, "µs, server, 16 connections"},
		{many, server, "µs, server, 64 connections"},
		{few, all, "µs, all processes, 16"},
		{many, all, "µs, all processes, 64"},
		{few, wall, "µs, answer to answer, 16"},
		{many, wall, "µs, answer to answer, 64"},
		{many, store, "µs, Redis, 64"},
		{hot, server, "µs, server, 64, for 16 addresses"},
		{hot, store, "µs, Redis, 64, for 16 addresses"},
		{hot, wall, "µs, answer to answer, 64, for 16 addresses"},
	}
}

const rlsAbout = "ShouldRateLimit with one descriptor of 1,024 addresses. `leaseway serve` answers with a status, five header fields and " +
	"metadata; %s. Each server is a process of its own, with a Redis of its own where it needs one; each connection has one call " +
	"under way. Processor time for each call, and the time in which one call follows another: the callers share the machine, and do " +
	"no more than HTTP/2 asks of them. All processes are the server, its Redis and the callers: what of that there is in a second " +
	"bounds the calls in it, whatever else the machine does."

const rlsSteady = " Calls are counted over 8 s, after as many to begin with: that is how long the longest lease lives."

// rls measures what Envoy's calls cost beside what gRPC costs.
func rls() contest {
	return rlsContest(contest{
		name: "rls", title: "Calls of Envoy's rate limit service", goal: 1.15, against: "the echo",
		about: fmt.Sprintf(rlsAbout, "the echo is a gRPC server, with grpc-go's defaults, that sends the bytes of the request back"),
		entrants: []entrant{
			serving("gRPC that sends the request back", peer, startEcho, echoCall()),
			serving("leaseway serve", ours, startServe, fullCall()),
			serving("the echo, with the windows and workers of leaseway serve", floor, startOwnEcho, echoCall()),
		},
	}, rlsColumns()[:6])
}

// rlsPeer measures what they cost beside envoyproxy/ratelimit, both on Redis.
func rlsPeer() contest {
	return rlsContest(contest{
		name: "rls-peer", title: "Calls of Envoy's rate limit service, beside envoyproxy/ratelimit",
		goal: 0.65, against: "envoyproxy/ratelimit",
		about: fmt.Sprintf(rlsAbout, "envoyproxy/ratelimit with a status, as it does unless told otherwise, without statsd") + rlsSteady,
		entrants: redisOnly([]entrant{
			serving("envoyproxy/ratelimit", peer, startPeer, statusCall()),
			serving("leaseway serve", ours, startServeOnRedis, fullCall()),
			serving("gRPC that sends the request back", floor, startEcho, echoCall()),
		}), needs: needsRedis,
	}, rlsColumns())
}

// rlsContest has the contest measure columns.
func rlsContest(c contest, columns []rlsColumn) contest {
	for _, column := range columns {
		c.columns = append(c.columns, column.name)
	}

	return c
}

// rlsServer is a process that answers at an address.
type rlsServer struct {
	process *exec.Cmd
	store   *exec.Cmd // its Redis; nil without
	address string
	stop    func()
}

func serving(name string, side side, start func() (rlsServer, error), do rlsCall) entrant {
	measured := map[rlsLoad]rlsUse{}

	return entrant{name: name, side: side, measure: func(column int) (sample, error) {
		if column == 0 { // of a new round
			clear(measured)
		}

		c := rlsColumns()[column]

		if _, ok := measured[c.load]; !ok {
			server, err := start()
			if err != nil {
				return sample{}, err
			}

			defer server.stop()

			if measured[c.load], err = server.measure(c.load, do); err != nil {
				return sample{}, err
			}
		}

		return sample{value: float64(c.of(measured[c.load]).Nanoseconds()) / 1e3}, nil
	}}
}

// connect makes connections, and has the server know all keys.
func (s rlsServer) connect(load rlsLoad, do rlsCall) (callers []*caller, err error) {
	for i := range load.connections {
		c, err := dialCaller(s.address, do.method)
		if err != nil {
			return callers, err
		}

		callers = append(callers, c)

		for n := range max(1, load.keys/load.connections) {
			request := do.wire[(n*load.connections+i)%load.keys]

			answer, err := c.call(request)
			if err == nil {
				err = do.check(request, answer)
			}

			if err != nil {
				return callers, err
			}
		}
	}

	return callers, nil
}

// measure calls the server over all connections at once.
func (s rlsServer) measure(load rlsLoad, do rlsCall) (use rlsUse, err error) {
	callers, err := s.connect(load, do)

	defer func() {
		for _, c := range callers {
			c.close()
		}
	}()

	if err != nil {
		return use, err
	}

	span := rlsTime

	if s.store != nil { // as in a server that has run for a while, and over a whole life of leases
		span = rlsLease

		if _, err := callFor(span, callers, load, do); err != nil {
			return use, err
		}
	}

	began, before := time.Now(), s.used()

	calls, err := callFor(span, callers, load, do)
	if err != nil {
		return use, fmt.Errorf("%s: %w", s.address, err)
	}

	after, n := s.used(), time.Duration(max(1, calls))

	return rlsUse{
		server: (after.server - before.server) / n, store: (after.store - before.store) / n,
		callers: (after.callers - before.callers) / n, wall: time.Since(began) / n,
	}, nil
}

// callFor has all callers call for a while, and counts the calls.
func callFor(span time.Duration, callers []*caller, load rlsLoad, do rlsCall) (int64, error) {
	var (
		calls atomic.Int64
		all   sync.WaitGroup
		errs  = make([]error, len(callers))
		began = time.Now()
	)

	for i, c := range callers {
		all.Go(func() {
			for n := i; time.Since(began) < span; n += 7 {
				request := do.wire[n%load.keys]

				answer, err := c.call(request)
				if err == nil && !do.like(request, answer) {
					err = fmt.Errorf("the answer is %x", answer)
				}

				if err != nil {
					errs[i] = err

					return
				}

				calls.Add(1)
			}
		})
	}

	all.Wait()

	return calls.Load(), errors.Join(errs...)
}

// used is what all of them have used so far.
func (s rlsServer) used() rlsUse {
	return rlsUse{server: usedByFamily(s.process), store: usedByFamily(s.store), callers: processorTime()}
}
