package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	// echoFlag has this program be the server that echoes, until its input ends; ownEchoFlag the same, set up as ours is.
	echoFlag, ownEchoFlag = "-be-echo", "-be-echo-set-up"

	rlsRules = `rules: [{id: per-address, scope: {domain: edge, entries: [remote_address]}, keyBy: descriptor:remote_address,
  limit: 1000000000, window: 1s}]`

	// peerProgram is envoyproxy/ratelimit's, of the version in go.mod; peerLimits are the same limits for it.
	peerProgram = "github.com/envoyproxy/ratelimit/src/service_cmd"
	peerLimits  = "domain: edge\ndescriptors: [{key: remote_address, rate_limit: {unit: second, requests_per_unit: 1000000000}}]\n"
)

// startEcho starts this program again, as the server that echoes.
func startEcho() (rlsServer, error) { return echoBy(echoFlag) }

// startOwnEcho does the same, set up as ours is.
func startOwnEcho() (rlsServer, error) { return echoBy(ownEchoFlag) }

func echoBy(flag string) (rlsServer, error) {
	program, err := os.Executable()
	if err != nil {
		return rlsServer{}, err
	}

	process := exec.Command(program, flag) //nolint:noctx,gosec // itself, until its input ends

	input, err := process.StdinPipe()
	if err != nil {
		return rlsServer{}, err
	}

	output, err := process.StdoutPipe()
	if err != nil {
		return rlsServer{}, err
	}

	if err := process.Start(); err != nil {
		return rlsServer{}, err
	}

	address, err := bufio.NewReader(output).ReadString('\n')

	return rlsServer{process: process, address: address[:max(0, len(address)-1)], stop: func() {
		_ = input.Close()
		_ = process.Wait()
	}}, err
}

// beEcho echoes until the input ends, and says where.
func beEcho(stdin io.Reader, stdout io.Writer, own bool) error {
	var listen net.ListenConfig

	listener, err := listen.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}

	var options []grpc.ServerOption
	if own { // as in internal/rpc, which says why
		options = []grpc.ServerOption{
			grpc.InitialWindowSize(1 << 20), grpc.InitialConnWindowSize(4 << 20), grpc.NumStreamWorkers(8 * uint32(runtime.GOMAXPROCS(0))),
		}
	}

	server := grpc.NewServer(options...)
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "bench.Echo", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{MethodName: "Call", Handler: echoed}},
	}, nil)

	go func() {
		_, _ = io.Copy(io.Discard, stdin)

		server.Stop()
	}()

	fmt.Fprintln(stdout, listener.Addr())

	return server.Serve(listener)
}

// startServe starts leaseway with a memory store.
func startServe() (rlsServer, error) { return serveOn("memory", nil) }

// startServeOnRedis starts it with a Redis of its own.
func startServeOnRedis() (rlsServer, error) {
	return withRedis(func(port string, store *exec.Cmd) (rlsServer, error) {
		return serveOn("redis://127.0.0.1:"+port, store)
	})
}

// serveOn builds leaseway, and starts it.
func serveOn(storeURL string, store *exec.Cmd) (rlsServer, error) {
	s, err := prepare("./cmd/leaseway", "..")
	if err != nil {
		return s.rlsServer, err
	}

	rules := filepath.Join(s.dir, "rules.yaml")
	if err := os.WriteFile(rules, []byte(rlsRules), 0o600); err != nil {
		return s.rlsServer, err
	}

	s.store = store
	s.process = exec.Command(s.program, "serve", "--rules", rules, "--listen", "127.0.0.1:"+s.ports[0], //nolint:noctx,gosec // ours
		"--grpc-listen", "127.0.0.1:"+s.ports[1], "--data-dir", filepath.Join(s.dir, "data"), "--store", storeURL)

	return s.start()
}

// startPeer starts envoyproxy/ratelimit with a Redis of its own.
func startPeer() (rlsServer, error) {
	return withRedis(func(port string, store *exec.Cmd) (rlsServer, error) {
		s, err := prepare(peerProgram, ".")
		if err != nil {
			return s.rlsServer, err
		}

		config := filepath.Join(s.dir, "config")
		if err := os.Mkdir(config, 0o700); err != nil {
			return s.rlsServer, err
		}

		if err := os.WriteFile(filepath.Join(config, "limits.yaml"), []byte(peerLimits), 0o600); err != nil {
			return s.rlsServer, err
		}

		s.store = store
		s.process = exec.Command(s.program) //nolint:noctx,gosec // built just now
		s.process.Env = append(s.process.Environ(), "USE_STATSD=false", "LOG_LEVEL=error",
			"REDIS_SOCKET_TYPE=tcp", "REDIS_URL=127.0.0.1:"+port,
			"RUNTIME_ROOT="+s.dir, "RUNTIME_SUBDIRECTORY=", "RUNTIME_WATCH_ROOT=false", "HOST=127.0.0.1", "GRPC_HOST=127.0.0.1",
			"DEBUG_HOST=127.0.0.1", "PORT="+s.ports[0], "GRPC_PORT="+s.ports[1], "DEBUG_PORT="+s.ports[2])

		return s.start()
	})
}

// withRedis starts a server with a Redis of its own, which ends with it.
func withRedis(start func(port string, store *exec.Cmd) (rlsServer, error)) (rlsServer, error) {
	client, store, err := redisProcess(context.Background())
	if err != nil {
		return rlsServer{}, err
	}

	stop := func() {
		_ = store.Process.Kill()
		_ = store.Wait()
	}
	_, port, _ := net.SplitHostPort(client.Options().Addr) // which was made of it
	_ = client.Close()

	server, err := start(port, store)
	if err != nil {
		stop()

		return rlsServer{}, err
	}

	end := server.stop
	server.stop = func() { end(); stop() }

	return server, nil
}

// toStart is a server to be started, in a directory of its own.
type toStart struct {
	rlsServer

	dir, program string
	ports        [3]string // the second is for calls
}

// prepare builds the program of a package, as seen from a directory.
func prepare(pkg, from string) (b toStart, err error) {
	if b.dir, err = os.MkdirTemp("", "bench-rls"); err != nil {
		return b, err
	}

	if b.program, err = build(pkg, from); err != nil {
		return b, err
	}

	for i := range b.ports {
		if b.ports[i], err = freePort(context.Background()); err != nil {
			return b, err
		}
	}

	b.address = "127.0.0.1:" + b.ports[1]

	return b, nil
}

// start starts it, and waits for it to answer.
func (b *toStart) start() (rlsServer, error) {
	if err := b.process.Start(); err != nil {
		return b.rlsServer, err
	}

	b.stop = func() {
		_ = b.process.Process.Signal(os.Interrupt)
		_ = b.process.Wait()
		_ = os.RemoveAll(b.dir)
	}

	conn, err := grpc.NewClient(b.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return b.rlsServer, err
	}

	defer func() { _ = conn.Close() }()

	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()

	_, err = rlsv3.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, rlsRequest(0), grpc.WaitForReady(true))
	if err != nil {
		b.stop()
	}

	return b.rlsServer, err
}
