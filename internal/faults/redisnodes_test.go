//go:build unix

package faults

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/store/redis/redistest"
)

// sharded are keys of one rule, in traffic, over all masters of a cluster.
type sharded struct {
	cluster *redistest.Cluster
	fleet   []*leaseway.Limiter
	all     []*traffic
}

const (
	shardedKeys  = 12
	shardedRules = "rules: [{id: r, keyBy: user, limit: 200, window: 1s}]"
	shardedLimit = 200.0 // a second, and the burst
)

// shardedTraffic sends traffic of some keys through holders of two coordinators over a cluster, until all are leased.
func shardedTraffic(t *testing.T, cluster *redistest.Cluster) *sharded {
	t.Helper()

	_, addresses := overRedis(t, shardedRules, cluster, 2)
	s := &sharded{cluster: cluster, fleet: dial(t, 2, addresses)}

	for i := range shardedKeys {
		s.all = append(s.all, send(t, s.fleet, load{rule: "r", key: fmt.Sprint("user-", i)}))
	}

	s.leased(t, 200)

	return s
}

// leased waits until n more requests of each key were decided by a lease.
func (s *sharded) leased(t *testing.T, n int64) {
	t.Helper()

	for _, tr := range s.all {
		tr.sees(t, leaseway.OriginLease, n)
	}
}

// alone returns of each key which part of its next n requests was decided without the store.
func (s *sharded) alone(t *testing.T, n int64) (parts []float64) {
	t.Helper()

	before, local := make([]int64, len(s.all)), make([]int64, len(s.all))
	for i, tr := range s.all {
		before[i], local[i] = tr.count.Load(), tr.asked[leaseway.OriginLocal].Load()
	}

	for i, tr := range s.all {
		eventually(t, "more requests are decided", func() bool { return tr.count.Load() >= before[i]+n })
	}

	for i, tr := range s.all {
		parts = append(parts, float64(tr.asked[leaseway.OriginLocal].Load()-local[i])/float64(tr.count.Load()-before[i]))
	}

	return parts
}

// exact stops the traffic, and fails if what the store granted was more than the bound anywhere.
func (s *sharded) exact(t *testing.T) {
	t.Helper()

	for i, tr := range s.all {
		tr.stop()

		if over := excess(tr.of(leaseway.OriginLease, leaseway.OriginStore), shardedLimit, shardedLimit); over > 0 {
			t.Errorf("key %d: a window admitted %.1f above burst + rate × time", i, over)
		}
	}
}

// behindLinks has the masters known by the addresses of links, one before each, to coordinators and to their replicas.
func behindLinks(t *testing.T, cluster *redistest.Cluster) (links []*link) {
	t.Helper()

	for _, master := range cluster.Masters {
		l := newLink(t, master.Address)
		links = append(links, l)

		_, port, err := net.SplitHostPort(l.Listen)
		if err != nil {
			t.Fatal(err)
		}

		if err := master.Do(t.Context(), "CONFIG", "SET", "cluster-announce-port", port); err != nil {
			t.Fatal(err)
		}
	}

	eventually(t, "all nodes know the masters by their links", func() bool {
		for _, server := range append(append([]*redistest.Server{}, cluster.Masters...), cluster.Replicas...) {
			nodes, err := server.Ask(t.Context(), "CLUSTER", "NODES")

			for _, l := range links {
				if err != nil || !strings.Contains(nodes, l.Listen+"@") {
					return false
				}
			}
		}

		return true
	})

	return links
}

// One node of the store is slow, silent or cut off. Its keys have an outage; those of the others do not notice, but for
// what was under way when it began. When it is well, all are, and nothing was counted twice or forgotten.
func TestRedisNodeSlow(t *testing.T) {
	cluster := redistest.New(t)
	links := behindLinks(t, cluster)

	for _, fault := range []struct{ name, kind, attributes string }{
		{"latency", "latency", `{"latency": 300, "jitter": 100}`},
		{"just past the deadline", "latency", `{"latency": 30}`},
		{"timeout", "timeout", `{"timeout": 0}`},
		{"reset_peer", "reset_peer", `{"timeout": 0}`},
	} {
		t.Run(fault.name, func(t *testing.T) {
			s := shardedTraffic(t, cluster)

			links[1].poison(fault.kind, fault.attributes)
			eventually(t, "a key has noticed", func() bool {
				for _, tr := range s.all {
					if tr.asked[leaseway.OriginLocal].Load() > 50 {
						return true
					}
				}

				return false
			})

			s.alone(t, 500) // which may have been under way

			// The least of several times: what the node does to a key it does each time, and what a busy machine does only sometimes.
			parts := s.alone(t, 500)

			for range 3 {
				for i, part := range s.alone(t, 500) {
					parts[i] = min(parts[i], part)
				}
			}

			out, well := 0, 0

			for _, part := range parts {
				switch {
				case part > 0.75:
					out++
				case part < 0.1:
					well++
				}
			}

			t.Logf("decided without the store: %.2f", parts)

			if out < 1 || out > shardedKeys*2/3 || out+well != shardedKeys {
				t.Errorf("%d keys of %d have an outage, and %d are well", out, shardedKeys, well)
			}

			links[1].cure()
			s.leased(t, 200)
			s.exact(t)
		})
	}
}

// What operators do to a cluster in use is at most a short outage, and neither gives anybody more nor costs anything.
func TestRedisOperated(t *testing.T) {
	const most = 2000 // requests of a key that are decided without the store: those of a second

	cluster := redistest.New(t)

	for _, op := range []struct {
		name string
		do   func(t *testing.T, c *redistest.Cluster) error
	}{
		{"FUNCTION FLUSH", each("FUNCTION", "FLUSH")},
		{"SCRIPT FLUSH", each("SCRIPT", "FLUSH")},
		{"CLIENT PAUSE", each("CLIENT", "PAUSE", "300", "ALL")},
		{"FLUSHALL", each("FLUSHALL")},
		{"CLIENT KILL", each("CLIENT", "KILL", "TYPE", "normal")},
		{"slots move", reshard()},
		{"CLUSTER FAILOVER", failOver},
	} {
		t.Run(op.name, func(t *testing.T) {
			s := shardedTraffic(t, cluster)
			worst := s.without(t, op.do)

			// The least of both times, as above. There is no third: nodes do not vote so soon again on who follows a master.
			if slices.Max(worst) > most {
				for i, again := range s.without(t, op.do) {
					worst[i] = min(worst[i], again)
				}
			}

			if slices.Max(worst) > most {
				t.Errorf("each time so many requests of the keys were decided without the store: %d, want %d at most", worst, most)
			}

			s.exact(t)
		})
	}
}

// without does something to the cluster, and returns of each key how many requests were decided without the store until all are
// leased again.
func (s *sharded) without(t *testing.T, do func(*testing.T, *redistest.Cluster) error) []int64 {
	t.Helper()

	local := make([]int64, len(s.all))
	for i, tr := range s.all {
		local[i] = tr.asked[leaseway.OriginLocal].Load()
	}

	began := time.Now()

	if err := do(t, s.cluster); err != nil {
		t.Fatal(err)
	}

	done := time.Since(began)

	s.leased(t, 200)

	for i, tr := range s.all {
		local[i] = tr.asked[leaseway.OriginLocal].Load() - local[i]
	}

	t.Logf("it took %v; of no key more than %d requests were decided without the store", done, slices.Max(local))

	return local
}

// each returns what sends a command to all masters.
func each(command ...string) func(*testing.T, *redistest.Cluster) error {
	return func(t *testing.T, c *redistest.Cluster) error {
		t.Helper()

		for _, master := range c.Masters {
			if err := master.Do(t.Context(), command...); err != nil {
				return err
			}
		}

		return nil
	}
}

// failOver has each replica take over from its master, in good order.
func failOver(t *testing.T, c *redistest.Cluster) error {
	t.Helper()

	for _, replica := range c.Replicas {
		if err := replica.Do(t.Context(), "CLUSTER", "FAILOVER"); err != nil {
			return err
		}

		eventually(t, "the replica is the master", func() bool {
			info, err := replica.Ask(t.Context(), "INFO", "replication")

			return err == nil && strings.Contains(info, "role:master")
		})
	}

	c.Masters, c.Replicas = c.Replicas, c.Masters

	return nil
}

// reshard returns what moves the slots of a third of all keys from one master to another, and the next time back.
func reshard() func(*testing.T, *redistest.Cluster) error {
	const used, slots = 16, 16384 // every sixteenth slot has keys

	from, to := 0, 1

	return func(t *testing.T, c *redistest.Cluster) error {
		t.Helper()

		for slot := 0; slot < slots/len(c.Masters); slot += used {
			if err := c.MoveSlot(t.Context(), slot, redistest.Move{From: c.Masters[from], To: c.Masters[to], During: func() {}}); err != nil {
				return err
			}
		}

		from, to = to, from

		return nil
	}
}
