package demo

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/leaseway/leaseway/internal/store/redis/joined"
)

const (
	masters     = 3
	formWithin  = 30 * time.Second // for six servers to become a cluster
	askRedis    = time.Second
	functionRun = "cmdstat_fcall:calls="
)

// redisCluster is real Redis servers, three masters and a replica of each, that are one cluster.
type redisCluster struct {
	masters, replicas [masters]*redisNode
}

// startRedis starts the cluster; the servers keep their files in dir. Close what it returns.
func startRedis(ctx context.Context, program, dir string) (*redisCluster, error) {
	server, err := findRedis()
	if err != nil {
		return nil, err
	}

	ctx, cancel := context.WithTimeout(ctx, formWithin)
	defer cancel()

	c := &redisCluster{}

	for i := range masters {
		if c.masters[i], err = startRedisNode(ctx, program, server, dir); err == nil {
			c.replicas[i], err = startRedisNode(ctx, program, server, dir)
		}

		if err != nil {
			c.close()

			return nil, err
		}
	}

	if err := c.join(ctx); err != nil {
		c.close()

		return nil, fmt.Errorf("the Redis servers did not become a cluster: %w", err)
	}

	return c, nil
}

// nodes returns the servers that run.
func (c *redisCluster) nodes() (all []*redisNode) {
	for _, n := range append(c.masters[:], c.replicas[:]...) {
		if n != nil && n.client != nil {
			all = append(all, n)
		}
	}

	return all
}

// url returns the cluster as --store takes it.
func (c *redisCluster) url() string {
	nodes := c.nodes()
	all := make([]string, len(nodes))

	for i, n := range nodes {
		all[i] = n.at
	}

	return "redis://" + strings.Join(all, ",")
}

// join makes one cluster of the servers.
func (c *redisCluster) join(ctx context.Context) error {
	servers := make([]joined.Server, 0, 2*masters)
	for _, n := range append(c.masters[:], c.replicas[:]...) {
		servers = append(servers, joined.Server{Port: n.port, BusPort: n.busPort, Ask: n.do})
	}

	return joined.Join(ctx, servers)
}

// leads reports whether the server is a master.
func (n *redisNode) leads(ctx context.Context) bool {
	text, err := n.do(ctx, "INFO", "replication")

	return err == nil && strings.Contains(text, "role:master")
}

// calls returns how many functions the servers have run since their start. Of one that is gone it is what it last said.
func (c *redisCluster) calls(ctx context.Context) (sum int64) {
	ctx, cancel := context.WithTimeout(ctx, askRedis)
	defer cancel()

	for _, n := range c.nodes() {
		text, err := n.do(ctx, "INFO", "commandstats")
		if err != nil {
			continue
		}

		if _, after, found := strings.Cut(text, functionRun); found {
			digits, _, _ := strings.Cut(after, ",")
			n.calls, _ = strconv.ParseInt(digits, 10, 64) // which Redis writes
		}
	}

	for _, n := range append(c.masters[:], c.replicas[:]...) {
		sum += n.calls
	}

	return sum
}

// close kills every server.
func (c *redisCluster) close() {
	for _, n := range append(c.masters[:], c.replicas[:]...) {
		if n != nil {
			n.end()
		}
	}
}
