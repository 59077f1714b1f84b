package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/rpc"
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
	fleetRules        = "rules: [{id: r, keyBy: user, limit: 100, window: 1s}]\n"
)

// fleetColumns are what one run says.
func fleetColumns() []string {
	return []string{
		"decisions/s", "of them without the store, %", "Redis commands/s", "of the busiest shard", "processors, Redis", "coordinators", "holders and load",
		"µs of a processor a decision", "p50, µs", "p99, µs", "cold p50, µs", "cold p99, µs",
	}
}

// fleets measures whole fleets on this machine: 100,000 decisions a second are wanted.
func fleets() contest {
	c := contest{
		name: "fleet", title: "A fleet over a Redis cluster", rounds: 1, columns: fleetColumns(),
		about: fmt.Sprintf("%d holders, %d coordinators and six Redis servers, all on this machine; the limit of each key is 100/s. %d requests a "+
			"second are sent for %v, or a fifth of that, over all holders: of a million keys by Zipf's law (exponent 1.1), or all of one key. "+
			"Beside it the same million keys with one Redis command for each request. Cold is a decision that waited for the store.",
			fleetHolders, fleetCoordinators, fleetRate, fleetTime),
		needs: "there is no redis-server on the PATH",
	}

	if _, err := exec.LookPath("redis-server"); err == nil {
		c.entrants = []entrant{
			fleet("Leaseway, a million keys", ours, load{zipfKeys, fleetRate}, leasewayFleet),
			fleet("Leaseway, a million keys, a fifth", ours, load{zipfKeys, calmRate}, leasewayFleet),
			fleet("Leaseway, one key", ours, load{oneKey, fleetRate}, leasewayFleet),
			fleet("redis_rate, a million keys", peer, load{zipfKeys, fleetRate}, redisRateFleet),
			fleet("redis_rate, a million keys, a fifth", peer, load{zipfKeys, calmRate}, redisRateFleet),
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

// load is which requests come, and how many a second.
type load struct {
	keys func(*rand.Rand) func() string
	rate float64
}

func zipfKeys(r *rand.Rand) func() string {
	z := rand.NewZipf(r, 1.1, 1, fleetKeys-1)

	return func() string { return "user-" + strconv.FormatUint(z.Uint64(), 10) }
}

func oneKey(*rand.Rand) func() string { return func() string { return hotKey } }

// verdicts of one request.
const (
	fromMemory = iota
	fromStore
	fromNowhere // without the store, which did not answer in time
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
	tally := h.send(l, fleetTime)
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

// tally is what became of the requests of one or all workers.
type tally struct {
	decisions, alone int64
	all, cold        durations
}

// durations are how long some decisions took, one of so many that they fit.
type durations struct {
	seen   int
	sample []int64 // ns
}

const keptDurations = 2_000 // of each worker

func (d *durations) add(ns int64) {
	if d.seen++; len(d.sample) < keptDurations {
		d.sample = append(d.sample, ns)
	} else if i := rand.IntN(d.seen); i < keptDurations {
		d.sample[i] = ns
	}
}

// percentile returns the p-th, µs; 0 of none.
func (d *durations) percentile(p int) float64 {
	if len(d.sample) == 0 {
		return 0
	}

	slices.Sort(d.sample)

	return float64(d.sample[min(len(d.sample)-1, len(d.sample)*p/100)]) / 1e3
}

// send sends requests for d, at the rate of l or as many as get through: a worker catches up with what it should have sent.
func (h *holders) send(l load, d time.Duration) *tally {
	var (
		work sync.WaitGroup
		mu   sync.Mutex
		sum  tally
	)

	workers := len(h.take) * fleetWorkers
	began := time.Now()

	for w := range workers {
		work.Go(func() {
			var own tally

			next, take := l.keys(rand.New(rand.NewPCG(uint64(w), 7))), h.take[w%len(h.take)] //nolint:gosec // the same traffic each time
			tick := time.NewTicker(fleetTick)
			defer tick.Stop()

			for elapsed := time.Since(began); elapsed < d; elapsed = time.Since(began) {
				due := int64(elapsed.Seconds() * l.rate / float64(workers))

				for own.decisions < due && time.Since(began) < d {
					own.one(take, next())
				}

				<-tick.C
			}

			mu.Lock()
			defer mu.Unlock()

			sum.add(&own)
		})
	}

	work.Wait()

	return &sum
}

func (t *tally) one(take func(string) int, key string) {
	began := time.Now()
	origin := take(key)
	took := int64(time.Since(began))

	t.decisions++
	t.all.add(took)

	switch origin {
	case fromStore:
		t.cold.add(took)
	case fromNowhere:
		t.alone++
	}
}

func (t *tally) add(o *tally) {
	t.decisions += o.decisions
	t.alone += o.alone

	for _, ns := range o.all.sample {
		t.all.add(ns)
	}

	for _, ns := range o.cold.sample {
		t.cold.add(ns)
	}
}

// leasewayFleet starts coordinators over the cluster, each a process, and holders that lease from them.
func leasewayFleet(ctx context.Context, cluster *redisCluster) (h *holders, err error) {
	dir, err := os.MkdirTemp("", "leaseway-bench-")
	if err != nil {
		return nil, err
	}

	h = &holders{}

	var limiters []*leaseway.Limiter

	h.close = func() {
		for _, l := range limiters {
			_ = l.Close(context.Background())
		}

		for _, c := range h.coordinators {
			_ = c.Process.Kill()
			_ = c.Wait()
		}

		_ = os.RemoveAll(dir)
	}

	urls, key, err := h.serve(ctx, cluster, dir)
	for i := 0; i < fleetHolders && err == nil; i++ {
		k := i % len(urls)

		var l *leaseway.Limiter

		var take func(string) int

		if l, take, err = dialHolder(append(slices.Clone(urls[k:]), urls[:k]...), key, i); err == nil {
			limiters, h.take = append(limiters, l), append(h.take, take)
		}
	}

	if err != nil {
		h.close()

		return nil, err
	}

	return h, nil
}

// serve starts the coordinators and returns where they are, and the key that they sign with.
func (h *holders) serve(ctx context.Context, cluster *redisCluster, dir string) (urls []string, keys []byte, err error) {
	program := filepath.Join(dir, "leaseway")
	build := exec.Command("go", "build", "-o", program, "./cmd/leaseway") //nolint:noctx,gosec // of this repository
	build.Dir = ".."

	if out, err := build.CombinedOutput(); err != nil {
		return nil, nil, fmt.Errorf("go build: %w\n%s", err, out)
	}

	rules, signing := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "key")
	if err := os.WriteFile(rules, []byte(fleetRules), 0o600); err != nil {
		return nil, nil, err
	}

	public, err := rpc.GenerateKeyFile(signing)
	if err != nil {
		return nil, nil, err
	}

	for i := range fleetCoordinators {
		var ports [2]string
		for k := range ports {
			if ports[k], err = freePort(ctx); err != nil {
				return nil, nil, err
			}
		}

		c := exec.CommandContext(ctx, program, "serve", "--rules", rules, "--signing-key-file", signing, //nolint:gosec // ours
			"--listen", "127.0.0.1:"+ports[0], "--grpc-listen", "127.0.0.1:"+ports[1], "--data-dir", filepath.Join(dir, strconv.Itoa(i)),
			"--store", "redis://"+strings.Join(cluster.addresses, ","))
		if err := c.Start(); err != nil {
			return nil, nil, err
		}

		h.coordinators = append(h.coordinators, c)
		urls = append(urls, "grpc://127.0.0.1:"+ports[1])
	}

	return urls, public, nil
}

func dialHolder(urls []string, key []byte, i int) (*leaseway.Limiter, func(string) int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()

	var l *leaseway.Limiter

	var err error

	for l == nil && ctx.Err() == nil {
		l, err = leaseway.Dial(ctx, urls, leaseway.WithName(fmt.Sprint("holder-", i)), leaseway.WithCoordinatorKeys(key))
		if err != nil {
			<-time.After(100 * time.Millisecond) // it may not serve yet
		}
	}

	if err != nil {
		return nil, nil, err
	}

	rule, err := l.Rule("r")
	if err != nil {
		return nil, nil, err
	}

	return l, func(key string) int {
		switch d := rule.Take(key); d.Origin {
		case leaseway.OriginStore:
			return fromStore
		case leaseway.OriginLocal:
			return fromNowhere
		default:
			return fromMemory
		}
	}, nil
}

// redisRateFleet has each of the holders ask Redis about every request, over a pool of connections.
func redisRateFleet(_ context.Context, cluster *redisCluster) (*holders, error) {
	h := &holders{}
	limit := redis_rate.PerSecond(100)

	var clients []*redis.ClusterClient

	for range fleetHolders {
		client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.addresses})
		l := redis_rate.NewLimiter(client)

		clients = append(clients, client)
		h.take = append(h.take, func(key string) int {
			if _, err := l.Allow(context.Background(), key, limit); err != nil {
				return fromNowhere
			}

			return fromStore
		})
	}

	h.close = func() {
		for _, c := range clients {
			_ = c.Close()
		}
	}

	return h, nil
}
