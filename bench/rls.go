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
	"sync"
	"sync/atomic"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	rlsTime = time.Second // of one measurement
	rlsKeys = 1 << 10

	// echoFlag has this program be the server that echoes, until its input ends.
	echoFlag = "-be-echo"

	rlsRules = `rules: [{id: per-address, scope: {domain: edge, entries: [remote_address]}, keyBy: descriptor:remote_address,
  limit: 1000000000, window: 1s}]`
)

// rlsColumn is how many connections there are, and what of them counts.
type rlsColumn struct {
	connections int
	wall        bool // the time from one answer to the next, instead of the server's processor time
	name        string
}

func rlsColumns() []rlsColumn {
	return []rlsColumn{
		{16, false, "µs of the server, 16 connections"}, {64, false, "µs of the server, 64 connections"},
		{16, true, "µs from answer to answer, 16"}, {64, true, "µs from answer to answer, 64"},
	}
}

// rls measures what Envoy's calls cost.
func rls() contest {
	c := contest{
		name: "rls", title: "Calls of Envoy's rate limit service", goal: 1.15, against: "the echo",
		about: "ShouldRateLimit with one descriptor of 1,024 keys, which `leaseway serve` answers with a status, five header fields " +
			"and metadata. The echo is a gRPC server, with grpc-go's defaults, that sends the bytes of the request back. " +
			"Each server is a process of its own; each connection has one call under way. Processor time of the server for each " +
			"call, and the time in which one call follows another: the callers share the machine.",
		entrants: []entrant{
			serving("gRPC that sends the request back", peer, startEcho, echoCall),
			serving("leaseway serve", ours, startServe, rlsCall),
		},
	}

	for _, column := range rlsColumns() {
		c.columns = append(c.columns, column.name)
	}

	return c
}

// rlsServer is a process that answers at an address.
type rlsServer struct {
	process *exec.Cmd
	address string
	stop    func()
}

// call makes one call, with the n-th key.
type call func(ctx context.Context, conn *grpc.ClientConn, n int64) error

func serving(name string, side side, start func() (rlsServer, error), do call) entrant {
	return entrant{name: name, side: side, measure: func(column int) (sample, error) {
		server, err := start()
		if err != nil {
			return sample{}, err
		}

		defer server.stop()

		return server.measure(rlsColumns()[column], do)
	}}
}

// measure calls the server over all connections at once.
func (s rlsServer) measure(column rlsColumn, do call) (sample, error) {
	conns := make([]*grpc.ClientConn, column.connections)

	defer func() {
		for _, conn := range conns {
			if conn != nil {
				_ = conn.Close()
			}
		}
	}()

	for i := range conns {
		conn, err := grpc.NewClient(s.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return sample{}, err
		}

		conns[i] = conn

		for n := range rlsKeys / len(conns) { // connected, and the keys known
			if err := do(context.Background(), conn, int64(n*len(conns)+i)); err != nil {
				return sample{}, err
			}
		}
	}

	ctx, cancel := context.WithTimeout(context.Background(), rlsTime)
	defer cancel()

	var (
		done  atomic.Int64
		calls sync.WaitGroup
	)

	began, used := time.Now(), usedBy([]*exec.Cmd{s.process})

	for i, conn := range conns {
		calls.Go(func() {
			for n := int64(i); ctx.Err() == nil; n += 7 {
				if do(context.WithoutCancel(ctx), conn, n) == nil {
					done.Add(1)
				}
			}
		})
	}

	calls.Wait()

	spent, took := usedBy([]*exec.Cmd{s.process})-used, time.Since(began)
	if column.wall {
		spent = took
	}

	if done.Load() == 0 {
		return sample{}, fmt.Errorf("%s answered no call", s.address)
	}

	return sample{value: float64(spent.Microseconds()) / float64(done.Load())}, nil
}

func rlsRequest(n int64) *rlsv3.RateLimitRequest {
	return &rlsv3.RateLimitRequest{Domain: "edge", Descriptors: []*commonv3.RateLimitDescriptor{{
		Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "remote_address", Value: fmt.Sprintf("10.0.%d.%d", n%rlsKeys/256, n%256)}},
	}}}
}

func rlsCall(ctx context.Context, conn *grpc.ClientConn, n int64) error {
	response, err := rlsv3.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, rlsRequest(n))
	if err == nil && (response.GetOverallCode() != rlsv3.RateLimitResponse_OK || len(response.GetResponseHeadersToAdd()) == 0) {
		return fmt.Errorf("answered %v", response)
	}

	return err
}

func echoCall(ctx context.Context, conn *grpc.ClientConn, n int64) error {
	wire, err := proto.Marshal(rlsRequest(n))
	if err != nil {
		return err
	}

	return conn.Invoke(ctx, echoMethod, wrapperspb.Bytes(wire), &wrapperspb.BytesValue{})
}

// startEcho starts this program again, as the server that echoes.
func startEcho() (rlsServer, error) {
	program, err := os.Executable()
	if err != nil {
		return rlsServer{}, err
	}

	process := exec.Command(program, echoFlag) //nolint:noctx,gosec // itself, until its input ends

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

	return rlsServer{process, address[:max(0, len(address)-1)], func() {
		_ = input.Close()
		_ = process.Wait()
	}}, err
}

// beEcho echoes until the input ends, and says where.
func beEcho(stdin io.Reader, stdout io.Writer) error {
	var listen net.ListenConfig

	listener, err := listen.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}

	server := grpc.NewServer()
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

// startServe builds leaseway, and starts it with a memory store.
func startServe() (rlsServer, error) {
	dir, err := os.MkdirTemp("", "bench-rls")
	if err != nil {
		return rlsServer{}, err
	}

	program, rules := filepath.Join(dir, "leaseway"), filepath.Join(dir, "rules.yaml")

	if err := build(program); err != nil {
		return rlsServer{}, err
	}

	if err := os.WriteFile(rules, []byte(rlsRules), 0o600); err != nil {
		return rlsServer{}, err
	}

	var ports [2]string
	for i := range ports {
		if ports[i], err = freePort(context.Background()); err != nil {
			return rlsServer{}, err
		}
	}

	process := exec.Command(program, "serve", "--rules", rules, "--listen", "127.0.0.1:"+ports[0], //nolint:noctx,gosec // ours
		"--grpc-listen", "127.0.0.1:"+ports[1], "--data-dir", filepath.Join(dir, "data"))
	if err := process.Start(); err != nil {
		return rlsServer{}, err
	}

	server := rlsServer{process, "127.0.0.1:" + ports[1], func() {
		_ = process.Process.Signal(os.Interrupt)
		_ = process.Wait()
		_ = os.RemoveAll(dir)
	}}

	conn, err := grpc.NewClient(server.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return server, err
	}

	defer func() { _ = conn.Close() }()

	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()

	_, err = rlsv3.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, rlsRequest(0), grpc.WaitForReady(true))
	if err != nil {
		server.stop()
	}

	return server, err
}
