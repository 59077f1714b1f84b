package leasewayredis_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/store/redis/redistest"
	"github.com/leaseway/leaseway/leasewayredis"
	"github.com/leaseway/leaseway/rule"
)

// role is the variable that has this binary be a process that takes what it is told to, with the URL as its value.
const role = "LEASEWAYREDIS_TAKES_FROM"

var servers redistest.Servers // one cluster for the binary, which TestMain ends

func TestMain(m *testing.M) {
	if url := os.Getenv(role); url != "" {
		if err := takes(url, os.Args[1], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}

		return
	}

	code := m.Run()
	servers.Stop()

	if code == 0 {
		if err := goleak.Find(redistest.DriverNaps()...); err != nil {
			fmt.Fprintln(os.Stderr, err)

			code = 1
		}
	}

	os.Exit(code)
}

// unhurried is for requests that may wait for a busy machine.
const unhurried = 5 * time.Second

const slowly = `
rules:
  - {id: small, keyBy: user, limit: 10, window: 12h}
  - {id: large, keyBy: user, limit: 300, window: 12h}
  - {id: fixed, keyBy: user, algorithm: fixed_window, limit: 300, window: 365d}
  - {id: log, keyBy: user, algorithm: sliding_log, limit: 20, window: 12h}
`

func parse(text string) *rule.Set {
	set, err := rule.Parse("rules.yaml", []byte(text))
	if err != nil {
		panic(err) // a text of these tests
	}

	return set
}

func open(tb testing.TB, url, rules string, opts ...leasewayredis.Option) *leaseway.Limiter {
	tb.Helper()

	l, err := leasewayredis.Open(tb.Context(), url, parse(rules), opts...)
	if err != nil {
		tb.Fatal(err)
	}

	tb.Cleanup(func() { _ = l.Close(context.Background()) })

	return l
}

// take takes n times from a rule, and returns how many passed, and of them without Redis.
func take(l *leaseway.Limiter, id, key string, n int) (passed, degraded int) {
	r, err := l.Rule(id)
	if err != nil {
		panic(err) // a name of these tests
	}

	for range n {
		if d := r.Take(key); d.Allowed {
			passed++

			if d.Origin.Degraded() {
				degraded++
			}
		}
	}

	return passed, degraded
}

// eventually waits until something is so.
func eventually(tb testing.TB, what string, so func() bool) {
	tb.Helper()

	deadline := time.Now().Add(20 * time.Second)

	for !so() {
		if time.Now().After(deadline) {
			tb.Fatalf("it did not come: %s", what)
		}

		time.Sleep(5 * time.Millisecond)
	}
}

// takes is a process that shares limits with others. For each line RULE KEY N it writes how many of N passed.
func takes(url, prefix string, in io.Reader, out io.Writer) error {
	ctx := context.Background()

	l, err := leasewayredis.Open(ctx, url, parse(slowly), leasewayredis.WithPrefix(prefix),
		leasewayredis.WithLimiter(leaseway.WithDeadline(unhurried)))
	if err != nil {
		return err
	}

	for lines := bufio.NewScanner(in); lines.Scan(); {
		var (
			id, key string
			n       int
		)

		if _, err := fmt.Sscan(lines.Text(), &id, &key, &n); err != nil {
			return err
		}

		passed, degraded := take(l, id, key, n)
		fmt.Fprintln(out, passed, degraded)
	}

	return l.Close(ctx)
}

// process is another process that takes.
type process struct {
	in  io.WriteCloser
	out *bufio.Scanner
}

func start(t *testing.T, url, prefix string) *process {
	t.Helper()

	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}

	cmd := exec.CommandContext(t.Context(), self, prefix)
	cmd.Env = append(os.Environ(), role+"="+url)
	cmd.Stderr = os.Stderr

	in, errIn := cmd.StdinPipe()
	out, errOut := cmd.StdoutPipe()

	if err := errors.Join(errIn, errOut, cmd.Start()); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})

	return &process{in: in, out: bufio.NewScanner(out)}
}

func (p *process) take(id, key string, n int) (passed, degraded int, err error) {
	if _, err := fmt.Fprintln(p.in, id, key, n); err != nil {
		return 0, 0, err
	}

	if !p.out.Scan() {
		return 0, 0, fmt.Errorf("the process said nothing: %w", p.out.Err())
	}

	_, err = fmt.Sscan(p.out.Text(), &passed, &degraded)

	return passed, degraded, err
}

// Processes with nothing in common but Redis share each limit exactly, and all of it is to be had.
func TestProcessesShareALimit(t *testing.T) {
	url, prefix := "redis://"+strings.Join(servers.Shared(t).Addresses(), ","), servers.Prefix()
	fleet := []*process{start(t, url, prefix), start(t, url, prefix), start(t, url, prefix)}

	// all has every process take n at the same time.
	all := func(id string, n int) (sum int) {
		var (
			wait sync.WaitGroup
			mu   sync.Mutex
		)

		for _, p := range fleet {
			wait.Go(func() {
				passed, degraded, err := p.take(id, "ada", n)
				if err != nil || degraded > 0 {
					t.Errorf("%s: %d passed without Redis (%v)", id, degraded, err)
				}

				mu.Lock()
				defer mu.Unlock()

				sum += passed
			})
		}

		wait.Wait()

		return sum
	}

	for id, want := range map[string]int{"small": 10, "log": 20} {
		if sum := all(id, 15); sum != want {
			t.Errorf("%s: three processes admitted %d, want %d", id, sum, want)
		}
	}

	for _, id := range []string{"large", "fixed"} {
		sum := 0

		// What one holds and does not need goes back before another one gets it.
		eventually(t, id+": all of the limit is admitted", func() bool {
			sum += all(id, 5)

			return sum >= 300 || t.Failed()
		})

		if sum += all(id, 60); sum != 300 {
			t.Errorf("%s: three processes admitted %d, want 300", id, sum)
		}
	}
}

// Close gives back what is leased: the next process need not wait for it.
func TestCloseGivesLeasesBack(t *testing.T) {
	server := redistest.NewServer(t)
	url := "redis://" + server.Address
	patient := leasewayredis.WithLimiter(leaseway.WithDeadline(unhurried))
	hour := `rules: [{id: large, keyBy: user, limit: 300, window: 12h, lease: {ttl: 60s}}]`

	first := open(t, url, hour, patient)
	if n, _ := take(first, "large", "ada", 50); n != 50 {
		t.Fatalf("%d of 50 passed", n)
	}

	if held := first.Stats().Leases; held == 0 {
		t.Fatal("nothing is leased, so nothing can be given back")
	}

	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	if n, degraded := take(open(t, url, hour, patient), "large", "ada", 400); n != 250 || degraded != 0 {
		t.Errorf("the next process was given %d, and %d without Redis; want the 250 that were left", n, degraded)
	}
}

// Redis goes: each rule's onUnavailable decides, nobody waits for long, and all is well when it is back.
func TestOutage(t *testing.T) {
	server := redistest.NewServer(t)
	l := open(t, "redis://"+server.Address, `
rules:
  - {id: open, keyBy: user, limit: 5, window: 1h, onUnavailable: allow, afterLoss: full}
  - {id: closed, keyBy: user, limit: 5, window: 1h, onUnavailable: deny, afterLoss: full}
  - {id: own, keyBy: user, limit: 5, window: 1h, fallback: {limit: 5, window: 60s}, afterLoss: full}
`, leasewayredis.WithLimiter(leaseway.WithDeadline(unhurried)))

	for _, id := range []string{"open", "closed", "own"} {
		if n, degraded := take(l, id, "before", 5); n != 5 || degraded != 0 {
			t.Fatalf("%s: %d passed, %d without Redis", id, n, degraded)
		}
	}

	server.Kill()

	for id, want := range map[string]int{"open": 10, "closed": 0, "own": 5} {
		began := time.Now()

		if n, _ := take(l, id, "during", 10); n != want {
			t.Errorf("%s: %d of 10 passed without Redis, want %d", id, n, want)
		}

		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s: ten requests took %v while Redis was gone", id, took)
		}
	}

	eventually(t, "the outage is seen", func() bool {
		take(l, "open", "during", 1)

		return l.Degraded()
	})

	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}

	eventually(t, "Redis is used again", func() bool {
		take(l, "open", "probe", 1)

		return !l.Degraded()
	})

	fresh := 0 // each needs a key of its own, since a key whose asks failed waits a little

	eventually(t, "new keys are counted in Redis", func() bool {
		fresh++
		n, degraded := take(l, "closed", "after "+strconv.Itoa(fresh), 8)

		return n == 5 && degraded == 0
	})
}

// Redis accepts connections and answers nothing: requests wait for it at first, and no more once that is known.
func TestSilentRedis(t *testing.T) {
	const deadline = 200 * time.Millisecond

	server := redistest.NewServer(t)
	l := open(t, "redis://"+server.Address, `rules: [{id: r, keyBy: user, limit: 5, window: 1h, onUnavailable: deny}]`,
		leasewayredis.WithLimiter(leaseway.WithDeadline(deadline)))

	if err := server.Do(t.Context(), "CLIENT", "PAUSE", "60000", "ALL"); err != nil {
		t.Fatal(err)
	}

	keys := 0
	next := func() string {
		keys++

		return strconv.Itoa(keys)
	}

	eventually(t, "the outage is seen", func() bool {
		if n, _ := take(l, "r", next(), 1); n > 0 {
			t.Error("a rule that denies in an outage admitted")
		}

		return l.Degraded()
	})

	began := time.Now()

	const requests = 50

	for range requests {
		take(l, "r", next(), 1)
	}

	if took := time.Since(began); took > requests*deadline/2 {
		t.Errorf("%d requests took %v, as if each had waited", requests, took)
	}

	server.Kill()

	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}

	eventually(t, "Redis is used again", func() bool {
		take(l, "r", next(), 1)

		return !l.Degraded()
	})
}

// A process that may starts before Redis does.
func TestLateRedis(t *testing.T) {
	server := redistest.NewServer(t)
	server.Kill()

	const rules = `rules: [{id: own, keyBy: user, limit: 5, window: 1h, onUnavailable: deny}]`

	_, err := leasewayredis.Open(t.Context(), "redis://"+server.Address, parse(rules))
	if !errors.Is(err, &leaseway.Error{Code: leaseway.CodeUnavailable}) || !strings.Contains(err.Error(), "WithLateRedis") {
		t.Errorf("without Redis: %v, want unavailable and what to do about it", err)
	}

	l := open(t, "redis://"+server.Address, rules, leasewayredis.WithLateRedis())

	if n, _ := take(l, "own", "ada", 5); n != 0 || !l.Degraded() {
		t.Errorf("without Redis %d passed, degraded %v", n, l.Degraded())
	}

	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}

	sum := 0

	eventually(t, "Redis is reached", func() bool {
		n, _ := take(l, "own", "ada", 1)
		sum += n

		return sum == 5
	})

	if n, _ := take(l, "own", "ada", 5); n != 0 {
		t.Errorf("%d above the limit passed", n)
	}
}

// What cannot be used is refused at once, with the code and what to do.
func TestOpenRefuses(t *testing.T) {
	server := redistest.NewServer(t)
	if err := server.Do(t.Context(), "CONFIG", "SET", "requirepass", "secret"); err != nil {
		t.Fatal(err)
	}

	good := "redis://:secret@" + server.Address
	set := parse(slowly)

	for name, test := range map[string]struct {
		url   string
		rules *rule.Set
		opts  []leasewayredis.Option
		says  string
	}{
		"no rules":         {url: good, says: "rule.Parse"},
		"no URL":           {url: server.Address, rules: set, says: "redis://HOST:PORT"},
		"wrong password":   {url: "redis://:hunter2@" + server.Address, rules: set, says: "WRONGPASS"},
		"no password":      {url: "redis://" + server.Address, rules: set, says: "NOAUTH"},
		"a prefix":         {url: good, rules: set, opts: []leasewayredis.Option{leasewayredis.WithPrefix("{a}")}, says: "brace"},
		"connections":      {url: good, rules: set, opts: []leasewayredis.Option{leasewayredis.WithConnections(3)}, says: "power of two"},
		"a negative time":  {url: good, rules: set, opts: []leasewayredis.Option{leasewayredis.WithTimeouts(-1, 0)}, says: "DialTimeout is -1ns (write 10ms"},
		"a hasty time":     {url: good, rules: set, opts: []leasewayredis.Option{leasewayredis.WithTimeouts(0, time.Millisecond)}, says: "DeadAfter is 1ms (write"},
		"no sentinel":      {url: good, rules: set, opts: []leasewayredis.Option{leasewayredis.WithSentinelUser("a", "b")}, says: "redis+sentinel://"},
		"no master's name": {url: "redis+sentinel://a,b", rules: set, says: "/MASTER"},
	} {
		_, err := leasewayredis.Open(t.Context(), test.url, test.rules, test.opts...)
		if !errors.Is(err, &leaseway.Error{Code: leaseway.CodeInvalid}) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want invalid with %q", name, err, test.says)
		}

		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the password is in %v", name, err)
		}
	}

	l := open(t, "redis://"+server.Address, slowly, leasewayredis.WithUser("default", "secret"), leasewayredis.WithPrefix("other:"),
		leasewayredis.WithConnections(2), leasewayredis.WithTimeouts(time.Second, 3*time.Second), leasewayredis.WithOwnClock(),
		leasewayredis.WithLimiter(leaseway.WithDeadline(unhurried)))
	if n, degraded := take(l, "small", "ada", 15); n != 10 || degraded != 0 {
		t.Errorf("with all options %d of 10 passed, %d of them without Redis", n, degraded)
	}
}

// The master dies behind its sentinels: limits go on where they were, and meanwhile each rule's onUnavailable decides.
func TestFailover(t *testing.T) {
	group := redistest.NewSentinels(t)
	l := open(t, "redis+sentinel://"+strings.Join(group.Addresses(), ",")+"/"+redistest.MasterName,
		`rules: [{id: r, keyBy: user, algorithm: sliding_log, limit: 20, window: 12h, onUnavailable: deny}]`,
		leasewayredis.WithSentinelUser("", ""), leasewayredis.WithLimiter(leaseway.WithDeadline(unhurried)))

	passed := 0

	eventually(t, "half of the limit is admitted", func() bool {
		n, _ := take(l, "r", "ada", 1)
		passed += n

		return passed == 10
	})

	group.Heard(t)
	group.Master.Kill()
	group.Notice(t)

	eventually(t, "the rest is admitted", func() bool {
		n, degraded := take(l, "r", "ada", 1)
		passed += n

		if degraded > 0 {
			t.Error("a rule that denies in an outage admitted")
		}

		return passed >= 20
	})

	more := 0

	for range 20 {
		n, _ := take(l, "r", "ada", 1)
		more += n
	}

	if more > 0 {
		t.Errorf("%d above the limit passed", more)
	}
}

// Over TLS, with a certificate of one's own.
func TestTLS(t *testing.T) {
	certs := redistest.NewCertificates(t)
	_, address := redistest.NewTLSServer(t, certs, "--tls-auth-clients", "yes")
	patient := leasewayredis.WithLimiter(leaseway.WithDeadline(unhurried))

	_, err := leasewayredis.Open(t.Context(), "rediss://"+address, parse(slowly))
	if !errors.Is(err, &leaseway.Error{Code: leaseway.CodeInvalid}) || !strings.Contains(err.Error(), "certificates") {
		t.Errorf("by the system's authorities: %v", err)
	}

	l := open(t, "rediss://"+address, slowly, patient, leasewayredis.WithTLS(&tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: certs.Pool, Certificates: []tls.Certificate{certs.Client},
	}))
	if n, degraded := take(l, "small", "ada", 15); n != 10 || degraded != 0 {
		t.Errorf("%d of 10 passed, %d of them without Redis", n, degraded)
	}
}

// A changed rule file takes effect, a bad one does not.
func TestOpenFile(t *testing.T) {
	server := redistest.NewServer(t)
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	if _, err := leasewayredis.OpenFile(t.Context(), "redis://"+server.Address, path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}

	for _, bad := range []string{"", "rules: [{id: a}]"} {
		write(bad)

		if _, err := leasewayredis.OpenFile(t.Context(), "redis://"+server.Address, path); !errors.Is(err, &leaseway.Error{Code: leaseway.CodeInvalid}) {
			t.Errorf("with %q: %v", bad, err)
		}
	}

	write("rules: [{id: a, limit: 3, window: 1h}]")

	l, err := leasewayredis.OpenFile(t.Context(), "redis://"+server.Address, path)
	if err != nil {
		t.Fatal(err)
	}

	defer l.Close(context.Background())

	first := l.Rules().Version

	write("rules: [{id: a, limit: 4, window: 1h}]")
	eventually(t, "the changed rules are in force", func() bool { return l.Rules().Version > first })

	if r := l.Rules().Rule("a"); r == nil || r.Limit != 4 {
		t.Errorf("rule %+v is in force", r)
	}
}
