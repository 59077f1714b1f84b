package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leaseway/leaseway/internal/store"
	"github.com/leaseway/leaseway/internal/store/redis/redistest"
)

// severalKeys returns so many keys, which are in slots of all nodes.
func severalKeys(count int) (keys []string) {
	for i := range count {
		keys = append(keys, fmt.Sprint("k", i))
	}

	return keys
}

// allTaken wants that each of the results is a token.
func allTaken(t *testing.T, results []store.Result) {
	t.Helper()

	for i := range results {
		if err := results[i].Err; err != nil || results[i].Answer.Taken != 1 {
			t.Fatalf("op %d: taken %d (%v)", i, results[i].Answer.Taken, err)
		}
	}
}

// calls returns how many functions the masters were called for.
func calls(t *testing.T, cluster *redistest.Cluster) (sum int) {
	t.Helper()

	for _, master := range cluster.Masters {
		info, err := master.Ask(t.Context(), "INFO", "commandstats")
		if err != nil {
			t.Fatal(err)
		}

		_, rest, _ := strings.Cut(info, "cmdstat_fcall:calls=")
		text, _, _ := strings.Cut(rest, ",")
		n, _ := strconv.Atoi(text) // none is 0

		sum += n
	}

	return sum
}

// All ops of a call leave as one command for each node, or as several of 32 ops.
func TestOpsOfANodeShareACommand(t *testing.T) {
	cluster := redistest.New(t)
	q := &taker{T: t, store: openAt(t, cluster.Addresses())}

	allTaken(t, q.takes(patient(t), hourly(10), severalKeys(6)...)) // which loads the functions

	for _, c := range []struct{ ops, least, most int }{{30, 3, 3}, {6 * mostTogether, 6, 9}} {
		before := calls(t, cluster)

		allTaken(t, q.takes(patient(t), hourly(10), severalKeys(c.ops)...))

		if n := calls(t, cluster) - before; n < c.least || n > c.most {
			t.Errorf("%d ops were %d commands, want %d to %d", c.ops, n, c.least, c.most)
		}
	}
}

// patient returns a context for a call that has far more time than a request's.
func patient(t *testing.T) context.Context {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)

	return ctx
}

// An op that fails has nothing to do with those that share its command, before it and behind it.
func TestAnOpFailsByItself(t *testing.T) {
	server := redistest.NewServer(t)
	s := openAt(t, []string{server.Address})
	q := &taker{T: t, store: s}
	at := s.names.place(store.Key{Rule: "r", Key: "k1"})

	if err := server.Do(t.Context(), "SET", at.held, "\x02"+strings.Repeat("x", 300), "PX", "60000"); err != nil {
		t.Fatal(err)
	}

	results := q.takes(patient(t), hourly(10), severalKeys(3)...)
	if err := results[1].Err; err == nil || !strings.Contains(err.Error(), "another version of Leaseway") {
		t.Errorf("what cannot be read was answered: %v", err)
	}

	allTaken(t, []store.Result{results[0], results[2]})
}

// A replica that takes over by hand costs no op of a call, though nobody has looked which node has which slots since.
func TestOpsFollowTheirMaster(t *testing.T) {
	cluster := redistest.New(t)
	q := &taker{T: t, store: openAt(t, cluster.Addresses())}
	keys := severalKeys(30)

	allTaken(t, q.takes(patient(t), hourly(10), keys...))

	replica := cluster.Replicas[1]
	if err := replica.Do(t.Context(), "CLUSTER", "FAILOVER"); err != nil {
		t.Fatal(err)
	}

	until(t, "the replica is a master, and the other one a replica", func() bool {
		for server, role := range map[*redistest.Server]string{replica: "role:master", cluster.Masters[1]: "role:slave"} {
			info, err := server.Ask(t.Context(), "INFO", "replication")
			if err != nil || !strings.Contains(info, role) {
				return false
			}
		}

		return true
	})

	again := q.store.Stats().Again

	allTaken(t, q.takes(patient(t), hourly(10), keys...))

	if q.store.Stats().Again == again {
		t.Error("the ops went to the new master at once: nothing was shown")
	}
}

// A node that refuses all ops of a command gets each by itself for a while: between it and us may be one that goes by the keys of a command.
func TestOpsGoApartWhereNoneIsAtHome(t *testing.T) {
	s := openAt(t, redistest.New(t).Addresses())
	q := &taker{T: t, store: s}
	keys := severalKeys(30)

	allTaken(t, q.takes(patient(t), hourly(10), keys...))

	nodes := s.layout.Load().nodes
	nodes[0].client.Store(nodes[1].client.Load())

	again := s.Stats().Again

	allTaken(t, q.takes(patient(t), hourly(10), keys...))

	if s.Stats().Again == again {
		t.Error("nothing was refused")
	}

	if now := s.elapsed(); nodes[0].several(now) != nil || nodes[1].several(now) == nil {
		t.Error("ops do not go apart where all were refused, or do where none was")
	}
}
