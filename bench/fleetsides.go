package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/rpc"
)

// leasewayFleet starts coordinators over the cluster, each a process, and holders that lease from them.
func leasewayFleet(ctx context.Context, cluster *redisCluster) (h *holders, err error) {
	dir, err := os.MkdirTemp("", "leaseway-bench-")
	if err != nil {
		return nil, err
	}

	h = &holders{}

	var limiters []*leaseway.Limiter

	h.close = func() { //nolint:contextcheck // it has to give back what is leased, whatever has ended
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
		var l *leaseway.Limiter

		var take func(string) int

		l, take, err = dialHolder(ctx, urls[i%len(urls)], key, i)
		if err == nil {
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

// dialHolder has holder i lease from the coordinator at url, as it does from one of several while that one answers.
// Coordinators that read a file count its versions by themselves: one that is late would have holders change to one with others.
func dialHolder(ctx context.Context, url string, key []byte, i int) (*leaseway.Limiter, func(string) int, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()

	var l *leaseway.Limiter

	var err error

	for l == nil && ctx.Err() == nil {
		l, err = leaseway.Dial(ctx, []string{url}, leaseway.WithName(fmt.Sprint("holder-", i)), leaseway.WithCoordinatorKeys(key),
			leaseway.WithDeadline(fleetDeadline))
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

	return l, func(key string) int { //nolint:contextcheck // Take has the deadline of its holder
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
func redisRateFleet(ctx context.Context, cluster *redisCluster) (*holders, error) {
	h := &holders{}
	limit := redis_rate.PerSecond(100)

	clients := make([]*redis.ClusterClient, fleetHolders)

	for i := range clients {
		client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.addresses})
		l := redis_rate.NewLimiter(client)

		clients[i] = client
		h.take = append(h.take, func(key string) int {
			if _, err := l.Allow(ctx, key, limit); err != nil {
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
