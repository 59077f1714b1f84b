package leasewaygrpc_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/leasewaygrpc"
	"github.com/leaseway/leaseway/rule"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 20 * time.Second

// The methods of the service in the tests.
const (
	echoMethod   = "/test.Echo/Echo"
	streamMethod = "/test.Echo/Stream"
)

// echo answers what it is sent; "panic" is a bug of its own, and "hold" waits until the call ends.
type echo struct {
	healthv1.UnimplementedHealthServer
}

func (echo) Check(context.Context, *healthv1.HealthCheckRequest) (*healthv1.HealthCheckResponse, error) {
	return &healthv1.HealthCheckResponse{Status: healthv1.HealthCheckResponse_SERVING}, nil
}

//nolint:revive // the order is that of grpc.MethodDesc
func unary(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
	in := &wrapperspb.StringValue{}
	if err := decode(in); err != nil {
		return nil, err
	}

	answer := func(ctx context.Context, req any) (any, error) {
		switch text := req.(*wrapperspb.StringValue).GetValue(); text {
		case "panic":
			panic("a bug of the handler")
		case "hold":
			<-ctx.Done()
		}

		return req, nil
	}
	if intercept == nil {
		return answer(ctx, in)
	}

	return intercept(ctx, in, &grpc.UnaryServerInfo{FullMethod: echoMethod}, answer)
}

func stream(_ any, s grpc.ServerStream) error {
	for {
		m := &wrapperspb.StringValue{}

		switch err := s.RecvMsg(m); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return errors.New("the handler hides what it was told")
		}

		if m.GetValue() == "panic" {
			panic("a bug of the handler")
		}

		if err := s.SendMsg(m); err != nil {
			return err
		}
	}
}

var service = grpc.ServiceDesc{
	ServiceName: "test.Echo",
	HandlerType: (*any)(nil),
	Methods:     []grpc.MethodDesc{{MethodName: "Echo", Handler: unary}},
	Streams:     []grpc.StreamDesc{{StreamName: "Stream", Handler: stream, ServerStreams: true, ClientStreams: true}},
}

func limiterOf(t *testing.T, rules string) *leaseway.Limiter {
	t.Helper()

	set, err := rule.Parse("rules.yaml", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}

	limiter, err := leaseway.Embedded(set)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = limiter.Close(context.Background()) })

	return limiter
}

// serve starts a server whose panics end no process, and returns a connection to it.
func serve(t *testing.T, limits *leasewaygrpc.Limits, dial ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	var opts []grpc.ServerOption

	if limits != nil {
		opts = append(opts,
			grpc.ChainUnaryInterceptor(recoverUnary, limits.UnaryServer), grpc.ChainStreamInterceptor(recoverStream, limits.StreamServer))
	}

	server := grpc.NewServer(opts...)
	server.RegisterService(&service, echo{})
	healthv1.RegisterHealthServer(server, echo{})

	served := make(chan struct{})

	go func() {
		defer close(served)

		_ = server.Serve(listener)
	}()

	conn, err := grpc.NewClient(listener.Addr().String(), append(dial, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		_ = conn.Close()

		server.Stop()
		<-served
	})

	return conn
}

func recoverUnary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.New("a panic")
		}
	}()

	return next(ctx, req)
}

func recoverStream(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.New("a panic")
		}
	}()

	return next(srv, s)
}

// call sends text, with metadata as name and value in turn, and returns the trailer.
func call(t *testing.T, conn *grpc.ClientConn, text string, md ...string) (metadata.MD, error) {
	t.Helper()

	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), md...), patience)
	defer cancel()

	var trailer metadata.MD

	out := &wrapperspb.StringValue{}

	err := conn.Invoke(ctx, echoMethod, wrapperspb.String(text), out, grpc.Trailer(&trailer))
	if err == nil && out.GetValue() != text {
		t.Errorf("got %q", out.GetValue())
	}

	return trailer, err
}

func openStream(ctx context.Context, t *testing.T, conn *grpc.ClientConn) grpc.ClientStream {
	t.Helper()

	s, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, streamMethod)
	if err != nil {
		t.Fatal(err)
	}

	return s
}

// exchange sends one message and waits for its echo.
func exchange(s grpc.ClientStream, text string) error {
	_ = s.SendMsg(wrapperspb.String(text)) // its error is io.EOF, and what RecvMsg says the reason

	return s.RecvMsg(&wrapperspb.StringValue{})
}
