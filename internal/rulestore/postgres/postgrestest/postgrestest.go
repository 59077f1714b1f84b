// Package postgrestest starts a real Postgres for tests: on a socket in a temporary directory, as a user that is not root,
// without anything that outlives the test binary.
//
// Tests of one binary share a server, each with a database of its own; those that kill servers start their own.
package postgrestest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

const startTimeout = 60 * time.Second

// Servers starts the server that the tests of a binary share. TestMain has one.
type Servers struct {
	once   sync.Once
	server *Server
	err    error
}

// Shared returns the server, started by the first that asks. It skips tb where Postgres is not installed.
func (s *Servers) Shared(tb testing.TB) *Server {
	tb.Helper()
	bin := needs(tb)
	s.once.Do(func() { s.server, s.err = newServer(bin) })
	if s.err != nil {
		tb.Fatal(s.err)
	}
	return s.server
}

// Stop ends the server, if there is one. TestMain calls it after the tests.
func (s *Servers) Stop() {
	if s.server != nil {
		s.server.remove()
	}
}

// Server is one Postgres.
type Server struct {
	bin, dir  string
	databases atomic.Int64

	process *os.Process
	ended   chan struct{}
	output  bytes.Buffer // complete when ended is closed
}

// New starts a server for tb alone, which may do with it what it likes.
func New(tb testing.TB) *Server {
	tb.Helper()
	s, err := newServer(needs(tb))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.remove)
	return s
}

// needs finds the programs, also where Debian keeps them off the PATH, and skips tb where there are none.
func needs(tb testing.TB) string {
	tb.Helper()
	if path, err := exec.LookPath("postgres"); err == nil {
		return filepath.Dir(path)
	}
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin/postgres", "/opt/homebrew/opt/postgresql*/bin/postgres"} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return filepath.Dir(slices.Max(found))
		}
	}
	tb.Skip("Postgres is not installed: run `make postgres` (or: apt-get install postgresql)")
	return ""
}

func newServer(bin string) (s *Server, err error) {
	dir, err := os.MkdirTemp("", "leaseway-pg-") // short enough for a socket, and open to the other user
	if err != nil {
		return nil, err
	}
	s = &Server{bin: bin, dir: dir}
	defer func() {
		if err != nil {
			s.remove()
		}
	}()
	if err := give(dir); err != nil {
		return nil, err
	}
	initdb := exec.Command(filepath.Join(bin, "initdb"), //nolint:gosec,noctx // found by needs; it ends by itself
		"--pgdata", s.data(), "--username", "leaseway", "--auth", "trust", "--encoding", "UTF8", "--no-locale", "--no-sync")
	initdb.Dir = dir
	asUser(initdb)
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	if err := s.Start(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// URL names a database of the server.
func (s *Server) URL(database string) string {
	return fmt.Sprintf("postgres:///%s?host=%s&user=leaseway", database, s.dir)
}

// Database makes an empty database and returns its URL.
func (s *Server) Database(tb testing.TB) string {
	tb.Helper()
	name := fmt.Sprintf("t%d", s.databases.Add(1))
	s.Exec(tb, s.URL("postgres"), "CREATE DATABASE "+name)
	return s.URL(name)
}

// Exec runs a statement by itself.
func (s *Server) Exec(tb testing.TB, url, statement string, args ...any) {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), url)
	if err != nil {
		tb.Fatal(err)
	}
	defer conn.Close(tb.Context())
	if _, err := conn.Exec(tb.Context(), statement, args...); err != nil {
		tb.Fatal(err)
	}
}

// Start starts the server, again after Kill, and waits until it answers.
func (s *Server) Start() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	if err := s.run(); err != nil {
		return err
	}
	for {
		select {
		case <-s.ended: // what was killed may not have ended entirely
			if err := s.run(); err != nil {
				return err
			}
		default:
		}
		conn, dialErr := pgx.Connect(ctx, s.URL("postgres"))
		if dialErr == nil {
			return conn.Close(ctx)
		}
		select {
		case <-ctx.Done():
			s.Kill()
			return fmt.Errorf("postgres did not start: %w\n%s", dialErr, s.output.String())
		case <-ticker.C:
		}
	}
}

// run starts the process from a thread that lives as long, because the system ends the process with that thread.
func (s *Server) run() error {
	s.output.Reset()
	started, ended := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(ended)
		cmd := exec.Command(filepath.Join(s.bin, "postgres"), //nolint:gosec,noctx // found by needs; Kill ends it
			"-D", s.data(), "-k", s.dir,
			"-c", "listen_addresses=", "-c", "fsync=off", "-c", "shared_buffers=32MB", "-c", "max_connections=60")
		cmd.Dir = s.dir
		cmd.Stdout, cmd.Stderr = &s.output, &s.output
		asUser(cmd)
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

// Kill ends the server as a crash does.
func (s *Server) Kill() { s.signal(syscall.SIGKILL) }

func (s *Server) signal(signal os.Signal) {
	if s.process == nil {
		return
	}
	if err := s.process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		_ = s.process.Kill()
	}
	<-s.ended
}

// remove ends the server at once, with the processes that it started, and takes away its directory.
func (s *Server) remove() {
	s.signal(syscall.SIGQUIT)
	_ = os.RemoveAll(s.dir)
}
