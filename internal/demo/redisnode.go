package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os/exec"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// RedisCommand is the hidden command that runs a Redis server until its standard input ends.
const RedisCommand = "demo-redis"

// redisProgram is the server that a cluster is made of.
const redisProgram = "redis-server"

// findRedis returns where the server is installed. The error says what to do where it is not.
func findRedis() (string, error) {
	path, err := exec.LookPath(redisProgram)
	if err != nil {
		return "", fmt.Errorf("%s is not on the PATH: install it (Debian and Ubuntu: apt-get install redis-server; macOS: brew install "+
			"redis), or run the demo without --redis", redisProgram)
	}

	return path, nil
}

// RunRedis runs the Redis server args[0] with the other args until in ends or it does, and writes a line with its address
// to out as soon as it answers. It is killed as it is: nothing that it keeps is worth keeping.
func RunRedis(in io.Reader, args []string, out io.Writer) error {
	if len(args) < 3 || args[1] != "--port" {
		return errors.New("the arguments are not PROGRAM --port PORT …")
	}

	server := exec.Command(args[0], args[1:]...) //nolint:gosec,noctx // of the demo's own; it ends with in
	server.Stdout, server.Stderr = out, out

	if err := server.Start(); err != nil {
		return err
	}

	ended := make(chan struct{})

	go func() {
		_, _ = io.Copy(io.Discard, in) // a failure is an end, too
		_ = server.Process.Kill()      // it may have ended
	}()

	go announce(net.JoinHostPort("127.0.0.1", args[2]), ended, slog.New(slog.NewJSONHandler(out, nil)))

	err := server.Wait()

	close(ended)

	return err
}

// announce says that the server at address answers when it does.
func announce(address string, ended <-chan struct{}, log *slog.Logger) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()

	for !pings(address) {
		select {
		case <-ended:
			return
		case <-tick.C:
		}
	}

	log.Info(listening, "redis", address)
}

// pings reports whether a Redis server at address answers.
func pings(address string) bool {
	conn, err := net.DialTimeout("tcp", address, time.Second) //nolint:noctx // it is bounded
	if err != nil {
		return false
	}
	defer conn.Close()

	_ = conn.SetDeadline(time.Now().Add(time.Second)) // of a connection that is open
	_, _ = io.WriteString(conn, "PING\r\n")           // or else nothing is read
	answer, err := bufio.NewReader(conn).ReadString('\n')

	return err == nil && strings.HasPrefix(answer, "+PONG")
}

// redisNode is one server of the demo's cluster.
type redisNode struct {
	*child

	at      string // host:port
	port    string
	busPort string
	client  rueidis.Client
	calls   int64 // of functions, as it last said
}

// startRedisNode starts the server, which works in dir.
func startRedisNode(ctx context.Context, program, server, dir string) (*redisNode, error) {
	addresses, err := freeAddresses(2)
	if err != nil {
		return nil, err
	}

	n := &redisNode{at: addresses[0]}
	_, n.port, _ = net.SplitHostPort(addresses[0]) // which an address of ours has
	_, n.busPort, _ = net.SplitHostPort(addresses[1])

	n.child, err = startProcess(ctx, program, "the Redis server at "+n.at,
		RedisCommand, server, "--port", n.port, "--bind", "127.0.0.1", "--protected-mode", "no", "--dir", dir, "--save", "",
		"--appendonly", "no", "--loglevel", "warning", "--cluster-enabled", "yes", "--cluster-port", n.busPort,
		"--cluster-config-file", n.port+".conf", "--cluster-node-timeout", "1000", "--cluster-require-full-coverage", "no",
		"--cluster-replica-validity-factor", "0",
		"--repl-diskless-sync-delay", "0")
	if err != nil {
		return nil, err
	}

	n.client, err = rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{n.at}, ForceSingleClient: true, DisableCache: true, DisableRetry: true,
		Dialer: net.Dialer{Timeout: time.Second},
	})
	if err != nil {
		n.end()

		return nil, fmt.Errorf("start %s: %w", n.name, err)
	}

	return n, nil
}

// end kills the server (SIGKILL), and waits until it is gone.
func (n *redisNode) end() {
	if n.client != nil {
		n.client.Close()
		n.client = nil
	}

	_ = n.stdin.Close() // which its keeper takes for the end
	<-n.ended
}

// do sends one command, and returns its answer as text.
func (n *redisNode) do(ctx context.Context, command ...string) (string, error) {
	text, err := n.client.Do(ctx, n.client.B().Arbitrary(command...).Build()).ToString()
	if err != nil {
		return "", fmt.Errorf("%s, %s: %w", n.name, strings.Join(command, " "), err)
	}

	return text, nil
}
