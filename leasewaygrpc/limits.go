// Package leasewaygrpc limits gRPC calls: interceptors for servers and for clients ask a [leaseway.Limiter] about each call, and
// answer for the handler when a rule refuses.
//
//	call ──▶ exempt method? ──yes──────────────────────────────────────────────────▶ handler
//	              │ no                                                                  ▲
//	              ▼                                                                     │
//	   attributes: peer, metadata, method, class ──▶ Limiter.Decide ──allowed──▶ hold for its delay
//	                                                      │ refused                     │ nobody waits any more
//	                                                      ▼                             ▼
//	                                    RESOURCE_EXHAUSTED or UNAVAILABLE        Limiter.Refund
//	                                    RetryInfo, QuotaFailure, ErrorInfo
//	                                    trailer grpc-retry-pushback-ms
//
// RESOURCE_EXHAUSTED is for the caller's budget, UNAVAILABLE for the system's state. gRPC itself uses both, for messages that are too
// large and connections that break, so ErrorInfo has the domain "leaseway" and the reason. Rules see a call as a request of method
// POST whose path is the full method, /package.Service/Method, with metadata as headers. The package's neighbours are the SDK below
// and leasewayhttp beside it, which does the same for net/http and knows whose address a request has.
package leasewaygrpc

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/mishap"
)

// Limits are the interceptors over one Limiter. They are safe for concurrent use, by any number of servers and clients.
//
//	limits := leasewaygrpc.New(limiter)
//	server := grpc.NewServer(grpc.ChainUnaryInterceptor(limits.UnaryServer), grpc.ChainStreamInterceptor(limits.StreamServer))
type Limits struct {
	limiter *leaseway.Limiter
	config  config
	bugs    mishap.Log
}

// New returns Limits that ask limiter. Without options every call is decided, but for health checks; streams are decided at
// their start; and the caller's address is the peer's.
func New(limiter *leaseway.Limiter, opts ...Option) *Limits {
	l := &Limits{limiter: limiter, config: defaultConfig()}
	for _, opt := range opts {
		opt.apply(&l.config)
	}
	l.bugs.Logger = l.config.logger
	return l
}

// Panics returns how many bugs were contained since the start; the calls were served.
func (l *Limits) Panics() int64 { return l.bugs.Count() }

// UnaryServer is a grpc.UnaryServerInterceptor. A slot of a concurrency rule comes back when the handler returns or panics.
func (l *Limits) UnaryServer(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if l.isFree(info.FullMethod) {
		return handler(ctx, req)
	}
	d, err := l.admit(ctx, l.incoming(ctx, info.FullMethod))
	if err != nil {
		_ = grpc.SetTrailer(ctx, pushback(&d)) // it fails when there is no call, as in a test of a handler
		return nil, err
	}
	defer l.limiter.Done(d)
	defer l.begin()()
	return handler(ctx, req)
}

// StreamServer is a grpc.StreamServerInterceptor. A slot comes back when the handler returns or panics.
func (l *Limits) StreamServer(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if l.isFree(info.FullMethod) {
		return handler(srv, stream)
	}
	d, err := l.admit(stream.Context(), l.incoming(stream.Context(), info.FullMethod))
	if err != nil {
		stream.SetTrailer(pushback(&d))
		return err
	}
	defer l.limiter.Done(d)
	defer l.begin()()
	messages := l.messages()
	if messages == nil || !info.IsClientStream {
		return handler(srv, stream)
	}
	counted := &countedStream{ServerStream: stream, limits: l, rule: messages, key: l.config.messageKey(stream.Context())}
	if err := handler(srv, counted); counted.refused == nil {
		return err
	}
	return counted.refused // whatever the handler made of it
}

// begin tells the worker shedder that a worker is busy, until what it returns is called.
func (l *Limits) begin() (end func()) {
	if !l.limiter.Measures() {
		return func() {}
	}
	l.limiter.Begin(0)
	return l.limiter.End
}

// admit decides, and holds a call until its turn. The error is a status. After a panic the call is served: a bug in the limiter
// must not become an outage of the API.
func (l *Limits) admit(ctx context.Context, req *leaseway.Request) (leaseway.Decision, error) {
	return l.settle(ctx, func() leaseway.Decision { return l.limiter.Decide(ctx, *req) })
}

// settle is admit with a decision of any kind.
func (l *Limits) settle(ctx context.Context, decide func() leaseway.Decision) (d leaseway.Decision, err error) {
	d.Allowed = true
	defer func() {
		if cause := recover(); cause != nil {
			l.bugs.Note("deciding a call, which was served unless it was refused before", cause)
		}
	}()
	d = decide()
	if !d.Allowed {
		err = l.refusal(&d).Err()
		return d, err
	}
	if d.Delay > 0 && !hold(ctx, d.Delay) {
		l.limiter.Refund(d)
		l.limiter.Done(d)
		return leaseway.Decision{}, status.Error(gone(ctx), "the call would wait for longer than its caller does")
	}
	return d, nil
}

// hold waits for a turn, and reports whether somebody still waits for the call then.
func hold(ctx context.Context, delay time.Duration) bool {
	if end, ok := ctx.Deadline(); ok && time.Until(end) < delay {
		return false
	}
	turn := time.NewTimer(delay)
	defer turn.Stop()
	select {
	case <-turn.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// gone is the code of a call that nobody waits for: canceled, or else its time is over, or will be before its turn.
func gone(ctx context.Context) codes.Code {
	if errors.Is(ctx.Err(), context.Canceled) {
		return codes.Canceled
	}
	return codes.DeadlineExceeded
}

// messages is the rule that messages are counted by; nil for none, or while it is not in force: then everything is allowed.
func (l *Limits) messages() *leaseway.Rule {
	if l.config.messageRule == "" {
		return nil
	}
	r, _ := l.limiter.Rule(l.config.messageRule)
	return r
}

// countedStream charges for each message after the first, which the call paid for.
type countedStream struct {
	grpc.ServerStream

	limits  *Limits
	rule    *leaseway.Rule
	key     string
	first   bool // was received
	refused error
}

// RecvMsg receives a message, unless the caller's budget for messages is used up; then it, and every later call, returns the status.
func (s *countedStream) RecvMsg(m any) error {
	if s.refused != nil {
		return s.refused
	}
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	if !s.first {
		s.first = true
		return nil
	}
	d, err := s.limits.settle(s.Context(), func() leaseway.Decision { return s.rule.Take(s.key) })
	s.limits.limiter.Done(d) // a message is over when it is there
	if err != nil {
		s.SetTrailer(pushback(&d))
		s.refused = err
	}
	return err
}

// StatusCode is the code of a refused call: RESOURCE_EXHAUSTED for the caller's budget, UNAVAILABLE for the system's state,
// INVALID_ARGUMENT for a call that is none.
func StatusCode(d leaseway.Decision) codes.Code {
	switch d.Reason {
	case leaseway.ReasonUnavailable, leaseway.ReasonShedWorker, leaseway.ReasonShedFleet:
		return codes.Unavailable
	case leaseway.ReasonInvalid:
		return codes.InvalidArgument
	default:
		return codes.ResourceExhausted
	}
}
