//go:build unix

// Package proctest has what tests need that run programs: processes that end with their test, what they wrote, and waiting for
// what should come soon. It is for tests alone.
//
//	Start ──▶ runs ──Finish: SIGTERM──▶ ended
//	           │ └────Kill: SIGKILL, or the end of the test, or of the process that tests──▶ ended
//	           └──Signal: whatever else
package proctest

import (
	"context"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// Process is a program that ends with its test at the latest.
type Process struct {
	Stdin io.WriteCloser
	Log   *Transcript     // of both outputs
	Ended <-chan struct{} // closed once it has

	cmd *exec.Cmd
}

// Start runs a command whose inputs and outputs are not set. A program that stops at the end of its standard input ends even if the
// process that tests is killed. What a program of a failed test wrote is logged.
func Start(t *testing.T, cmd *exec.Cmd) *Process {
	t.Helper()

	ended := make(chan struct{})
	p := &Process{Log: &Transcript{}, Ended: ended, cmd: cmd}
	cmd.Stdout, cmd.Stderr = p.Log, p.Log
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}

	cmd.SysProcAttr.Setpgid = true // an interrupt from the terminal is for the test

	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}

	p.Stdin = stdin

	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}

	go func() {
		defer close(ended)

		_ = cmd.Wait() // how it ended is for the test to say
	}()

	t.Cleanup(func() {
		p.Kill()

		if t.Failed() {
			t.Logf("%s said:\n%s", filepath.Base(cmd.Path), p.Log)
		}
	})

	return p
}

// PID is the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// ExitCode is what the process said as it ended; -1 for one that has not, or that a signal ended.
func (p *Process) ExitCode() int {
	select {
	case <-p.Ended:
		return p.cmd.ProcessState.ExitCode()
	default:
		return -1
	}
}

// Kill ends the process without asking it, and waits until it is gone.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.Ended

	_ = p.Stdin.Close()
}

// Signal sends s, if the process still lives.
func (p *Process) Signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// Finish asks the process to stop, and waits until it has.
func (p *Process) Finish(t *testing.T) {
	t.Helper()
	p.Signal(syscall.SIGTERM)

	ended := func() bool {
		select {
		case <-p.Ended:
			return true
		default:
			return false
		}
	}

	if !Within(Patience, ended) {
		t.Fatalf("%v does not stop", p.cmd.Args)
	}
}

// Answers waits until somebody listens at address, and fails if the process ends before that.
func (p *Process) Answers(t *testing.T, address string) {
	t.Helper()
	p.Eventually(t, "listens at "+address, func() bool { return listens(t.Context(), address) })
}

func listens(ctx context.Context, address string) bool {
	var dialer net.Dialer

	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err == nil {
		_ = conn.Close()
	}

	return err == nil
}

// Eventually waits until a condition holds, and fails if the process ends before that.
func (p *Process) Eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	Eventually(t, what, func() bool {
		if holds() {
			return true
		}

		select {
		case <-p.Ended:
			t.Fatalf("%v ended before: %s", p.cmd.Args, what)
		default:
		}

		return false
	})
}
