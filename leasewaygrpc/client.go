package leasewaygrpc

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/leaseway/leaseway"
)

// UnaryClient is a grpc.UnaryClientInterceptor: what the rules refuse is not sent, and fails with the status that a server would
// answer with. A slot comes back when the call returns.
//
//nolint:revive // the arguments are those of grpc.UnaryClientInterceptor
func (l *Limits) UnaryClient(
	ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	if l.isFree(method) {
		return invoker(ctx, method, req, reply, cc, opts...)
	}
	d, err := l.send(ctx, method, cc)
	if err != nil {
		return err
	}
	defer l.limiter.Done(d)
	return invoker(ctx, method, req, reply, cc, opts...)
}

// StreamClient is a grpc.StreamClientInterceptor: it decides the start of a stream. A slot comes back when the stream ends or its
// context does, whichever is first; gRPC asks whoever opens a stream to see to one of them.
//
//nolint:revive // the arguments are those of grpc.StreamClientInterceptor
func (l *Limits) StreamClient(
	ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	if l.isFree(method) {
		return streamer(ctx, desc, cc, method, opts...)
	}
	d, err := l.send(ctx, method, cc)
	if err != nil {
		return nil, err
	}
	stream, err := streamer(ctx, desc, cc, method, opts...)
	if err != nil {
		l.limiter.Done(d)
		return nil, err
	}
	if !d.HoldsSlot() {
		return stream, nil
	}
	done := sync.OnceFunc(func() { l.limiter.Done(d) })
	return &heldStream{ClientStream: stream, single: !desc.ServerStreams, done: done, stop: context.AfterFunc(ctx, done)}, nil
}

// send decides a call that goes out. The address of its peer is not known before it is sent: the target is the host.
func (l *Limits) send(ctx context.Context, method string, cc *grpc.ClientConn) (leaseway.Decision, error) {
	md, _ := metadata.FromOutgoingContext(ctx)
	req := l.describe(method, md)
	if cc != nil {
		req.Host = cc.Target()
	}
	if l.config.attributes != nil {
		l.config.attributes(ctx, req)
	}
	return l.admit(ctx, req)
}

// heldStream occupies a slot until it ends.
type heldStream struct {
	grpc.ClientStream

	single bool // the server sends one message
	done   func()
	stop   func() bool
}

// RecvMsg receives a message; the last one, or an error, ends the stream.
func (s *heldStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err != nil || s.single {
		s.stop()
		s.done()
	}
	return err
}
