package main

import (
	"context"
	"fmt"
	"os/exec"
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
	rlsTime   = time.Second     // of one measurement
	storeTime = 5 * time.Second // of one of a store that has little to do: its time is counted in hundredths of a second
	rlsKeys   = 1 << 10         // addresses, unless a column says otherwise
)

// rlsColumn is how many connections and addresses there are, for how long, and what of it counts.
type rlsColumn struct {
	connections, keys int
	time              time.Duration
	of                func(rlsUse) time.Duration
	name              string
}

// rlsUse is what a second of calls took.
type rlsUse struct{ server, store, wall time.Duration }

func rlsColumns() []rlsColumn {
	server := func(u rlsUse) time.Duration { return u.server }
	store := func(u rlsUse) time.Duration { return u.store }
	wall := func(u rlsUse) time.Duration { return u.wall }

	return []rlsColumn{
		{16, rlsKeys, rlsTime, server, "µs of the server, 16 connections"},
		{64, rlsKeys, rlsTime, server, "µs of the server, 64 connections"},
		{16, rlsKeys, rlsTime, wall, "µs from answer to answer, 16"},
		{64, rlsKeys, rlsTime, wall, "µs from answer to answer, 64"},
		{64, rlsKeys, storeTime, store, "µs of Redis, 64"},
		{64, 16, rlsTime, server, "µs of the server, 64, for 16 addresses"},
		{64, 16, storeTime, store, "µs of Redis, 64, for 16 addresses"},
	}
}

const rlsAbout = "ShouldRateLimit with one descriptor of 1,024 addresses. `leaseway serve` answers with a status, five header fields and " +
	"metadata; %s. Each server is a process of its own, with a Redis of its own where it needs one; each connection has one call " +
	"under way. Processor time for each call, and the time in which one call follows another: the callers share the machine."

// rls measures what Envoy's calls cost beside what gRPC costs.
func rls() contest {
	return rlsContest(contest{
		name: "rls", title: "Calls of Envoy's rate limit service", goal: 1.15, against: "the echo",
		about: fmt.Sprintf(rlsAbout, "the echo is a gRPC server, with grpc-go's defaults, that sends the bytes of the request back"),
		entrants: []entrant{
			serving("gRPC that sends the request back", peer, startEcho, echoCall),
			serving("leaseway serve", ours, startServe, rlsCall),
		},
	}, rlsColumns()[:4])
}

// rlsPeer measures what they cost beside envoyproxy/ratelimit, both on Redis.
func rlsPeer() contest {
	return rlsContest(contest{
		name: "rls-peer", title: "Calls of Envoy's rate limit service, beside envoyproxy/ratelimit",
		goal: 0.65, against: "envoyproxy/ratelimit",
		about: fmt.Sprintf(rlsAbout, "envoyproxy/ratelimit with a status, as it does unless told otherwise, without statsd"),
		entrants: redisOnly([]entrant{
			serving("envoyproxy/ratelimit", peer, startPeer, statusCall),
			serving("leaseway serve", ours, startServeOnRedis, rlsCall),
		}), needs: needsRedis,
	}, rlsColumns())
}

// rlsContest has the contest measure columns.
func rlsContest(c contest, columns []rlsColumn) contest {
	for _, column := range columns {
		c.columns = append(c.columns, column.name)
	}

	return c
}

// rlsServer is a process that answers at an address.
type rlsServer struct {
	process *exec.Cmd
	store   *exec.Cmd // its Redis; nil without
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

		for n := range max(1, column.keys/len(conns)) { // connected, and the keys known
			if err := do(context.Background(), conn, int64(n*len(conns)+i)%int64(column.keys)); err != nil {
				return sample{}, err
			}
		}
	}

	ctx, cancel := context.WithTimeout(context.Background(), column.time)
	defer cancel()

	var (
		done  atomic.Int64
		calls sync.WaitGroup
	)

	began, server, store := time.Now(), usedByFamily(s.process), usedByFamily(s.store)

	for i, conn := range conns {
		calls.Go(func() {
			for n := int64(i); ctx.Err() == nil; n += 7 {
				if do(context.WithoutCancel(ctx), conn, n%int64(column.keys)) == nil {
					done.Add(1)
				}
			}
		})
	}

	calls.Wait()

	spent := column.of(rlsUse{usedByFamily(s.process) - server, usedByFamily(s.store) - store, time.Since(began)})

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

// statusCall expects no more of the answer than the status.
func statusCall(ctx context.Context, conn *grpc.ClientConn, n int64) error {
	response, err := rlsv3.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, rlsRequest(n))
	if err == nil && (response.GetOverallCode() != rlsv3.RateLimitResponse_OK || response.GetStatuses()[0].GetCurrentLimit() == nil) {
		return fmt.Errorf("answered %v", response)
	}

	return err
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
