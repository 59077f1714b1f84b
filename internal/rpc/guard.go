package rpc

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	leasewayv1 "github.com/leaseway/leaseway/gen/leaseway/v1"
)

// Admitter knows which bearer tokens are valid now: Tokens, or a file of them that is read again when it changes. The empty one
// is valid where callers without are let in.
type Admitter interface{ Allows(token string) bool }

// guard is the interceptors in front of every call: it keeps out who bears no
// token, and turns a panic into an outage of this one call. Those of unary calls
// are one that calls the next, since gRPC would make the links of a chain anew for each call.
//
//	recoverUnary ─▶ admitUnary ─▶ turnstile.pass ─▶ handler
type guard struct {
	tokens Admitter
	bare   func(peer netip.Addr) // hears who was let in without a token; may be nil
	queue  *turnstile
	logger *slog.Logger
	logged rarely

	calls, panics, rejected atomic.Int64
}

func (g *guard) recoverUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
	g.calls.Add(1)

	defer func() {
		if p := recover(); p != nil {
			resp, err = nil, g.recovered(info.FullMethod, p)
		}
	}()

	return g.admitUnary(ctx, req, info, next)
}

func (g *guard) recoverStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	g.calls.Add(1)

	defer func() {
		if p := recover(); p != nil {
			err = g.recovered(info.FullMethod, p)
		}
	}()

	return next(srv, stream)
}

func (g *guard) admitUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	bare, err := g.admit(ctx, info.FullMethod)
	if err != nil {
		return nil, err
	}

	if x, ok := req.(*exchange); ok {
		x.batch.Bare = bare // the coordinator knows its name
	} else if bare {
		g.note(ctx)
	}

	return g.queue.pass(ctx, req, info, next)
}

func (g *guard) admitStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	bare, err := g.admit(stream.Context(), info.FullMethod)
	if err != nil {
		return err
	}

	// A holder watches, and asks as well. Other streams are of services.
	if bare && info.FullMethod != leasewayv1.CoordinatorService_WatchRules_FullMethodName {
		g.note(stream.Context())
	}

	return next(srv, &guarded{ServerStream: stream, guard: g, method: info.FullMethod})
}

// guarded is a stream that ends when its token is valid no more: some go on for as long as a process lives.
type guarded struct {
	grpc.ServerStream

	guard  *guard
	method string
}

// SendMsg sends only to whom the stream would be opened now.
func (s *guarded) SendMsg(message any) error {
	if _, err := s.guard.admit(s.Context(), s.method); err != nil {
		return err
	}

	return s.ServerStream.SendMsg(message)
}

// note tells of a caller that was let in without a token.
func (g *guard) note(ctx context.Context) {
	caller, ok := peer.FromContext(ctx)
	if !ok || g.bare == nil {
		return
	}

	if addr, ok := caller.Addr.(*net.TCPAddr); ok {
		g.bare(addr.AddrPort().Addr().Unmap())
	}
}

// admit checks the token; bare says that the caller is let in without one. Health checks need none: who makes them seldom has one.
func (g *guard) admit(ctx context.Context, method string) (bare bool, err error) {
	if g.tokens == nil || strings.HasPrefix(method, "/"+healthv1.Health_ServiceDesc.ServiceName+"/") {
		return false, nil
	}

	for _, header := range metadata.ValueFromIncomingContext(ctx, "authorization") {
		scheme, token, _ := strings.Cut(header, " ")
		if strings.EqualFold(scheme, "bearer") && g.tokens.Allows(strings.TrimSpace(token)) {
			return false, nil
		}
	}

	if g.tokens.Allows("") {
		return true, nil
	}

	g.rejected.Add(1)

	return false, because(codes.Unauthenticated, reasonToken,
		"no valid bearer token (send one of the server's token file as authorization: Bearer TOKEN)")
}

// recovered counts a panic and returns what the caller gets: UNAVAILABLE, since
// to him a bug of the coordinator is an outage of it. The stack is for the log only.
func (g *guard) recovered(method string, p any) error {
	g.panics.Add(1)

	if g.logged.allow(time.Now()) {
		g.logger.Error("a panic was recovered", "method", method, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	}

	return because(codes.Unavailable, reasonPanic, "a panic was recovered; the server's log has it")
}
