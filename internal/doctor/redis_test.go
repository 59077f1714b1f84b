package doctor

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leaseway/leaseway/internal/store/redis"
	"github.com/leaseway/leaseway/internal/store/redis/redistest"
)

func TestMain(m *testing.M) {
	code := m.Run()

	if code == 0 {
		if err := goleak.Find(redistest.DriverNaps()...); err != nil {
			fmt.Fprintln(os.Stderr, err)

			code = 1
		}
	}

	os.Exit(code)
}

func at(addresses ...string) *redis.Config {
	return &redis.Config{Addresses: addresses, DialTimeout: time.Second, DeadAfter: time.Second}
}

// look looks at a Redis for a few seconds.
func look(t *testing.T, config *redis.Config) []Finding {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()

	findings, _ := Redis(ctx, config)

	for _, f := range findings {
		if (f.Fix == "") != (f.State == OK) || f.Says == "" {
			t.Errorf("a finding must say what to do, unless all is well: %+v", f)
		}
	}

	return findings
}

// expect wants a finding like want, with its text somewhere.
func expect(t *testing.T, findings []Finding, want Finding) {
	t.Helper()

	if !slices.ContainsFunc(findings, func(f Finding) bool {
		return f.State == want.State && f.Check == want.Check && strings.Contains(f.Says, want.Says)
	}) {
		t.Errorf("no %s of %s with %q in %+v", want.State, want.Check, want.Says, findings)
	}
}

func command(t *testing.T, s *redistest.Server, words ...string) {
	t.Helper()

	if err := s.Do(t.Context(), words...); err != nil {
		t.Fatal(err)
	}
}

// until waits until something is so.
func until(t *testing.T, what string, so func() bool) {
	t.Helper()

	for began := time.Now(); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > 20*time.Second {
			t.Fatalf("it did not come: %s", what)
		}
	}
}

// says reports whether a server's answer has a text in it.
func says(t *testing.T, s *redistest.Server, text string, words ...string) func() bool {
	t.Helper()

	return func() bool {
		answer, err := s.Ask(t.Context(), words...)
		if err != nil {
			t.Fatal(err)
		}

		return strings.Contains(answer, text)
	}
}

// idKey is the name of the key that says whose data there is.
func idKey(t *testing.T, s *redistest.Server) string {
	t.Helper()

	name, err := s.Ask(t.Context(), "EVAL", "return redis.call('KEYS', 'rl:*id')[1]", "0")
	if err != nil {
		t.Fatal(err)
	}

	return name
}

// begin has a coordinator's store begin its data at a server.
func begin(t *testing.T, config *redis.Config) *redis.Store {
	t.Helper()

	s, err := redis.New(t.Context(), *config)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = s.Close(context.Background()) })

	if _, err := s.Beat(t.Context(), []uint64{1}, time.Minute); err != nil { // which loads the functions
		t.Fatal(err)
	}

	return s
}

// A server that is as it should be, but for having no replica.
func TestHealthy(t *testing.T) {
	server := redistest.NewServer(t)
	command(t, server, "CONFIG", "SET", "appendonly", "yes")
	expect(t, look(t, at(server.Address)), Finding{State: OK, Check: checkData, Says: "none yet"})

	s := begin(t, at(server.Address))
	findings := look(t, at(server.Address))

	for _, f := range findings {
		if f.State != OK && f.Check != checkReplicas {
			t.Errorf("%+v", f)
		}
	}

	expect(t, findings, Finding{State: Warn, Check: checkReplicas, Says: "no replica"})
	expect(t, findings, Finding{State: OK, Check: checkData, Says: fmt.Sprintf("%016x, complete, begun ", s.ID())})
	expect(t, findings, Finding{State: OK, Check: checkData, Says: "; 1 live holder"})
	expect(t, findings, Finding{State: OK, Check: checkFunctions, Says: "on every master"})

	if Worst(findings) != Warn {
		t.Errorf("the worst is %s", Worst(findings))
	}
}

// Each fault of a server that answers, made and found.
func TestFaultsOfAServer(t *testing.T) {
	for name, test := range map[string]struct {
		make  func(t *testing.T, s *redistest.Server)
		state State
		check string
		says  string
	}{
		"it evicts": {func(t *testing.T, s *redistest.Server) {
			t.Helper()
			command(t, s, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru", "maxmemory", "100mb")
		}, Bad, checkMemory, "allkeys-lru"},
		"it would evict": {func(t *testing.T, s *redistest.Server) {
			t.Helper()
			command(t, s, "CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
		}, Warn, checkMemory, "volatile-ttl"},
		"it is full": {func(t *testing.T, s *redistest.Server) {
			t.Helper()
			command(t, s, "CONFIG", "SET", "maxmemory", "1mb")
		}, Bad, checkMemory, "of maxmemory is in use"},
		"its functions are gone": {func(t *testing.T, s *redistest.Server) {
			t.Helper()
			command(t, s, "FUNCTION", "FLUSH")
		}, Warn, checkFunctions, "does not know the functions"},
		"functions of another version": {func(t *testing.T, s *redistest.Server) {
			t.Helper()
			command(t, s, "FUNCTION", "LOAD", "#!lua name=leaseway_000000000000\nredis.register_function('x', function() end)")
		}, Warn, checkFunctions, "leaseway_000000000000"},
		"its data is gone": {func(t *testing.T, s *redistest.Server) {
			t.Helper()
			command(t, s, "FLUSHALL")
			begin(t, at(s.Address))
			command(t, s, "DEL", idKey(t, s))
		}, Warn, checkData, "whose data it is was lost"},
		"parts of its data are gone": {func(t *testing.T, s *redistest.Server) {
			t.Helper()
			command(t, s, "DEL", strings.TrimSuffix(idKey(t, s), "id"))
		}, Warn, checkData, "1 of 1024 parts lost their data"},
		"it is a replica of nobody": {func(t *testing.T, s *redistest.Server) {
			t.Helper()
			command(t, s, "REPLICAOF", "127.0.0.1", "1")
		}, Bad, checkReplicas, "does not hear its master"},
		"no master is left": {func(t *testing.T, s *redistest.Server) {
			t.Helper()
			command(t, s, "REPLICAOF", "127.0.0.1", "1")
		}, Bad, checkConnection, "no node is a master"},
		"it wants more replicas": {func(t *testing.T, s *redistest.Server) {
			t.Helper()
			command(t, s, "CONFIG", "SET", "min-replicas-to-write", "1")
		}, Bad, checkReplicas, "min-replicas-to-write is 1"},
		"nothing is on its disk": {func(*testing.T, *redistest.Server) {}, OK, checkPersistence, "nothing is on the disk of 1 master"},
		"snapshots are on its disk": {func(t *testing.T, s *redistest.Server) {
			t.Helper()
			command(t, s, "CONFIG", "SET", "save", "3600 1")
		}, Warn, checkPersistence, "only snapshots"},
		"its snapshots fail": {func(t *testing.T, s *redistest.Server) {
			t.Helper()
			command(t, s, "CONFIG", "SET", "save", "3600 1")

			if err := os.RemoveAll(s.Dir); err != nil {
				t.Fatal(err)
			}

			command(t, s, "BGSAVE")

			until(t, "the snapshot fails", says(t, s, "rdb_last_bgsave_status:err", "INFO", "persistence"))
		}, Bad, checkPersistence, "MISCONF"},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.NewServer(t)
			begin(t, at(server.Address))
			test.make(t, server)
			expect(t, look(t, at(server.Address)), Finding{State: test.state, Check: test.check, Says: test.says})
		})
	}
}

// A Redis that cannot be used is one finding, which says why.
func TestNoConnection(t *testing.T) {
	certs := redistest.NewCertificates(t)
	locked, encrypted := redistest.NewTLSServer(t, certs)
	plain := redistest.NewServer(t)
	_, wary := redistest.NewTLSServer(t, certs, "--tls-auth-clients", "yes")
	trusting := func() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: certs.Pool} }

	command(t, locked, "ACL", "SETUSER", "app", "on", ">secret", "+ping")
	command(t, locked, "CONFIG", "SET", "requirepass", "secret")

	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	_ = gone.Close()

	with := func(c *redis.Config, change func(*redis.Config)) *redis.Config {
		change(c)

		return c
	}

	for says, config := range map[string]*redis.Config{
		"nothing listens there":   at(gone.Addr().String()),
		"it wants a password":     at(locked.Address),
		"user with this password": with(at(locked.Address), func(c *redis.Config) { c.Password = "guess" }),
		"NOPERM":                  with(at(locked.Address), func(c *redis.Config) { c.Username, c.Password = "app", "secret" }),
		"one does that wants TLS": at(encrypted),
		"does not speak TLS":      with(at(locked.Address), func(c *redis.Config) { c.TLS = trusting }),
		"nobody that is trusted":  with(at(encrypted), func(c *redis.Config) { c.TLS = func() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS12} } }),
		"it is no sentinel":       with(at(plain.Address), func(c *redis.Config) { c.Sentinel = &redis.Sentinel{Master: "main"} }),
		"wants a certificate":     with(at(wary), func(c *redis.Config) { c.TLS = trusting }),
	} {
		t.Run(says, func(t *testing.T) {
			findings := look(t, config)
			if len(findings) == 0 || findings[0].State != Bad || !strings.Contains(fmt.Sprint(findings), says) {
				t.Errorf("%+v", findings)
			}
		})
	}
}

// A cluster that lost a master and its replica is not complete, and says which nodes are gone.
func TestClusterIsIncomplete(t *testing.T) {
	cluster := redistest.New(t)
	config := at(cluster.Addresses()...)
	begin(t, config)

	var findings []Finding

	until(t, "the cluster tells of replicas that have heard something", func() bool {
		findings = look(t, config)

		return strings.Contains(fmt.Sprint(findings), "3 masters and 3 replicas, a cluster")
	})
	expect(t, findings, Finding{State: Warn, Check: checkCluster, Says: "when one master dies, all keys have an outage"})

	for _, s := range append(slices.Clone(cluster.Masters), cluster.Replicas...) {
		command(t, s, "CONFIG", "SET", "cluster-require-full-coverage", "no")
	}

	expect(t, look(t, config), Finding{State: OK, Check: checkCluster, Says: "all slots are served, by 3 nodes"})

	for _, s := range append(slices.Clone(cluster.Masters), cluster.Replicas...) {
		command(t, s, "CONFIG", "SET", "cluster-require-full-coverage", "yes")
	}
	expect(t, findings, Finding{State: OK, Check: checkReplicas, Says: "1 at each master"})

	cluster.Masters[1].Kill()
	cluster.Replicas[1].Kill()
	cluster.Notice(t)

	until(t, "the others notice", says(t, cluster.Masters[0], "cluster_state:fail", "CLUSTER", "INFO"))

	findings = look(t, config)
	if Worst(findings) != Bad || !strings.Contains(fmt.Sprint(findings), cluster.Masters[1].Address) && !strings.Contains(fmt.Sprint(findings), "cluster") {
		t.Errorf("%+v", findings)
	}
}

// Of a master that only cannot be reached it is not said that its data was lost, and neither of the others.
func TestAMasterOutOfReachHasLostNothing(t *testing.T) {
	cluster := redistest.New(t)
	config := at(cluster.Addresses()...)
	begin(t, config)

	for _, s := range slices.Concat(cluster.Masters, cluster.Replicas) {
		command(t, s, "CONFIG", "SET", "cluster-require-full-coverage", "no")
	}

	cluster.Replicas[1].Kill()
	cluster.Masters[1].Kill()
	cluster.Notice(t)
	until(t, "the others notice", says(t, cluster.Masters[0], "cluster_slots_fail:5461", "CLUSTER", "INFO"))

	findings := look(t, config)
	expect(t, findings, Finding{State: Bad, Check: checkConnection, Says: "it does not answer"})
	expect(t, findings, Finding{State: Bad, Check: checkData, Says: "cannot be told, since 341 of 1024 parts cannot be read"})

	if text := fmt.Sprint(findings); strings.Contains(text, "lost their data") || strings.Contains(text, "was lost") {
		t.Errorf("a master cannot be reached, and it says that data was lost: %+v", findings)
	}
}

// What no test can do to a real server is judged as a server would tell it.
func TestJudgements(t *testing.T) {
	node := func(change func(*redis.Node)) *redis.Survey {
		n := redis.Node{
			Address: "10.0.0.1:6379", Latency: time.Millisecond, Libraries: []string{"leaseway_x"},
			Info: map[string]string{"role": "master", "redis_version": "7.2.4", "maxmemory_policy": "noeviction", "connected_slaves": "1"},
		}
		other := n
		other.Address = "10.0.0.2:6379"
		change(&n)

		return &redis.Survey{Mode: redis.ModeSingle, Library: "leaseway_x", Nodes: []redis.Node{n, other}, Data: redis.Data{ID: 1, Marks: 1024}}
	}
	with := func(field, value string) func(*redis.Node) {
		return func(n *redis.Node) { n.Info = cloned(n.Info, field, value) }
	}

	for says, test := range map[string]struct {
		survey *redis.Survey
		state  State
		check  string
	}{
		"it answers in 6ms":  {node(func(n *redis.Node) { n.Latency = 6 * time.Millisecond }), Warn, checkLatency},
		"it answers in 20ms": {node(func(n *redis.Node) { n.Latency = 20 * time.Millisecond }), Bad, checkLatency},
		"ahead of 10.0.0.2":  {node(func(n *redis.Node) { n.Ahead = 3 * time.Second }), Warn, checkClock},
		"ahead of 10.0.0.1":  {node(func(n *redis.Node) { n.Ahead = -3 * time.Second }), Warn, checkClock},
		"Redis 6.2.1":        {node(with("redis_version", "6.2.1")), Bad, checkVersion},
		"untested":           {node(with("server_name", "valkey")), Warn, checkVersion},
		"reading its data":   {node(with("loading", "1")), Bad, checkConnection},
		"not encrypted":      {node(func(*redis.Node) {}), Warn, checkEncryption},
		"may not list":       {node(func(n *redis.Node) { n.Libraries = nil }), Warn, checkFunctions},
		"does not answer":    {node(func(n *redis.Node) { n.Err = context.DeadlineExceeded }), Bad, checkConnection},
		"append-only file": {node(func(n *redis.Node) {
			n.Info = cloned(cloned(n.Info, "aof_enabled", "1"), "aof_last_write_status", "err")
		}), Bad, checkPersistence},
		"7 of 1024 parts cannot be read": {unread(node(func(*redis.Node) {}), 7), Bad, checkData},
		"lost their data":                {lossy(node(func(*redis.Node) {}), 7, 0), Warn, checkData},
		"last at 2026":                   {lossy(node(func(*redis.Node) {}), 0, 7), Warn, checkData},
		"cluster is \"fail\"":            {clustered(node(func(*redis.Node) {}), "fail"), Bad, checkCluster},
		"16000 of 16384":                 {clustered(node(func(*redis.Node) {}), "ok"), Bad, checkCluster},
	} {
		expect(t, judge(test.survey), Finding{State: test.state, Check: test.check, Says: says})
	}
}

// cloned is fields with one of them set.
func cloned(fields map[string]string, pairs ...string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, fields)

	for i := 0; i < len(pairs); i += 2 {
		all[pairs[i]] = pairs[i+1]
	}

	return all
}

func lossy(v *redis.Survey, missing, lost int) *redis.Survey {
	v.Data.Missing, v.Data.Lost, v.Data.LastLoss = missing, lost, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

	return v
}

func unread(v *redis.Survey, parts int) *redis.Survey {
	v.Data.Unread, v.Data.Err = parts, context.DeadlineExceeded

	return v
}

func clustered(v *redis.Survey, state string) *redis.Survey {
	v.Mode = redis.ModeCluster
	v.Cluster = map[string]string{"cluster_state": state, "cluster_slots_ok": strconv.Itoa(16000)}

	return v
}

// Sentinels say whether they could fail over, and one that is gone is named.
func TestSentinels(t *testing.T) {
	group := redistest.NewSentinels(t)
	config := at(group.Addresses()...)
	config.Sentinel = &redis.Sentinel{Master: redistest.MasterName}

	begin(t, config)

	findings := look(t, config)
	expect(t, findings, Finding{State: OK, Check: checkSentinels, Says: "3 sentinels, who agree"})
	expect(t, findings, Finding{State: OK, Check: checkConnection, Says: "1 master and 0 replicas, a master behind sentinels"})
	expect(t, findings, Finding{State: OK, Check: checkReplicas, Says: "1 at each master"})

	config.Addresses = config.Addresses[:1]
	expect(t, look(t, config), Finding{State: Warn, Check: checkSentinels, Says: "1 sentinel named"})

	config.Sentinel.Master = "other"
	expect(t, look(t, config), Finding{State: Bad, Check: checkConnection, Says: "no master of that name"})

	config.Addresses, config.Sentinel.Master = group.Addresses(), redistest.MasterName
	group.Sentinels[2].Kill()

	findings = look(t, config)
	expect(t, findings, Finding{State: Bad, Check: checkSentinels, Says: "no failover can come from it"})
}
