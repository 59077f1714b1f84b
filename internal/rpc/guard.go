package rpc

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
)

// Admitter knows which bearer tokens are valid now: Tokens, or a file of them that is read again when it changes. The empty one
// is valid where none is asked for.
type Admitter interface{ Allows(token string) bool }

// guard is the interceptors in front of every call: it keeps out who bears no
// token, and turns a panic into an outage of this one call.
type guard struct {
	tokens Admitter
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

	return next(ctx, req)
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
	if err := g.admit(ctx, info.FullMethod); err != nil {
		return nil, err
	}

	return next(ctx, req)
}

func (g *guard) admitStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if err := g.admit(stream.Context(), info.FullMethod); err != nil {
		return err
	}

	return next(srv, stream)
}

// admit checks the token. Health checks need none: who makes them seldom has one.
func (g *guard) admit(ctx context.Context, method string) error {
	if g.tokens == nil || strings.HasPrefix(method, "/"+healthv1.Health_ServiceDesc.ServiceName+"/") {
		return nil
	}

	for _, header := range metadata.ValueFromIncomingContext(ctx, "authorization") {
		scheme, token, _ := strings.Cut(header, " ")
		if strings.EqualFold(scheme, "bearer") && g.tokens.Allows(strings.TrimSpace(token)) {
			return nil
		}
	}

	if g.tokens.Allows("") {
		return nil // none is asked for
	}

	g.rejected.Add(1)

	return because(codes.Unauthenticated, reasonToken,
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
