package redis

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"github.com/leaseway/leaseway/internal/proctest"
	"github.com/leaseway/leaseway/internal/store"
	"github.com/leaseway/leaseway/internal/store/redis/redistest"
)

// until calls f until it reports true.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()

	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()

	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()

	for !f() {
		select {
		case <-deadline.C:
			t.Fatalf("it did not come to be: %s", what)
		case <-tick.C:
		}
	}
}

// brief takes one token, or fails soon.
func (q *taker) brief(key string) (bool, error) {
	ctx, cancel := context.WithTimeout(q.Context(), 100*time.Millisecond)
	defer cancel()

	return q.take(ctx, key, hourly(100))
}

// load starts a server that reads a thousand keys in a second, and hears what it is asked meanwhile.
func load(ctx context.Context, server *redistest.Server) error {
	return server.Start(ctx, "--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024") // µs, bytes
}

// A server that comes back with its data refuses until it has read all of it. That is an outage, and then nothing is missing.
func TestLoading(t *testing.T) {
	server := redistest.NewServer(t)
	q := &taker{T: t, store: openAt(t, []string{server.Address})}

	q.drain("k", hourly(100), 10)

	if err := server.Do(t.Context(), "SAVE"); err != nil {
		t.Fatal(err)
	}

	server.Kill()

	started := make(chan error)

	go func() { started <- load(t.Context(), server) }()

	refused := ""

	until(t, "it says that it is loading", func() bool {
		ok, err := q.brief("k")
		if ok || err == nil {
			t.Fatal("it answered before it had said that it was loading")
		}

		refused = err.Error()

		return strings.Contains(refused, "LOADING")
	})

	if err := <-started; err != nil {
		t.Fatal(err)
	}

	more := 0

	until(t, "it answers", func() bool {
		ok, err := q.brief("k")
		if ok {
			more++
		}

		return err == nil
	})

	if more += q.drain("k", hourly(100), 100); more != 90 {
		t.Errorf("%d more, want the 90 that were left", more)
	}
}

// A cluster of which a part is gone refuses everything, unless it is told otherwise. That is an outage of all keys, and
// then those of the other parts have what they had.
func TestClusterIsDown(t *testing.T) {
	cluster := redistest.New(t)
	q := &taker{T: t, store: openAt(t, cluster.Addresses())}

	key := ""
	for i := 0; key == ""; i++ { // of a node that stays
		if _, master := q.store.names.slotOf(store.Key{Rule: "r", Key: strconv.Itoa(i)}); master == 0 {
			key = strconv.Itoa(i)
		}
	}

	q.drain(key, hourly(100), 10)
	cluster.Masters[2].Kill()
	cluster.Replicas[2].Kill()
	cluster.Notice(t)

	taken, unknown := 10, 0
	brief := func() error {
		ok, err := q.brief(key)

		switch {
		case ok:
			taken++
		case err != nil && !strings.Contains(err.Error(), "CLUSTERDOWN"): // no answer in time: it may have been done all the same
			unknown++
		}

		return err
	}

	until(t, "the cluster says that it is down", func() bool {
		err := brief()

		return err != nil && strings.Contains(err.Error(), "CLUSTERDOWN")
	})

	for _, s := range []*redistest.Server{cluster.Masters[2], cluster.Replicas[2]} {
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	until(t, "the cluster is well again", func() bool { return brief() == nil })

	if taken += q.drain(key, hourly(100), 100); taken > 100 || taken < 100-unknown {
		t.Errorf("%d of 100 were taken in all, and of %d it is not known", taken, unknown)
	}
}

var fcalls = regexp.MustCompile(`cmdstat_fcall:calls=(\d+)`)

// What was sent when a connection broke may have been done. It is not sent again: the server never runs more than was
// asked, and what is used is no less than was told and no more than was asked.
func TestNothingIsSentTwice(t *testing.T) {
	const asks = 300

	server := redistest.NewServer(t)
	way := toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()), t.Name(), proctest.FreeAddress(t), server.Address)

	if err := way.Start(); err != nil {
		t.Fatal(err)
	}
	defer way.Stop()

	q := &taker{T: t, store: openAt(t, []string{way.Listen})}
	q.drain("k", hourly(1000), 1) // which loads the functions

	if err := server.Do(t.Context(), "CONFIG", "RESETSTAT"); err != nil {
		t.Fatal(err)
	}

	// Each connection brings so many bytes of answers, and then breaks: in the midst of one, mostly.
	toxic := `{"name": "cut", "type": "limit_data", "stream": "downstream", "attributes": {"bytes": 700}}`
	if _, err := way.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
		t.Fatal(err)
	}

	told, failed := 0, 0

	for range asks {
		switch ok, err := q.take(t.Context(), "k", hourly(1000)); {
		case err != nil:
			failed++
		case ok:
			told++
		}
	}

	way.Toxics.ResetToxics(t.Context())

	info, err := server.Ask(t.Context(), "INFO", "commandstats")
	if err != nil {
		t.Fatal(err)
	}

	runs := 0
	if found := fcalls.FindStringSubmatch(info); found != nil {
		runs, _ = strconv.Atoi(found[1])
	}

	t.Logf("of %d asks %d were answered, and %d had no answer; the server ran %d", asks, told, failed, runs)

	if failed < asks/30 || told < asks/30 {
		t.Errorf("the connections broke too seldom or too often to say something: %d answers, %d without", told, failed)
	}

	if runs < told || runs > asks {
		t.Errorf("the server ran %d, of %d that were asked and %d that were answered", runs, asks, told)
	}

	until(t, "it can be reached", func() bool {
		_, err := q.brief("other")

		return err == nil
	})

	if used := 999 - int(available(t, q.store, "k", hourly(1000))); used != runs {
		t.Errorf("%d are used, and the server ran %d", used, runs)
	}
}

// A failover that somebody asks for loses nothing: the replica takes over when it has all that its master had.
func TestManualFailover(t *testing.T) {
	cluster := redistest.New(t)
	q := &taker{T: t, store: openAt(t, cluster.Addresses())}

	var keys []string
	for i := range 12 {
		keys = append(keys, fmt.Sprint("k", i))
	}

	taken := map[string]int{}
	some := func(n int) (failed int) {
		for range n {
			for _, key := range keys {
				switch ok, err := q.brief(key); {
				case err != nil:
					failed++
				case ok:
					taken[key]++
				}
			}
		}

		return failed
	}

	some(5)

	failed := 0

	for i, replica := range cluster.Replicas {
		if err := replica.Do(t.Context(), "CLUSTER", "FAILOVER"); err != nil {
			t.Fatal(err)
		}

		until(t, "the replica is the master", func() bool {
			failed += some(1)

			info, err := replica.Ask(t.Context(), "INFO", "replication")

			return err == nil && strings.Contains(info, "role:master")
		})

		t.Logf("node %d: %d asks without an answer so far", i, failed)
	}

	until(t, "all keys are served", func() bool { return some(1) == 0 })

	for _, key := range keys {
		// Of those without an answer some were done.
		if got := taken[key] + q.drain(key, hourly(100), 100); got > 100 || got < 100-failed {
			t.Errorf("%s: %d of 100 were taken in all", key, got)
		}
	}
}
