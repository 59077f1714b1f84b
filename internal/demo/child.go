package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// listening is the message of the log line with which a child says that it serves, and where. "leaseway serve" has it, too.
const listening = "listening"

// ChildCommand is the hidden command that runs another command until its standard input ends.
const ChildCommand = "demo-child"

// APICommand is the hidden command that is an API server.
const APICommand = "demo-api"

// startWithin bounds how long a child may take until it serves, on a machine that has other things to do.
const startWithin = 20 * time.Second

// A child is a process of the demo. It ends with kill, or when this process does: it watches its standard input, which
// nobody writes to and which the system closes whatever becomes of us.
type child struct {
	name  string
	cmd   *exec.Cmd
	stdin io.Closer
	log   *childLog
	ended chan struct{}
}

// startChild runs "leaseway ARGS…" and waits until it serves.
func startChild(ctx context.Context, program, name string, args ...string) (*child, error) {
	return startProcess(ctx, program, name, append([]string{ChildCommand}, args...)...)
}

// startProcess runs "leaseway ARGS…", a command that ends with its standard input, and waits until it serves.
func startProcess(ctx context.Context, program, name string, args ...string) (*child, error) {
	c := &child{name: name, log: &childLog{ready: make(chan struct{})}, ended: make(chan struct{})}

	c.cmd = exec.Command(program, args...) //nolint:gosec,noctx // ourselves; kill ends it
	c.cmd.Env = []string{}                 // settings of the user's shell are not the demo's
	c.cmd.Stdout, c.cmd.Stderr = c.log, c.log
	c.cmd.WaitDelay = time.Second
	detach(c.cmd)

	stdin, err := c.cmd.StdinPipe()
	if err == nil {
		c.stdin = stdin
		err = c.cmd.Start()
	}

	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}

	go func() {
		_ = c.cmd.Wait() // how it ended is in its log
		close(c.ended)
	}()

	timer := time.NewTimer(startWithin)
	defer timer.Stop()

	select {
	case <-c.log.ready:
		return c, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-c.ended:
		err = errors.New("it ended")
	case <-timer.C:
		err = fmt.Errorf("it does not serve after %v", startWithin)
	}

	c.kill()

	return nil, fmt.Errorf("start %s: %w; its last words:\n%s", name, err, c.log.lastWords())
}

// pid returns the process's id.
func (c *child) pid() int { return c.cmd.Process.Pid }

// address returns where the child said that it serves HTTP.
func (c *child) address() string {
	c.log.mu.Lock()
	defer c.log.mu.Unlock()

	return c.log.addresses["http"]
}

// kill ends the child without asking it (SIGKILL), and waits until it is gone.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // it ended already
	<-c.ended
	_ = c.stdin.Close() // nobody is at the other end
}

const (
	keptLines = 8       // of a child's log, for an error message
	longLine  = 4 << 10 // bytes kept of one
)

// childLog reads what a child writes: the line with its addresses, and the last ones in case it fails.
type childLog struct {
	ready chan struct{} // closed when the child serves

	mu        sync.Mutex
	part      []byte // of a line
	lines     []string
	addresses map[string]string
}

// Write takes in output of the child.
func (l *childLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	for rest := b; len(rest) > 0; {
		line, after, whole := bytes.Cut(rest, []byte{'\n'})
		l.part = append(l.part, line[:min(len(line), max(0, longLine-len(l.part)))]...)
		rest = after

		if whole {
			l.take(l.part)
			l.part = l.part[:0]
		}
	}

	return len(b), nil
}

func (l *childLog) take(line []byte) {
	l.lines = append(l.lines, string(line))
	l.lines = l.lines[max(0, len(l.lines)-keptLines):]

	var said struct {
		Msg  string `json:"msg"`
		HTTP string `json:"http"`
		GRPC string `json:"grpc"`

		Redis string `json:"redis"`
	}

	if l.addresses != nil || json.Unmarshal(line, &said) != nil || said.Msg != listening {
		return
	}

	l.addresses = map[string]string{"http": said.HTTP, "grpc": said.GRPC}
	close(l.ready)
}

func (l *childLog) lastWords() string {
	l.mu.Lock()
	defer l.mu.Unlock()

	return strings.Join(append(l.lines, string(l.part)), "\n")
}
