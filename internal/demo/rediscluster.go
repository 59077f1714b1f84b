package demo

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	masters     = 3
	hashSlots   = 16384
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
	for i, n := range c.nodes() {
		if _, err := n.do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)); err != nil {
			return err
		}

		if _, err := n.do(ctx, "CLUSTER", "MEET", "127.0.0.1", c.masters[0].port, c.masters[0].busPort); err != nil {
			return err
		}
	}

	for i, n := range c.masters {
		from, to := i*hashSlots/masters, (i+1)*hashSlots/masters-1
		if _, err := n.do(ctx, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(from), strconv.Itoa(to)); err != nil {
			return err
		}
	}

	for i, n := range c.replicas {
		id, err := c.masters[i].do(ctx, "CLUSTER", "MYID")
		if err != nil {
			return err
		}

		// It must have heard of its master first.
		if err := eventually(ctx, func() error { _, err := n.do(ctx, "CLUSTER", "REPLICATE", id); return err }); err != nil {
			return err
		}
	}

	for _, n := range c.nodes() {
		if err := eventually(ctx, func() error { return n.ready(ctx) }); err != nil {
			return err
		}
	}

	return nil
}

// ready returns an error unless the server sees the whole cluster, and is in step with its master.
func (n *redisNode) ready(ctx context.Context) error {
	for _, want := range []struct{ question, answer string }{
		{"CLUSTER INFO", "cluster_state:ok"}, {"CLUSTER INFO", "cluster_known_nodes:" + strconv.Itoa(2*masters)},
		{"INFO replication", "role:"},
	} {
		text, err := n.do(ctx, strings.Fields(want.question)...)
		if err != nil {
			return err
		}

		if !strings.Contains(text, want.answer) || strings.Contains(text, "master_link_status:down") {
			return fmt.Errorf("%s: no %s yet", n.name, want.answer)
		}
	}

	nodes, err := n.do(ctx, "CLUSTER", "NODES")
	if err == nil && strings.Count(nodes, "slave") != masters {
		err = fmt.Errorf("%s: it does not know all replicas yet", n.name)
	}

	return err
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

// eventually calls f until it has no error, and returns the last one if ctx ends first.
func eventually(ctx context.Context, f func() error) error {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()

	for {
		err := f()
		if err == nil {
			return nil
		}

		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-tick.C:
		}
	}
}
