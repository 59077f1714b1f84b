// Package redistest starts real Redis servers for tests: a cluster of three
// masters with a replica each, a master with its replica and three sentinels, or
// a server by itself, with TLS if wanted, on free ports of this machine, without
// anything on disk that outlives the test binary.
//
// Tests of one binary share a cluster, each under a prefix of its own; those
// that kill servers start their own. Whatever was started ends with the binary,
// even if that is killed.
package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/leaseway/leaseway/internal/proctest"
	"github.com/leaseway/leaseway/internal/store/redis/joined"
)

// Program is the server that is started, as Debian's package redis-server installs it.
const Program = "redis-server"

const startTimeout = time.Minute

// A Servers starts and stops servers. TestMain has one for the binary.
type Servers struct {
	once    sync.Once
	cluster *Cluster
	err     error
	stop    func()
	sites   atomic.Int64
}

// Shared returns the cluster that the tests of this binary share, started by the
// first that asks. It skips tb where there is no redis-server.
func (s *Servers) Shared(tb testing.TB) *Cluster {
	tb.Helper()
	Needs(tb)

	s.once.Do(func() {
		dir, err := os.MkdirTemp("", "leaseway-redis-") //nolint:usetesting // it is shared by all tests of the binary
		if err != nil {
			s.err = err

			return
		}

		s.cluster, s.err = start(dir)
		s.stop = func() {
			if s.cluster != nil {
				s.cluster.stop()
			}

			_ = os.RemoveAll(dir)
		}
	})

	if s.err != nil {
		tb.Fatal(s.err)
	}

	return s.cluster
}

// Prefix returns a prefix of keys that no other test has.
func (s *Servers) Prefix() string { return fmt.Sprintf("t%d:", s.sites.Add(1)) }

// Stop ends the shared cluster, if there is one. TestMain calls it after the tests.
func (s *Servers) Stop() {
	if s.stop != nil {
		s.stop()
	}
}

// Needs skips tb, with what to do about it, where redis-server is not installed.
func Needs(tb testing.TB) {
	tb.Helper()

	if _, err := exec.LookPath(Program); err != nil {
		tb.Skipf("%s is not installed: run `make redis` (or: apt-get install redis-server)", Program)
	}
}

// A Cluster is some servers that are one cluster.
type Cluster struct {
	Masters  []*Server // each with a third of the slots
	Replicas []*Server // of the masters, in the same order
}

// New starts a cluster for tb alone, which may do with its servers what it likes. After it killed one it says Notice.
func New(tb testing.TB) *Cluster {
	tb.Helper()
	Needs(tb)

	c, err := start(tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}

	tb.Cleanup(c.stop)

	return c
}

// Notice has the servers that are left notice a killed one after a second. Before that none of them takes another one for dead, however
// busy the machine is. No replica follows its master by itself, unless a test sets its cluster-replica-no-failover to no.
func (c *Cluster) Notice(tb testing.TB) {
	tb.Helper()

	if err := c.patience(tb.Context(), time.Second); err != nil {
		tb.Fatal(err)
	}
}

// patience is how long the servers that run let another one be silent before they take it for dead.
func (c *Cluster) patience(ctx context.Context, d time.Duration) error {
	for _, s := range c.servers() {
		if !s.runs() {
			continue
		}

		if err := s.Do(ctx, "CONFIG", "SET", "cluster-node-timeout", strconv.FormatInt(d.Milliseconds(), 10)); err != nil {
			return err
		}
	}

	return nil
}

// Addresses returns host:port of all servers.
func (c *Cluster) Addresses() (list []string) {
	for _, s := range c.servers() {
		list = append(list, s.Address)
	}

	return list
}

func (c *Cluster) servers() []*Server {
	return append(append([]*Server{}, c.Masters...), c.Replicas...)
}

func (c *Cluster) stop() {
	for _, s := range c.servers() {
		s.Kill()
	}
}

const masters = 3

// start starts a cluster whose servers work in directories below dir.
func start(dir string) (*Cluster, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()

	const servers = 2 * masters

	ports, err := proctest.FreePorts(servers * portsOfServer)
	if err != nil {
		return nil, err
	}

	c := &Cluster{}

	for i := range servers {
		s := at(ports[i*portsOfServer:], filepath.Join(dir, strconv.Itoa(i)))
		s.cluster = true

		if err := s.Start(ctx); err != nil {
			c.stop()

			return nil, err
		}

		if i < masters {
			c.Masters = append(c.Masters, s)
		} else {
			c.Replicas = append(c.Replicas, s)
		}
	}

	if err := c.join(ctx); err != nil {
		c.stop()

		return nil, fmt.Errorf("the servers did not become a cluster: %w", err)
	}

	if err := c.patience(ctx, 5*time.Second); err != nil { // only now, since they get to know each other sooner the other way
		c.stop()

		return nil, err
	}

	return c, nil
}

// join makes one cluster of the servers.
func (c *Cluster) join(ctx context.Context) error {
	all := c.servers()
	servers := make([]joined.Server, len(all))

	for i, s := range all {
		servers[i] = joined.Server{Port: strconv.Itoa(s.port), BusPort: strconv.Itoa(s.busPort), Ask: s.Ask}
	}

	return joined.Join(ctx, servers)
}

// client returns a client of the server at address alone.
func client(address string) (rueidis.Client, error) {
	return rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{address}, ForceSingleClient: true, DisableCache: true, DisableRetry: true,
		Dialer: net.Dialer{Timeout: time.Second},
	})
}
