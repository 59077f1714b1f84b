//go:build unix

package faults

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leaseway/leaseway"

	"github.com/leaseway/leaseway/internal/proctest"
)

// slowly refills so slowly that nothing comes back while a test runs.
const slowly = `
rules:
  - {id: r, keyBy: user, limit: 100, window: 12h, lease: {ttl: 1m}} # it outlives a restart, however long that takes
  - {id: full, keyBy: user, limit: 100, window: 12h, afterLoss: full, lease: {ttl: 1m}}
  - {id: window, keyBy: user, algorithm: fixed_window, limit: 100, window: 365d, lease: {ttl: 1m}}
`

// A coordinator that is killed has lost its counts: then every budget counts as used up at that moment, unless its rule
// says otherwise, and nobody gets twice what is theirs. One that stops in good order remembers.
func TestStoreLosesItsData(t *testing.T) {
	c := newCoordinator(t, slowly)
	l := dial(t, 1, []string{c.grpc}, leaseway.WithDeadline(unhurried))[0]
	others := 0

	// Each time for another key, since what is leased needs no coordinator.
	well := func() bool {
		others++

		return take(t, l, "r", "other-"+strconv.Itoa(others)).Origin == leaseway.OriginStore
	}

	for _, rule := range []string{"r", "full"} {
		if n, _ := times(t, l, 60, at{rule, "ada"}); n != 60 {
			t.Fatalf("%s: %d of 60 passed", rule, n)
		}
	}

	c.Finish(t)
	c.run(t)
	eventually(t, "it is well", well)

	if n, _ := times(t, l, 100, at{"r", "ada"}); n != 40 {
		t.Errorf("after a stop in good order %d more passed, want 40", n)
	}

	c.Kill()
	c.run(t)
	eventually(t, "it is well", well)

	for rule, want := range map[string]int{"r": 0, "full": 100} {
		if n, _ := times(t, l, 200, at{rule, "bob"}); n != want {
			t.Errorf("%s: after a crash %d passed, want %d", rule, n, want)
		}
	}

	// A window counts as used as far as it had gone: of this one, the year, it was this part.
	gone := float64(time.Now().UTC().Unix()%(365*86_400)) / (365 * 86_400)
	if n, _ := times(t, l, 200, at{"window", "bob"}); n > 101-int(gone*100) || n < 98-int(gone*100) {
		t.Errorf("window: after a crash %d passed, and %.0f %% of it had gone", n, gone*100)
	}
}

// Two coordinators with a memory store each would admit every limit twice. A holder takes from neither, and says why.
func TestHoldersRefuseToMixStores(t *testing.T) {
	a := newCoordinator(t, slowly)
	b := newCoordinator(t, slowly)
	log := &proctest.Transcript{}

	// Both sign with one key, or that would be refused first.
	b.Kill()
	b.args = append(b.args, "--signing-key-file", a.path("key"))
	b.run(t)

	fleet := dial(t, 4, []string{a.grpc, b.grpc}, leaseway.WithDeadline(unhurried), logTo(log))
	leased := 0

	for i := range 4 { // before they compare, each has heard one store only, which is no harm yet
		n, _ := times(t, fleet[i], 1, at{"r", strconv.Itoa(i)})
		leased += n
	}

	eventually(t, "they refuse", func() bool {
		for _, l := range fleet {
			n, _ := times(t, l, 1, at{"r", "probe"})
			leased += n
		}

		return degraded(fleet) && strings.Count(log.String(), "nothing is leased") == len(fleet)
	})

	for _, l := range fleet {
		if n, local := times(t, l, 100, at{"r", "ada"}); n != 0 || local == 0 || local > 80 {
			t.Errorf("%d passed with and %d without a coordinator, want none and a share of 80", n, local)
		}
	}

	for _, what := range []string{a.grpc, b.grpc, "different stores", "name only one of them"} {
		if !strings.Contains(log.String(), what) {
			t.Errorf("the log does not say %q:\n%s", what, log)
		}
	}

	// A holder that is a server of its own says it where its operator looks.
	addresses := proctest.FreeAddresses(t, 2)
	key := a.said("publicKey")[0]
	h := start(t, "program", "serve", "--coordinator", a.grpc+","+b.grpc, "--coordinator-key", key,
		"--listen", addresses[0], "--grpc-listen", addresses[1], "--data-dir", a.path("holder"), "--log-format", "json")

	eventually(t, "/readyz says it", func() bool {
		resp, err := http.Post("http://"+addresses[0]+"/v1/check", "application/json", strings.NewReader(`{"attributes": {"user": "eve"}}`))
		if err == nil {
			_ = resp.Body.Close()
		}

		resp, err = http.Get("http://" + addresses[0] + "/readyz")
		if err != nil {
			return false
		}
		defer resp.Body.Close()

		text, _ := io.ReadAll(resp.Body)

		return resp.StatusCode == http.StatusServiceUnavailable && strings.Contains(string(text), "different stores")
	})

	http.DefaultClient.CloseIdleConnections()
	h.Kill()

	// With one of them gone the rest is one store again.
	b.Kill()
	eventually(t, "they lease again", func() bool {
		for _, l := range fleet {
			times(t, l, 1, at{"r", "probe"})
		}

		return well(fleet)
	})
}
