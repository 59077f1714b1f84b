//go:build unix

package faults

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/leaseway/leaseway"
	leasewayv1 "github.com/leaseway/leaseway/gen/leaseway/v1"
)

// relay is a gRPC server that passes calls on to a real coordinator, with an interceptor that does so badly.
type relay struct {
	leasewayv1.UnimplementedCoordinatorServiceServer

	upstream leasewayv1.CoordinatorServiceClient
	address  string
	bad      atomic.Pointer[grpc.UnaryServerInterceptor]
}

func newRelay(t *testing.T, upstream string) *relay {
	t.Helper()

	conn, err := grpc.NewClient(upstream, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	r := &relay{upstream: leasewayv1.NewCoordinatorServiceClient(conn), address: listener.Addr().String()}
	server := grpc.NewServer(grpc.UnaryInterceptor(
		func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			if bad := r.bad.Load(); bad != nil {
				return (*bad)(ctx, req, info, next)
			}

			return next(ctx, req)
		}))
	leasewayv1.RegisterCoordinatorServiceServer(server, r)

	var work sync.WaitGroup

	work.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		server.Stop()
		_ = conn.Close()
		work.Wait()
	})

	return r
}

// Acquire passes a call on.
func (r *relay) Acquire(ctx context.Context, req *leasewayv1.AcquireRequest) (*leasewayv1.AcquireResponse, error) {
	return r.upstream.Acquire(ctx, req)
}

// WatchRules passes a stream on.
func (r *relay) WatchRules(req *leasewayv1.WatchRulesRequest, out grpc.ServerStreamingServer[leasewayv1.WatchRulesResponse]) error {
	in, err := r.upstream.WatchRules(out.Context(), req)
	if err != nil {
		return err
	}

	for {
		msg, err := in.Recv()
		if err != nil {
			return err
		}

		if err := out.Send(msg); err != nil {
			return err
		}
	}
}

// Asks and answers that are lost, doubled, late or not the right ones never admit a request too many, and when that is
// over the limit is whole.
func TestAnswersLostDoubledLateAndForeign(t *testing.T) {
	const rate, burst = 2_000, 500

	var calls atomic.Int64

	var old atomic.Pointer[any]

	for _, fault := range []struct {
		name string
		bad  grpc.UnaryServerInterceptor
	}{
		{"lost", func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			resp, err := next(ctx, req)
			if calls.Add(1)%3 == 0 {
				return nil, status.Error(codes.Unavailable, "the answer is lost")
			}

			return resp, err
		}},
		{"doubled", func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			_, _ = next(ctx, req)

			return next(ctx, req)
		}},
		{"late", func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			resp, err := next(ctx, req)
			if calls.Add(1)%5 == 0 {
				<-ctx.Done() // it comes when nobody waits any more
			}

			return resp, err
		}},
		{"foreign", func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			resp, err := next(ctx, req)
			if last := old.Swap(&resp); last != nil && calls.Add(1)%4 == 0 {
				return *last, nil // of another call, or another holder
			}

			return resp, err
		}},
	} {
		t.Run(fault.name, func(t *testing.T) {
			c := newCoordinator(t, "rules: [{id: r, keyBy: user, limit: 2000, window: 1s, burst: 500}]")
			r := newRelay(t, c.grpc)
			fleet := dial(t, 3, []string{r.address})
			clock := watchClock(t)
			tr := send(t, fleet, load{rule: "r", key: "k", goroutines: 2})

			tr.more(t, 500)
			old.Store(nil)
			r.bad.Store(&fault.bad)

			before := calls.Load()

			tr.more(t, 5_000)

			if fault.name != "doubled" && calls.Load() == before {
				t.Error("nothing went wrong: the test says nothing")
			}

			r.bad.Store(nil)
			eventually(t, "all are well", func() bool { return well(fleet) })

			healed := tr.of(leaseway.OriginLease, leaseway.OriginStore)

			tr.more(t, 2_000)
			tr.stop()
			tr.punctual(t, clock)

			leased := tr.of(leaseway.OriginLease, leaseway.OriginStore)
			if over := excess(leased, burst, rate); over > 0 {
				t.Errorf("a window admitted %.1f above burst + rate × time", over)
			}

			if over := excess(tr.of(leaseway.OriginLocal), 0.8*burst, 0.8*rate); over > 0 {
				t.Errorf("without a coordinator a window admitted %.1f above the holders' shares", over)
			}

			if len(leased) <= len(healed) {
				t.Error("nothing was admitted after it was over")
			}

			for i, l := range fleet {
				if s := l.Stats(); s.Panics > 0 {
					t.Errorf("holder %d: %+v", i, s)
				}
			}
		})
	}
}
