//go:build unix

package demo_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leaseway/leaseway/internal/demo"
)

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

// testMain gives the tests a directory for the executable, and fails when they leave a goroutine behind.
func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "leaseway-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)

		return 1
	}
	defer os.RemoveAll(dir)

	programPath = filepath.Join(dir, "leaseway")
	code := m.Run()

	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)

		return 1
	}

	return code
}

var programPath string // set before any test runs

// build builds the executable once: the demo starts itself several times, which the binary of the tests cannot.
var build = sync.OnceValue(func() error {
	if out, err := exec.Command("go", "build", "-o", programPath, "../../cmd/leaseway").CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}

	return nil
})

// command returns "leaseway demo ARGS…", with temporary files in a directory of its own.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()

	if testing.Short() {
		t.Skip("it takes some seconds; run without -short")
	}

	if err := build(); err != nil {
		t.Fatal(err)
	}

	cmd := exec.Command(programPath, append([]string{"demo"}, args...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())

	return cmd
}

// temporary fails if cmd left files behind.
func temporary(t *testing.T, cmd *exec.Cmd) {
	t.Helper()

	dir := strings.TrimPrefix(cmd.Env[len(cmd.Env)-1], "TMPDIR=")
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// run runs the demo for its JSON document, and holds it to its claims. On a machine that was too busy for the traffic, by
// the demo's own word, how little was admitted says nothing; nor do messages per request where requests came late, since a lease
// is renewed by the clock.
func run(t *testing.T, args ...string) demo.Result {
	t.Helper()

	cmd := command(t, append(args, "-o", "json")...)

	var stdout, stderr bytes.Buffer

	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()

	var r demo.Result
	if bad := json.Unmarshal(stdout.Bytes(), &r); bad != nil {
		t.Fatalf("%v: the document: %v\n%s%s", err, bad, stdout.Bytes(), stderr.Bytes())
	}

	temporary(t, cmd)

	if r.Held != (err == nil) {
		t.Errorf("held: %v, and the exit status: %v", r.Held, err)
	}

	for _, c := range r.Claims {
		switch {
		case c.Held:
		case len(r.Warnings) > 0 && strings.Contains(c.Claim, "at least 98 %"),
			r.Traffic.Behind && strings.Contains(c.Claim, "messages to the coordinator per 100 requests"):
			t.Logf("%s: missed on a machine that was too busy: %s: %s: %s", c.Phase, c.Claim, c.Found, c.Missed)
		default:
			t.Errorf("%s: missed: %s: %s: %s", c.Phase, c.Claim, c.Found, c.Missed)
		}
	}

	if t.Failed() {
		t.Logf("warnings: %s\n%s", r.Warnings, stderr.Bytes())
	}

	return r
}

func TestDemo(t *testing.T) {
	r := run(t, "--duration", "8s", "--seed", "3")

	if len(r.Phases) != 4 || len(r.Claims) != 11 {
		t.Fatalf("%d phases and %d claims, want 4 and 11", len(r.Phases), len(r.Claims))
	}

	if r.Traffic.Requests < 10_000 || r.Traffic.Unanswered > 0 {
		t.Errorf("%d requests, %d without an answer", r.Traffic.Requests, r.Traffic.Unanswered)
	}

	for _, p := range r.Phases {
		if len(p.Callers) == 0 || p.Callers[0].Caller != "acme" && p.Callers[0].Caller != "wild-script" {
			t.Errorf("%s: the first caller is %+v", p.Phase, p.Callers)
		}

		if p.Requests == 0 || p.Admitted+p.Denied != p.Requests || p.Decision.P50Micros <= 0 {
			t.Errorf("%s: %d requests, %d admitted, %d denied, %+v", p.Phase, p.Requests, p.Admitted, p.Denied, p.Decision)
		}
	}

	// Without a coordinator nobody was asked, or hardly: otherwise it was not killed.
	if before, outage := r.Phases[0].CallsPer100(), r.Phases[1].CallsPer100(); outage > before/4 {
		t.Errorf("%.1f calls per 100 requests before the outage, %.1f in it", before, outage)
	}
}

func TestDemoOfALog(t *testing.T) {
	var log strings.Builder

	for i := range 3000 {
		client := fmt.Sprintf("192.0.2.%d", i%50)
		if i%3 == 0 {
			client = "198.51.100.7" // a third of all: far above its limit
		}

		fmt.Fprintf(&log, "%s - - [17/May/2015:10:%02d:%02d +0000] \"GET /%%2e./a//b\\x07%d?q=%%zz HTTP/1.1\" 200 12\n", client, i/600, i/10%60, i)
	}

	log.WriteString("this is no log line\n")

	path := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(path, []byte(log.String()), 0o600); err != nil {
		t.Fatal(err)
	}

	r := run(t, "--duration", "6s", "--log", path)

	if r.Traffic.Requests != 3000 || r.Phases[0].Callers[0].Caller != "198.51.100.7" || !r.Phases[0].Callers[0].Capped() {
		t.Errorf("%d requests; the first caller is %+v", r.Traffic.Requests, r.Phases[0].Callers[0])
	}

	if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "1 lines are in no known format") {
		t.Errorf("notes: %q", r.Notes)
	}
}

// The log is not part of the repository.
func TestDemoOfARealLog(t *testing.T) {
	path, err := filepath.Abs("../../../shared/data/apache_combined.log")
	if err != nil {
		t.Fatal(err)
	}

	if _, err := os.Stat(path); err != nil {
		t.Skipf("there is no real access log to send: %v", err)
	}

	r := run(t, "--duration", "8s", "--log", path)

	if r.Traffic.Requests != 10_000 {
		t.Errorf("%d requests of 10,000", r.Traffic.Requests)
	}
}

// All processes of a demo, or with Redis of another one: each group in brackets.
var (
	startedPids = regexp.MustCompile(`Started .* this is pid`)
	pidGroups   = regexp.MustCompile(`\(pids? ([\d, ]+)\)`)
)

// started runs the demo until its first figures, and returns it, the pids of its children, and what it prints from then on.
func started(t *testing.T, args ...string) (*exec.Cmd, []int, *bufio.Scanner) {
	t.Helper()

	cmd := command(t, append(args, "--duration", "30s")...)

	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}

	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}

	var (
		pids []int
		said string
	)

	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		said += strings.TrimSpace(lines.Text()) + " " // a sentence may take two lines

		if found := startedPids.FindString(said); found != "" && len(pids) == 0 {
			for _, group := range pidGroups.FindAllStringSubmatch(found, -1) {
				for text := range strings.SplitSeq(group[1], ", ") {
					pid, _ := strconv.Atoi(text)
					pids = append(pids, pid)
				}
			}
		}

		if strings.Contains(lines.Text(), "requests/s;") {
			break
		}
	}

	if len(pids) != 4 && len(pids) != 12 {
		t.Fatalf("it did not say which processes it started: %v", pids)
	}

	return cmd, pids, lines
}

// gone waits until none of the processes runs.
func gone(t *testing.T, pids []int) {
	t.Helper()

	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()

	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()

	for _, pid := range pids {
		for runs(pid) {
			select {
			case <-deadline.C:
				t.Fatalf("process %d still runs", pid)
			case <-tick.C:
			}
		}
	}
}

// runs reports whether a process is more than an entry that its parent has not looked at.
func runs(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}

	state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := bytes.Cut(state, []byte(") "))

	return err != nil || len(after) == 0 || after[0] != 'Z'
}

// A cluster of Redis servers that it starts itself loses a master, and three coordinators lose one of them.
func TestDemoWithRedis(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed: run `make redis` (or: apt-get install redis-server)")
	}

	r := run(t, "--redis", "--duration", "16s", "--seed", "3")

	if len(r.Phases) != 4 || len(r.Claims) != 13 || !r.Redis {
		t.Fatalf("%d phases and %d claims, want 4 and 13", len(r.Phases), len(r.Claims))
	}

	for _, p := range r.Phases {
		if p.Requests == 0 || p.Failed > 0 || p.Runs == 0 || p.Runs > p.Requests {
			t.Errorf("%s: %d requests, %d failed, %d functions in Redis", p.Phase, p.Requests, p.Failed, p.Runs)
		}
	}

	// Some were decided without the store while it was a master short, and not those of the other masters.
	out := 0
	for _, l := range r.Phases[1].Callers {
		if l.Share > 0 {
			out++
		}
	}

	if r.Phases[1].Local == 0 || out == 0 || len(r.Warnings) == 0 && out == len(r.Phases[1].Callers) {
		t.Errorf("%d requests were admitted by shares, and %d of %d callers had an outage", r.Phases[1].Local, out, len(r.Phases[1].Callers))
	}
}

func TestDemoWithRedisEndsAllItsServers(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed: run `make redis` (or: apt-get install redis-server)")
	}

	for _, signal := range []os.Signal{os.Interrupt, os.Kill} {
		cmd, pids, lines := started(t, "--redis")
		children := childrenOf(t, pids)

		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}

		for lines.Scan() { // to the end of its output
		}

		_ = cmd.Wait() // it was told to end

		if len(children) < 6 {
			t.Errorf("%v: it has started %d Redis servers", signal, len(children))
		}

		gone(t, append(pids, children...))

		if signal == os.Interrupt {
			temporary(t, cmd)
		}
	}
}

// childrenOf returns the processes that others have started.
func childrenOf(t *testing.T, parents []int) (children []int) {
	t.Helper()

	for _, parent := range parents {
		lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
		if err != nil || len(lists) == 0 {
			t.Skip("this system does not tell which processes others have started")
		}

		for _, list := range lists {
			text, _ := os.ReadFile(list)
			for word := range strings.FieldsSeq(string(text)) {
				pid, _ := strconv.Atoi(word)
				children = append(children, pid)
			}
		}
	}

	return children
}

// It says what is missing and how to get it.
func TestDemoWithoutRedisServer(t *testing.T) {
	cmd := command(t, "--redis")
	cmd.Env = append(cmd.Env[:len(cmd.Env)-1:len(cmd.Env)-1], "PATH=/nowhere", cmd.Env[len(cmd.Env)-1])

	said, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(said), "apt-get install redis-server") {
		t.Errorf("%v: %s", err, said)
	}

	temporary(t, cmd)
}

func TestDemoStopsWithTheResultsSoFar(t *testing.T) {
	cmd, pids, lines := started(t)

	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}

	var rest strings.Builder
	for lines.Scan() {
		rest.WriteString(lines.Text() + "\n")
	}

	const interrupted = 130
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != interrupted {
		t.Errorf("%v, want exit status %d", err, interrupted)
	}

	for _, want := range []string{"BEFORE: the coordinator runs", "acme", "It was stopped "} {
		if !strings.Contains(rest.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, rest.String())
		}
	}

	gone(t, pids)
	temporary(t, cmd)
}

// Nobody reads any more, or nothing can be written: it ends by itself, and leaves nothing behind.
func TestDemoEndsWithItsReader(t *testing.T) {
	for output, want := range map[string]int{"| head -1": 141, "> /dev/full": 1} {
		plain := command(t)
		cmd := exec.Command("sh", "-c", `{ "$0" demo; echo "status $?" >&2; } `+output, plain.Path)
		cmd.Env = plain.Env

		said, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(said), fmt.Sprintf("status %d\n", want)) {
			t.Errorf("%s: %v, want status %d:\n%s", output, err, want, said)
		}

		if quiet := !strings.Contains(string(said), "leaseway: "); quiet != (want == 141) {
			t.Errorf("%s: says %q", output, said)
		}

		temporary(t, cmd)
	}
}

func TestChildrenEndWithADemoThatIsKilled(t *testing.T) {
	cmd, pids, _ := started(t)

	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}

	_ = cmd.Wait() // it was killed

	gone(t, pids)
}
