package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

const (
	fleetHolders      = 20
	fleetCoordinators = 3
	fleetKeys         = 1_000_000
	fleetRate         = 100_000 // decisions a second that are wanted
	calmRate          = 20_000  // that two processors have time for, whatever keys they are of
	fleetWorkers      = 48      // of each holder: requests that may wait at once
	fleetTime         = 60 * time.Second
	fleetWarm         = 5 * time.Second
	fleetTick         = time.Millisecond
	fleetDeadline     = 400 * time.Millisecond // below a lease's TTL: a machine that is too busy shows in the times
	fleetRules        = "rules: [{id: r, keyBy: user, limit: 100, window: 1s}]\n"
)

// fleetColumns are what one run says.
func fleetColumns() []string {
	return []string{
		"decisions/s", "of them with no answer of the store in time, %", "Redis commands/s", "of the busiest shard",
		"processors, Redis", "coordinators", "holders and load",
		"µs of a processor a decision", "p50, µs", "p99, µs", "cold p50, µs", "cold p99, µs",
	}
}

// fleets measures whole fleets on this machine: 100,000 decisions a second are wanted.
func fleets(of time.Duration) contest {
	c := contest{
		name: "fleet", title: "A fleet over a Redis cluster", rounds: 1, columns: fleetColumns(),
		about: fmt.Sprintf("%d holders, %d coordinators and six Redis servers, all on this machine; the limit of each key is 100/s. "+
			"%d requests a second are sent for %v, or a fifth of that, over all holders: of a million keys by Zipf's law (exponent 1.1), "+
			"or all of one key. Beside it the same million keys with one Redis command for each request. Cold is a decision that waited "+
			"for the store.", fleetHolders, fleetCoordinators, fleetRate, of),
		needs: needsRedis,
	}

	if _, err := exec.LookPath("redis-server"); err == nil {
		c.entrants = []entrant{
			fleet("Leaseway, a million keys", ours, load{zipfKeys, fleetRate, of}, leasewayFleet),
			fleet("Leaseway, a million keys, a fifth", ours, load{zipfKeys, calmRate, of}, leasewayFleet),
			fleet("Leaseway, one key", ours, load{oneKey, fleetRate, of}, leasewayFleet),
			fleet("redis_rate, a million keys", peer, load{zipfKeys, fleetRate, of}, redisRateFleet),
			fleet("redis_rate, a million keys, a fifth", peer, load{zipfKeys, calmRate, of}, redisRateFleet),
		}
	}

	return c
}

// fleet returns an entrant whose one run fills all columns.
func fleet(name string, side side, l load, start func(context.Context, *redisCluster) (*holders, error)) entrant {
	var values []float64

	return entrant{name: name, side: side, measure: func(column int) (sample, error) {
		if column == 0 {
			var err error
			if values, err = runFleet(l, start); err != nil {
				return sample{}, err
			}
		}

		return sample{value: values[column]}, nil
	}}
}

// verdicts of one request.
const (
	fromMemory = iota
	fromStore
	fromNowhere // the store did not answer in time
)

// holders are API servers that limit, and the coordinators behind them.
type holders struct {
	take         []func(key string) (origin int)
	coordinators []*exec.Cmd
	close        func()
}

// runFleet starts a fleet, has it decide, and returns a value for each column.
func runFleet(l load, start func(context.Context, *redisCluster) (*holders, error)) ([]float64, error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) // which ends all that is started here
	defer stop()

	cluster, err := startCluster(ctx)
	if err != nil {
		return nil, err
	}
	defer cluster.close()

	h, err := start(ctx, cluster)
	if err != nil {
		return nil, err
	}
	defer h.close()

	h.send(l, fleetWarm)

	if ctx.Err() != nil {
		return nil, ctx.Err()
	}

	redisBefore, err := cluster.work(ctx)
	if err != nil {
		return nil, err
	}

	ownBefore, coordinatorsBefore, began := processorTime(), usedBy(h.coordinators), time.Now()
	tally := h.send(l, l.lasts)
	seconds := time.Since(began).Seconds()
	own, coordinators := processorTime()-ownBefore, usedBy(h.coordinators)-coordinatorsBefore

	redisAfter, err := cluster.work(ctx)
	if err != nil {
		return nil, err
	}

	commands, busiest := 0.0, 0.0
	for i, n := range redisAfter.commands {
		commands += n - redisBefore.commands[i]
		busiest = max(busiest, n-redisBefore.commands[i])
	}

	store := redisAfter.used - redisBefore.used
	n := float64(tally.decisions)

	return []float64{
		n / seconds, 100 * float64(tally.alone) / n, commands / seconds, busiest / seconds,
		store.Seconds() / seconds, coordinators.Seconds() / seconds, own.Seconds() / seconds,
		(store + coordinators + own).Seconds() * 1e6 / n,
		tally.all.percentile(50), tally.all.percentile(99), tally.cold.percentile(50), tally.cold.percentile(99),
	}, nil
}
