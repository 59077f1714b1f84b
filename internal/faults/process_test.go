//go:build unix

package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leaseway/leaseway/internal/rpc"
)

// patience is how long a test waits for what should come soon, on a machine that has other things to do.
const patience = 20 * time.Second

// process is this binary in another role. It ends with the test, or when its standard input does.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	log   *transcript
	ended chan struct{}
}

func start(t *testing.T, as string, args ...string) *process {
	t.Helper()

	p := &process{log: &transcript{}, ended: make(chan struct{})}
	p.cmd = exec.Command(os.Args[0], args...)
	p.cmd.Env = []string{role + "=" + as}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}

	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}

	p.stdin = stdin
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}

	go func() {
		defer close(p.ended)

		_ = p.cmd.Wait() // how it ended is for the test to say
	}()

	t.Cleanup(p.kill)

	return p
}

// kill ends the process without asking it, and waits until it is gone.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended

	_ = p.stdin.Close()
}

// signal sends s, if the process still lives.
func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// finish asks the process to stop, and waits until it has.
func (p *process) finish(t *testing.T) {
	t.Helper()
	p.signal(syscall.SIGTERM)

	timer := time.NewTimer(patience)
	defer timer.Stop()

	select {
	case <-p.ended:
	case <-timer.C:
		t.Fatalf("it does not stop; its last words:\n%s", p.log)
	}
}

// transcript is what a process wrote.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write adds to it.
func (l *transcript) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.text.Write(b)
}

func (l *transcript) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.text.String()
}

// program is "leaseway serve" at fixed addresses, so that it can come again.
type program struct {
	*process

	dir, grpc, http string
	args            []string
}

// newCoordinator starts one with these rules. It keeps its data, as a real one would.
func newCoordinator(t *testing.T, rules string, args ...string) *program {
	t.Helper()

	c := &program{dir: t.TempDir(), grpc: freeAddress(t), http: freeAddress(t)}
	write(t, c.path("rules.yaml"), rules)

	if _, err := rpc.GenerateKeyFile(c.path("key")); err != nil {
		t.Fatal(err)
	}

	c.args = append([]string{
		"serve", "--rules", c.path("rules.yaml"), "--listen", c.http, "--grpc-listen", c.grpc,
		"--data-dir", c.path("data"), "--signing-key-file", c.path("key"), "--log-format", "json",
	}, args...)
	c.run(t)

	return c
}

// run starts the process, again or for the first time, and waits until it serves.
func (c *program) run(t *testing.T) {
	t.Helper()
	c.process = start(t, "program", c.args...)
	c.serving(t)
}

func (c *program) serving(t *testing.T) {
	t.Helper()
	eventually(t, "it serves", func() bool {
		select {
		case <-c.ended:
			t.Fatalf("it ended:\n%s", c.log)
		default:
		}

		return strings.Contains(c.log.String(), `"listening"`)
	})
}

func (c *program) path(name string) string { return filepath.Join(c.dir, name) }

// said returns the values that the log has for a key of its lines.
func (c *program) said(key string) (values []string) {
	for line := range strings.Lines(c.log.String()) {
		var fields map[string]any
		if json.Unmarshal([]byte(line), &fields) == nil && fields[key] != nil {
			values = append(values, fmt.Sprint(fields[key]))
		}
	}

	return values
}

// freeAddress finds a port below those that systems hand out to connections: it must be free again after a restart.
func freeAddress(t *testing.T) string {
	t.Helper()

	const lowest, ports, tries = 14_000, 6_000, 100

	for range tries {
		address := fmt.Sprintf("127.0.0.1:%d", lowest+rand.IntN(ports))

		if listener, err := net.Listen("tcp", address); err == nil {
			_ = listener.Close()

			return address
		}
	}

	t.Fatal("no port is free")

	return ""
}

func write(t *testing.T, path, text string) {
	t.Helper()

	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()

	if !within(patience, holds) {
		t.Fatalf("not in %v: %s", patience, what)
	}
}

// within reports whether a condition comes to hold in time.
func within(d time.Duration, holds func() bool) bool {
	deadline := time.NewTimer(d)
	defer deadline.Stop()

	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()

	for !holds() {
		select {
		case <-deadline.C:
			return false
		case <-poll.C:
		}
	}

	return true
}
