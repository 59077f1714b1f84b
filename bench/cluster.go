package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leaseway/leaseway/internal/store/redis/joined"
)

const (
	clusterMasters = 3
	formWithin     = 30 * time.Second
)

// redisCluster is six real Redis servers, three masters and a replica of each, that keep nothing.
type redisCluster struct {
	addresses []string // masters first
	busPorts  []string
	nodes     []*redis.Client
	servers   []*exec.Cmd
	dir       string
}

// startCluster starts them on free ports of this machine.
func startCluster(ctx context.Context) (*redisCluster, error) {
	dir, err := os.MkdirTemp("", "leaseway-bench-")
	if err != nil {
		return nil, err
	}

	c := &redisCluster{dir: dir}

	for i := range 2 * clusterMasters {
		if err := c.start(ctx, filepath.Join(dir, strconv.Itoa(i))); err != nil {
			c.close()

			return nil, err
		}
	}

	ctx, cancel := context.WithTimeout(ctx, formWithin)
	defer cancel()

	if err := c.join(ctx); err != nil {
		c.close()

		return nil, fmt.Errorf("the Redis servers did not become a cluster: %w", err)
	}

	return c, nil
}

func (c *redisCluster) start(ctx context.Context, dir string) error {
	port, err := freePort(ctx)
	if err != nil {
		return err
	}

	bus, err := freePort(ctx)
	if err != nil {
		return err
	}

	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}

	server := exec.CommandContext(ctx, "redis-server", //nolint:gosec // the ports are numbers
		"--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "no", "--loglevel", "warning",
		"--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-node-timeout", "15000", "--repl-diskless-sync-delay", "0")
	if err := server.Start(); err != nil {
		return err
	}

	c.servers, c.busPorts = append(c.servers, server), append(c.busPorts, bus)
	c.addresses = append(c.addresses, net.JoinHostPort("127.0.0.1", port))
	c.nodes = append(c.nodes, redis.NewClient(&redis.Options{Addr: net.JoinHostPort("127.0.0.1", port)}))

	started, cancel := context.WithTimeout(ctx, formWithin)
	defer cancel()

	return joined.Eventually(started, func() error { return c.nodes[len(c.nodes)-1].Ping(started).Err() })
}

// join makes one cluster of the servers.
func (c *redisCluster) join(ctx context.Context) error {
	servers := make([]joined.Server, len(c.nodes))

	for i, n := range c.nodes {
		_, port, err := net.SplitHostPort(c.addresses[i])
		if err != nil {
			return err
		}

		servers[i] = joined.Server{Port: port, BusPort: c.busPorts[i], Ask: func(ctx context.Context, command ...string) (string, error) {
			words := make([]any, len(command))
			for k, word := range command {
				words[k] = word
			}

			return n.Do(ctx, words...).Text()
		}}
	}

	return joined.Join(ctx, servers)
}

// work is what the servers have done since their start.
type work struct {
	commands []float64     // that clients sent, by master
	used     time.Duration // processor time of all six
}

// work asks all servers.
func (c *redisCluster) work(ctx context.Context) (w work, err error) {
	for i, n := range c.nodes {
		info, err := n.Info(ctx, "cpu", "commandstats").Result()
		if err != nil {
			return w, err
		}

		w.used += time.Duration((number(info, "used_cpu_sys:") + number(info, "used_cpu_user:")) * float64(time.Second))

		if i < clusterMasters {
			w.commands = append(w.commands, number(info, "cmdstat_fcall:calls=")+number(info, "cmdstat_evalsha:calls="))
		}
	}

	return w, nil
}

// number reads what stands behind name in INFO; 0 for nothing.
func number(info, name string) float64 {
	_, rest, _ := strings.Cut(info, name)
	end := strings.IndexFunc(rest, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
	n, _ := strconv.ParseFloat(rest[:max(0, end)], 64) // which Redis writes

	return n
}

func (c *redisCluster) close() {
	for _, n := range c.nodes {
		_ = n.Close()
	}

	for _, s := range c.servers {
		_ = s.Process.Kill()
		_ = s.Wait()
	}

	_ = os.RemoveAll(c.dir)
}
