package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// roleFlag has this program be a server of HTTP for another one of its kind, until its input ends. Its role follows.
const roleFlag = "-be"

// The roles that this program can take.
const (
	roleAPI        = "api"           // answers a page
	rolePlainProxy = "reverse-proxy" // passes on to the address that follows
	roleYes        = "yes"           // answers 204 to all
)

// server is a process that answers at an address.
type server struct {
	process *exec.Cmd // nil for none to be measured
	address string
	stops   []func()
}

// stop ends the process, and those that it was started with.
func (s server) stop() {
	for _, stop := range s.stops {
		stop()
	}
}

// with returns s as a server that stops another one, too.
func (s server) with(other server) server {
	s.stops = append(s.stops, other.stop)

	return s
}

// be serves in a role until stdin ends, and says where.
func be(role []string, stdin io.Reader, stdout io.Writer) error {
	var handler http.Handler

	switch {
	case len(role) == 1 && role[0] == roleAPI:
		page := []byte(strings.Repeat("x", pageBytes))
		handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(page) })
	case len(role) == 1 && role[0] == roleYes:
		handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	case len(role) == 2 && role[0] == rolePlainProxy:
		handler = plainProxy(role[1])
	default:
		return fmt.Errorf("%s %q is no role of this program", roleFlag, role)
	}

	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // at once
	if err != nil {
		return err
	}

	serving := &http.Server{Handler: handler} //nolint:gosec // for callers of ours

	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		_ = serving.Close()
	}()

	fmt.Fprintln(stdout, listener.Addr())

	_ = serving.Serve(listener) // until Close

	return nil
}

// beside starts this program again in a role.
func beside(role ...string) (server, error) {
	self, err := os.Executable()
	if err != nil {
		return server{}, err
	}

	process := exec.Command(self, append([]string{roleFlag}, role...)...) //nolint:noctx,gosec // itself, until its input ends

	input, err := process.StdinPipe()
	if err != nil {
		return server{}, err
	}

	output, err := process.StdoutPipe()
	if err != nil {
		return server{}, err
	}

	if err := process.Start(); err != nil {
		return server{}, err
	}

	address, err := bufio.NewReader(output).ReadString('\n')

	return server{process, strings.TrimSpace(address), []func(){func() {
		_ = input.Close()
		_ = process.Wait()
	}}}, err
}

// built builds the program of this repository, and starts it with rules, and arguments that --listen is added to.
func built(dir, rules string, args ...string) (server, error) {
	document := filepath.Join(dir, "rules.yaml")

	path, err := build("./cmd/leaseway", "..")
	if err != nil {
		return server{}, err
	}

	if err := os.WriteFile(document, []byte(rules), 0o600); err != nil {
		return server{}, err
	}

	address, err := freeAddress()
	if err != nil {
		return server{}, err
	}

	args = append(args, "--rules", document, "--listen", address, "--data-dir", filepath.Join(dir, "data"))

	return program(address, exec.Command(path, args...)) //nolint:gosec,noctx // ours
}

// build builds the program of a package, as seen from a directory, and says where it is. Where one already is that is up to date
// nothing is linked again: this is called once for each measurement.
func build(pkg, from string) (program string, err error) {
	program, err = filepath.Abs(filepath.Join("..", ".bin", "bench-"+filepath.Base(pkg)))
	if err != nil {
		return "", err
	}

	compiler := exec.Command("go", "build", "-o", program, pkg) //nolint:noctx,gosec // of this module and its requirements
	compiler.Dir = from

	if out, err := compiler.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
	}

	return program, nil
}

// program starts a process that listens at an address and ends by an interrupt.
func program(address string, process *exec.Cmd) (server, error) {
	if err := process.Start(); err != nil {
		return server{}, err
	}

	s := server{process, address, []func(){func() {
		_ = process.Process.Signal(os.Interrupt)
		_ = process.Wait()
	}}}

	if err := untilListens(address); err != nil {
		s.stop()

		return server{}, fmt.Errorf("%s: %w", process.Path, err)
	}

	return s, nil
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // at once
	if err != nil {
		return "", err
	}

	return listener.Addr().String(), listener.Close()
}

func untilListens(address string) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()

	var err error

	for range 3000 { // 30 s, on a machine that has other things to do
		var conn net.Conn
		if conn, err = net.Dial("tcp", address); err == nil { //nolint:noctx // as above
			return conn.Close()
		}

		<-tick.C
	}

	return err
}
