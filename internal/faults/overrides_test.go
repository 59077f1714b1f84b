//go:build unix && linux

package faults

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/rulestore/postgres/postgrestest"
)

var overrides = flag.Int("overrides", 5_000, "how many overrides TestManyOverridesAreImportedWhileServing imports")

// What a program with that many overrides may hold more than before: much less than they are themselves.
const (
	importRoom   = 192 << 20 // bytes, whatever the number
	importedRate = 1_000     // what the rule gives every key, tokens a second
	importedMore = 5_000     // and what an override does
	mostAtOnce   = 100_000   // overrides beside which other writes are never refused
)

// Overrides are imported by the command, into a server that decides meanwhile. They are in force in one moment, a decision takes
// as long as before, and the server's memory does not grow with their number.
//
//	go test ./internal/faults -run TestManyOverrides -v -args -overrides 1000000
func TestManyOverridesAreImportedWhileServing(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { importWhileServing(t, "sqlite:"+filepath.Join(t.TempDir(), "rules.db")) })
	t.Run("postgres", func(t *testing.T) { importWhileServing(t, postgrestest.New(t).Database(t)) })
}

func importWhileServing(t *testing.T, ruleStore string) {
	t.Helper()

	c := newStored(t, ruleStore, fmt.Sprintf("rules:\n  - {id: r, keyBy: user, limit: %d, window: 1s}\n", importedRate))
	holder := dial(t, 1, []string{c.grpc}, leaseway.WithDeadline(unhurried))[0]
	rows := filepath.Join(t.TempDir(), "contracts.csv")
	writeContracts(t, rows, *overrides)

	decide := &decisions{began: time.Now()}
	decide.begin(t, holder)

	before, memory := decide.during(t, "before", 3*time.Second), c.memory(t)

	began := time.Now()
	others := c.writeMeanwhile(t)
	said := c.command(t, "overrides", "import", "-f", rows, "--rule", "r", "--server", c.http)
	took := time.Since(began)
	waited := others()
	while := decide.since("while", began)
	peak := c.memory(t)

	if want := fmt.Sprintf("%d overrides", *overrides); !strings.Contains(said, want) {
		t.Fatalf("the import says %q, want %q", said, want)
	}

	c.inForce(t, holder)

	after := decide.during(t, "after", 3*time.Second)
	looked := c.lookups(t, 200)
	last := c.memory(t)

	t.Logf("%d overrides in %v (%.0f a second); the server holds %d MiB before, %d after, at most %d",
		*overrides, took.Round(time.Millisecond), float64(*overrides)/took.Seconds(), memory.now>>20, last.now>>20, last.most>>20)
	t.Logf("one looked up over HTTP: %v (median), %v (99 %%)", looked.at(50), looked.at(99))
	t.Logf("a kill switch thrown meanwhile: %v (median), %v (the slowest of %d)", waited.at(50), waited.at(100), len(waited))

	for _, p := range []*phase{before, while, after} {
		t.Logf("%-7s %s", p.name, p)

		if p.degraded > 0 {
			t.Errorf("%s: %d decisions were made without the coordinator", p.name, p.degraded)
		}
	}

	if grown := peak.most - memory.now; grown > importRoom {
		t.Errorf("the import took %d MiB more, at most %d are for it", grown>>20, importRoom>>20)
	}
}

// newStored starts a program over a rule store, which begins with these rules.
func newStored(t *testing.T, ruleStore, rules string) *program {
	t.Helper()

	c := newProgram(t)
	write(t, c.path("rules.yaml"), rules)

	c.args = []string{
		"serve", "--rule-store", ruleStore, "--rules-seed", c.path("rules.yaml"), "--listen", c.http, "--grpc-listen", c.grpc,
		"--data-dir", c.path("data"), "--log-format", "json",
	}
	c.run(t)

	return c
}

// command runs another command of the program to its end, and returns what it said.
func (c *program) command(t *testing.T, args ...string) string {
	t.Helper()

	p := start(t, "program", args...)
	<-p.Ended

	if code := p.ExitCode(); code != 0 {
		t.Fatalf("%s: exit status %d\n%s", strings.Join(args, " "), code, p.Log)
	}

	return p.Log.String()
}

// writeContracts writes overrides as a file has them.
func writeContracts(t *testing.T, path string, n int) {
	t.Helper()

	var text bytes.Buffer

	text.WriteString("key,limit,note\n")

	for i := range n {
		fmt.Fprintf(&text, "customer-%d,%d,contract %d\n", i, importedMore, i)
	}

	write(t, path, text.String())
}

// inForce waits until keys that the fleet knew before have what was imported.
func (c *program) inForce(t *testing.T, holder *leaseway.Limiter) {
	t.Helper()

	r, err := holder.Rule("r")
	if err != nil {
		t.Fatal(err)
	}

	for _, i := range []int{0, *overrides / 2, *overrides - 1} {
		began := time.Now()

		eventually(t, "an override is in force", func() bool { return r.Take(fmt.Sprint("customer-", i)).Limit == importedMore })
		t.Logf("customer-%d has its limit %v after the import", i, time.Since(began).Round(time.Millisecond))
	}
}

// residence is the memory of a process, in bytes.
type residence struct{ now, most int }

func (c *program) memory(t *testing.T) (r residence) {
	t.Helper()

	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.PID()))
	if err != nil {
		t.Fatal(err)
	}

	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		kib, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))

		switch name {
		case "VmRSS":
			r.now = kib << 10
		case "VmHWM":
			r.most = kib << 10
		}
	}

	return r
}

// writeMeanwhile throws a kill switch of nothing again and again, until the function that it returns says how long each took.
func (c *program) writeMeanwhile(t *testing.T) func() spans {
	t.Helper()

	var (
		took spans
		work sync.WaitGroup
	)

	end := make(chan struct{})

	work.Go(func() {
		client := &http.Client{}
		defer client.CloseIdleConnections()

		pause := time.NewTicker(100 * time.Millisecond)
		defer pause.Stop()

		for n := 1; ; n++ {
			select {
			case <-end:
				return
			case <-pause.C:
			}

			began := time.Now()

			req, err := http.NewRequest(http.MethodPut, "http://"+c.http+"/admin/switches/limiter:worker",
				strings.NewReader(fmt.Sprintf(`{"reason": "drill %d"}`, n)))
			if err != nil {
				t.Error(err)

				return
			}

			req.Header.Set("Content-Type", "application/json")

			resp, err := client.Do(req)
			if err != nil {
				t.Error(err)

				return
			}

			_ = resp.Body.Close()

			if took = append(took, time.Since(began)); resp.StatusCode != http.StatusOK && *overrides <= mostAtOnce {
				t.Errorf("a kill switch was refused after %v with status %d", took[len(took)-1], resp.StatusCode)
			}
		}
	})

	return func() spans {
		close(end)
		work.Wait()

		return took
	}
}

// lookups asks for the overrides of some keys, one after the other.
func (c *program) lookups(t *testing.T, n int) spans {
	t.Helper()

	client := &http.Client{}
	defer client.CloseIdleConnections()

	took := make(spans, 0, n)

	for i := range n {
		began := time.Now()

		resp, err := client.Get(fmt.Sprintf("http://%s/admin/rules/r/overrides?key=customer-%d", c.http, i*(*overrides/n)))
		if err != nil {
			t.Fatal(err)
		}

		_ = resp.Body.Close()

		if took = append(took, time.Since(began)); resp.StatusCode != http.StatusOK {
			t.Fatalf("a lookup has status %d", resp.StatusCode)
		}
	}

	return took
}

// decisions are taken all the time: of a few keys that are always in use, and of keys that are new each time.
type decisions struct {
	began time.Time

	mu        sync.Mutex
	hot, cold []taken
}

// taken is one decision.
type taken struct {
	at       time.Time
	took     time.Duration
	degraded bool
}

func (d *decisions) begin(t *testing.T, holder *leaseway.Limiter) {
	t.Helper()

	r, err := holder.Rule("r")
	if err != nil {
		t.Fatal(err)
	}

	end := make(chan struct{})

	var work sync.WaitGroup

	t.Cleanup(func() { close(end); work.Wait() })

	run := func(every time.Duration, key func(i int) string, into *[]taken) {
		tick := time.NewTicker(every)
		defer tick.Stop()

		for i := 0; ; i++ {
			select {
			case <-end:
				return
			case <-tick.C:
			}

			k, at := key(i), time.Now()
			decision := r.Take(k)
			one := taken{at: at, took: time.Since(at), degraded: decision.Origin.Degraded()}

			d.mu.Lock()
			*into = append(*into, one)
			d.mu.Unlock()
		}
	}

	hot := []string{"customer-0", fmt.Sprint("customer-", *overrides-1), "somebody", "somebody else"}

	work.Go(func() { run(time.Millisecond, func(i int) string { return hot[i%len(hot)] }, &d.hot) })
	work.Go(func() {
		run(4*time.Millisecond, func(i int) string { return fmt.Sprint("customer-", i*7919%*overrides) }, &d.cold)
	})
}

// during lets some time go by, and says how it was.
func (d *decisions) during(t *testing.T, name string, long time.Duration) *phase {
	t.Helper()

	began := time.Now()
	timer := time.NewTimer(long)
	defer timer.Stop()

	<-timer.C

	return d.since(name, began)
}

// phase is how decisions were for a while.
type phase struct {
	name      string
	hot, cold spans
	degraded  int
}

func (d *decisions) since(name string, began time.Time) *phase {
	d.mu.Lock()
	defer d.mu.Unlock()

	p := &phase{name: name}

	for into, list := range map[*spans][]taken{&p.hot: d.hot, &p.cold: d.cold} {
		for _, one := range list {
			if one.at.Before(began) {
				continue
			}

			if *into = append(*into, one.took); one.degraded {
				p.degraded++
			}
		}
	}

	return p
}

func (p *phase) String() string {
	return fmt.Sprintf("hot %v (median) %v (99 %%) of %d; cold %v, %v of %d; %d without the coordinator",
		p.hot.at(50), p.hot.at(99), len(p.hot), p.cold.at(50), p.cold.at(99), len(p.cold), p.degraded)
}

// spans are how long things took.
type spans []time.Duration

// at is the percentile p.
func (t spans) at(p int) time.Duration {
	if len(t) == 0 {
		return 0
	}

	sorted := slices.Sorted(slices.Values(t))

	return sorted[min(len(sorted)-1, len(sorted)*p/100)].Round(100 * time.Nanosecond)
}
