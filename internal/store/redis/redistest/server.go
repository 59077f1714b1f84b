package redistest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/redis/rueidis"

	"github.com/leaseway/leaseway/internal/proctest"
	"github.com/leaseway/leaseway/internal/store/redis/joined"
)

// A Server is one redis-server process.
type Server struct {
	Address string // host:port
	Dir     string // where it works

	port    int
	busPort int
	cluster bool
	output  *lockedBuffer

	mu      sync.Mutex
	process *os.Process
	ended   chan struct{}
	client  rueidis.Client
}

// NewServer starts a server by itself, without a cluster, for tb alone; more are further lines of its configuration,
// such as --maxmemory 10mb.
func NewServer(tb testing.TB, more ...string) *Server {
	tb.Helper()

	ports, err := proctest.FreePorts(portsOfServer)
	if err != nil {
		tb.Fatal(err)
	}

	return newServer(tb, ports, more...)
}

const portsOfServer = 2 // for clients, and for the other nodes of a cluster

func newServer(tb testing.TB, ports []int, more ...string) *Server {
	tb.Helper()
	Needs(tb)

	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()

	s := at(ports, tb.TempDir())
	if err := s.Start(ctx, more...); err != nil {
		tb.Fatal(err)
	}

	tb.Cleanup(s.Kill)

	return s
}

// at is a server of these ports, which works in dir and does not run yet.
func at(ports []int, dir string) *Server {
	return &Server{Address: net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0])), Dir: dir, port: ports[0], busPort: ports[1]}
}

// Start starts the server, again after Kill: as it was, but without its data.
func (s *Server) Start(ctx context.Context, more ...string) error {
	args := []string{
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--protected-mode", "no", "--dir", s.Dir,
		"--save", "", "--appendonly", "no", "--loglevel", "warning", "--enable-debug-command", "yes",
	}
	if s.cluster {
		args = append(args, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(s.busPort),
			"--cluster-node-timeout", "1000", "--cluster-replica-validity-factor", "0", "--cluster-replica-no-failover", "yes",
			"--repl-diskless-sync-delay", "0")
	}

	return s.boot(ctx, append(args, more...))
}

// boot starts the process and waits until it answers.
func (s *Server) boot(ctx context.Context, args []string) error {
	if err := os.MkdirAll(s.Dir, 0o750); err != nil {
		return err
	}

	s.output = &lockedBuffer{}
	if err := s.run(args); err != nil {
		return err
	}

	err := joined.Eventually(ctx, func() error {
		select {
		case <-s.ended:
			return nil
		default:
			return s.connect(ctx)
		}
	})

	select {
	case <-s.ended:
		err = errors.New("it ended")
	default:
	}

	if err != nil {
		s.Kill()

		return fmt.Errorf("%s at %s did not start: %w\n%s", Program, s.Address, err, s.output.String())
	}

	return nil
}

// run starts the process from a thread that lives as long, because the system
// ends the process with the thread that started it: so that it never outlives the tests.
func (s *Server) run(args []string) error {
	started := make(chan error)
	ended := make(chan struct{})

	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(ended)

		cmd := exec.Command(Program, args...) //nolint:gosec,noctx // our own arguments; Kill ends it
		cmd.Stdout, cmd.Stderr = s.output, s.output
		dieWithParent(cmd)

		err := cmd.Start()
		s.process = cmd.Process

		started <- err

		if err == nil {
			_ = cmd.Wait() // killed, always
		}
	}()

	s.ended = ended

	return <-started
}

func (s *Server) connect(ctx context.Context) error {
	c, err := client(s.Address)
	if err != nil {
		return err
	}

	if err := c.Do(ctx, c.B().Ping().Build()).Error(); err != nil {
		c.Close()

		return err
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	s.client = c

	return nil
}

// Kill ends the server as kill -9 does, and waits until it is gone.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.client != nil {
		s.client.Close()
		s.client = nil
	}

	if s.process != nil {
		_ = s.process.Kill() // it may have ended
		<-s.ended
	}
}

// runs reports whether the server was started, and not killed since.
func (s *Server) runs() bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.client != nil
}

// Do sends the server one command, and returns its error.
func (s *Server) Do(ctx context.Context, command ...string) error {
	return s.send(ctx, command).Error()
}

// Ask sends the server one command, and returns its answer as text.
func (s *Server) Ask(ctx context.Context, command ...string) (string, error) {
	return s.send(ctx, command).ToString()
}

func (s *Server) send(ctx context.Context, command []string) rueidis.RedisResult {
	s.mu.Lock()
	c := s.client
	s.mu.Unlock()

	return c.Do(ctx, c.B().Arbitrary(command...).Build())
}

// lockedBuffer collects what a process says.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.buf.String()
}
