//go:build unix

package faults

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/store/redis/redistest"
)

// overRedis starts n coordinators that count in one cluster, and returns where they are.
func overRedis(t *testing.T, rules string, cluster *redistest.Cluster, n int) (coordinators []*program, addresses []string) {
	t.Helper()

	prefix := redisServers.Prefix()

	for i := range n {
		args := []string{"--store", "redis://" + strings.Join(cluster.Addresses(), ","), "--store-prefix", prefix}
		if i > 0 { // all sign with one key
			args = append(args, "--signing-key-file", coordinators[0].path("key"))
		}

		c := newCoordinator(t, rules, args...)
		coordinators, addresses = append(coordinators, c), append(addresses, c.grpc)
	}

	return coordinators, addresses
}

// Several coordinators over one cluster are one: a limit holds exactly over all
// of them, whichever of them a holder asks, and all of it is to be had.
func TestCoordinatorsShareRedis(t *testing.T) {
	const limit, holders = 300, 20

	// What a holder gives back too late is lost, and comes again in hours: a machine that has other things to do gets more time.
	_, addresses := overRedis(t, `
rules:
  - {id: small, keyBy: user, limit: 10, window: 12h}
  - {id: large, keyBy: user, limit: 300, window: 12h, lease: {ttl: 4s}}
  - {id: fixed, keyBy: user, algorithm: fixed_window, limit: 300, window: 365d, lease: {ttl: 4s}}
  - {id: log, keyBy: user, algorithm: sliding_log, limit: 20, window: 12h}
`, redisServers.Shared(t), 3)

	var fleet []*leaseway.Limiter
	for i := range holders { // each begins with another one
		fleet = append(fleet, dial(t, 1, addresses[i%3:i%3+1], leaseway.WithDeadline(unhurried))...)
	}

	for rule, want := range map[string]int{"small": 10, "log": 20} {
		sum := 0

		for _, l := range fleet {
			n, _ := times(t, l, 15, at{rule, "ada"})
			sum += n
		}

		if sum != want {
			t.Errorf("%s: %d holders of 3 coordinators admitted %d, want %d", rule, holders, sum, want)
		}
	}

	for _, rule := range []string{"large", "fixed"} {
		sum := 0

		// What one holder has and does not need goes back before another one gets it.
		eventually(t, rule+": all of the limit is admitted", func() bool {
			for _, l := range fleet {
				n, local := times(t, l, 3, at{rule, "ada"})
				sum += n

				if local > 0 {
					t.Fatalf("%s: %d were admitted without the store", rule, local)
				}
			}

			return sum >= limit
		})

		for range 20 {
			for _, l := range fleet {
				n, _ := times(t, l, 1, at{rule, "ada"})
				sum += n
			}
		}

		if sum != limit {
			t.Errorf("%s: %d holders of 3 coordinators admitted %d, want %d", rule, holders, sum, limit)
		}
	}
}

// A coordinator that goes takes nothing with it: another one knows all that it knew.
func TestCoordinatorOverRedisKilled(t *testing.T) {
	coordinators, addresses := overRedis(t, slowly, redisServers.Shared(t), 2)
	l := dial(t, 1, addresses, leaseway.WithDeadline(unhurried))[0]

	if n, _ := times(t, l, 60, at{"r", "ada"}); n != 60 {
		t.Fatalf("%d of 60 passed", n)
	}

	coordinators[0].Kill()

	n, local := 0, 0

	eventually(t, "the rest is admitted", func() bool {
		more, byItself := times(t, l, 5, at{"r", "ada"})
		n, local = n+more, local+byItself

		return n >= 40
	})

	if more, _ := times(t, l, 50, at{"r", "ada"}); n+more != 40 || local != 0 {
		t.Errorf("with the other coordinator %d passed, and %d without any; want the 40 that were left", n+more, local)
	}
}

// Coordinators that read the same file number it alike: a holder that turns from one to another, all day long, never has an
// outage, and whoever starts again has the number that it had.
func TestCoordinatorsOfAFileNumberAlike(t *testing.T) {
	const rules = `rules: [{id: r, keyBy: user, limit: 100, window: 12h, lease: {ttl: 1m}}]`

	coordinators, addresses := overRedis(t, rules, redisServers.Shared(t), 3)
	version := func(c *program) string {
		v := c.metric(t, "leaseway_rules_version")
		if v == "" || v == "0" {
			t.Fatalf("a coordinator has version %q", v)
		}

		return v
	}
	alike := func() bool {
		return version(coordinators[0]) == version(coordinators[1]) && version(coordinators[0]) == version(coordinators[2])
	}

	if !alike() {
		t.Errorf("they number %s, %s and %s", version(coordinators[0]), version(coordinators[1]), version(coordinators[2]))
	}

	l := dial(t, 1, addresses, leaseway.WithDeadline(unhurried))[0]

	for i, c := range coordinators {
		before := version(c)

		c.Finish(t) // whichever the holder has, it has another one then

		if n, local := times(t, l, 20, at{"r", "user-" + strconv.Itoa(i)}); n != 20 || local != 0 {
			t.Errorf("after coordinator %d stopped %d of 20 passed, %d of them without any", i, n, local)
		}

		c.run(t)

		if now := version(c); now != before {
			t.Errorf("coordinator %d numbered %s, and %s when it came back", i, before, now)
		}
	}

	for i, c := range coordinators { // a new file reaches them one after the other
		write(t, c.path("rules.yaml"), strings.Replace(rules, "100", "200", 1))

		if n, local := times(t, l, 20, at{"r", "later-" + strconv.Itoa(i)}); n != 20 || local != 0 {
			t.Errorf("while the file changed %d of 20 passed, %d of them without a coordinator", n, local)
		}
	}

	eventually(t, "they number the new file alike", alike)
}

// A master is killed under load. Its replica takes over what it has heard of, and
// what it has not is the only excess: at most what was granted in the time that was lost.
func TestRedisMasterKilled(t *testing.T) {
	const (
		limit = 200.0 // a second, and the burst
		lost  = 1.0   // s: far more than a replica on this machine is behind
		keys  = 6
	)

	cluster := redistest.New(t)
	_, addresses := overRedis(t, `
rules:
  - {id: r, keyBy: user, limit: 200, window: 1s, onUnavailable: deny}
`, cluster, 2)
	fleet := dial(t, 3, addresses)

	var all []*traffic
	for i := range keys { // over all masters
		all = append(all, send(t, fleet, load{rule: "r", key: "user-" + strconv.Itoa(i)}))
	}

	for _, tr := range all {
		tr.sees(t, leaseway.OriginLease, 200)
	}

	began := time.Now()

	if err := cluster.Replicas[0].Do(t.Context(), "CONFIG", "SET", "cluster-replica-no-failover", "no"); err != nil {
		t.Fatal(err)
	}

	cluster.Masters[0].Kill()
	cluster.Notice(t)
	eventually(t, "its replica is a master", func() bool {
		role, err := cluster.Replicas[0].Ask(t.Context(), "INFO", "replication")

		return err == nil && strings.Contains(role, "role:master")
	})

	promoted := time.Now()

	for _, tr := range all {
		tr.sees(t, leaseway.OriginLease, 10)
	}

	t.Logf("the replica took over after %v; all keys were leased %v later", promoted.Sub(began), time.Since(promoted))

	for _, tr := range all { // what comes after it must not be too much either
		tr.sees(t, leaseway.OriginLease, 200)
	}

	for i, tr := range all {
		tr.stop()

		if over := excess(tr.of(leaseway.OriginLease, leaseway.OriginStore), limit, limit); over > limit+limit*lost {
			t.Errorf("key %d: %.0f more were admitted than the bound; a failover may cost %.0f", i, over, limit+limit*lost)
		} else {
			t.Logf("key %d: the worst window was %.0f beside its bound", i, over)
		}
	}
}

// Redis loses everything while no coordinator runs. One that comes back knows from its own disk that there was data, so that
// nobody has a full budget again, unless the rule says so.
func TestRedisForgetsWhileNobodyLooks(t *testing.T) {
	server := redistest.NewServer(t)
	c := newCoordinator(t, slowly, "--store", "redis://"+server.Address)
	l := dial(t, 1, []string{c.grpc}, leaseway.WithDeadline(unhurried))[0]

	if n, _ := times(t, l, 60, at{"r", "ada"}); n != 60 {
		t.Fatalf("%d of 60 passed", n)
	}

	c.Finish(t)

	if err := server.Do(t.Context(), "FLUSHALL"); err != nil {
		t.Fatal(err)
	}

	c.run(t)

	others := 0

	eventually(t, "it is well", func() bool {
		others++ // each time another key, since what is leased needs no coordinator

		return take(t, l, "r", "other-"+strconv.Itoa(others)).Origin == leaseway.OriginStore
	})

	for rule, want := range map[string]int{"r": 0, "full": 100} {
		if n, _ := times(t, l, 200, at{rule, "bob"}); n != want {
			t.Errorf("%s: after the loss %d passed, want %d", rule, n, want)
		}
	}

	if !strings.Contains(c.Log.String(), "has lost the data") {
		t.Errorf("nothing was said of it:\n%s", c.Log)
	}
}

// A coordinator over TLS, as a user with the least rights and with a certificate of its own; and one behind sentinels.
func TestCoordinatorOverGuardedRedis(t *testing.T) {
	certs := redistest.NewCertificates(t)
	server, address := redistest.NewTLSServer(t, certs, "--tls-auth-clients", "yes")
	sentinels := redistest.NewSentinels(t)
	password := filepath.Join(t.TempDir(), "password")

	write(t, password, "s3cret\n")

	if err := server.Do(t.Context(), "ACL", "SETUSER", "app", "on", ">s3cret", "~rl:*", "+@all"); err != nil {
		t.Fatal(err)
	}

	for name, args := range map[string][]string{
		"TLS": {
			"--store", "rediss://app@" + address, "--store-password-file", password, "--store-ca", certs.CA,
			"--store-cert", certs.ClientCert, "--store-key", certs.ClientKey,
		},
		"sentinels": {"--store", "redis+sentinel://" + strings.Join(sentinels.Addresses(), ",") + "/" + redistest.MasterName},
	} {
		c := newCoordinator(t, slowly, args...)
		l := dial(t, 1, []string{c.grpc}, leaseway.WithDeadline(unhurried))[0]

		if n, local := times(t, l, 120, at{"r", "ada"}); n != 100 || local != 0 {
			t.Errorf("%s: %d of 100 passed, %d of them without Redis", name, n, local)
		}

		if strings.Contains(c.Log.String(), "s3cret") {
			t.Errorf("%s: the password is in the log", name)
		}
	}
}
