package proxy

import (
	"context"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// gRPC passes: calls, their statuses, which are trailers, and streams that are silent in between.
func TestGRPCPasses(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	state, server := health.NewServer(), grpc.NewServer()
	healthv1.RegisterHealthServer(server, state)

	served := make(chan struct{})

	go func() {
		defer close(served)

		_ = server.Serve(listener)
	}()

	t.Cleanup(func() {
		server.Stop()
		<-served
	})

	rules := "rules: [{id: two, scope: /grpc.health.v1.Health/Check, limit: 2, window: 1h}]"
	f := serve(t, rules, Config{Upstreams: []string{"h2c://" + listener.Addr().String()}, MaxBody: 1})

	conn, err := grpc.NewClient(f.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()

	client := healthv1.NewHealthClient(conn)

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	// The third is refused by the proxy. Over plain HTTP 429 would be UNAVAILABLE, as the specification of gRPC has it.
	for i, want := range []codes.Code{codes.OK, codes.NotFound, codes.ResourceExhausted} {
		in := &healthv1.HealthCheckRequest{}
		if want == codes.NotFound {
			in.Service = strings.Repeat("x", 100)
		}

		var trailer metadata.MD
		if _, err := client.Check(ctx, in, grpc.Trailer(&trailer)); status.Code(err) != want {
			t.Errorf("call %d: got %v, want %v", i, err, want)
		}

		if told := len(trailer.Get("grpc-retry-pushback-ms")) == 1; told != (want == codes.ResourceExhausted) {
			t.Errorf("call %d: the trailer is %v", i, trailer)
		}
	}

	stream, err := client.Watch(ctx, &healthv1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}

	for _, want := range []healthv1.HealthCheckResponse_ServingStatus{
		healthv1.HealthCheckResponse_SERVING, healthv1.HealthCheckResponse_NOT_SERVING, healthv1.HealthCheckResponse_SERVING,
	} {
		if got, err := stream.Recv(); err != nil || got.GetStatus() != want {
			t.Fatalf("got %v, %v, want %v", got, err, want)
		}

		next := healthv1.HealthCheckResponse_NOT_SERVING
		if want == next {
			next = healthv1.HealthCheckResponse_SERVING
		}

		state.SetServingStatus("", next)
	}
}

// An upstream that is down is UNAVAILABLE, and says nothing of when to come back.
func TestAnUpstreamOfGRPCThatIsDownIsUnavailable(t *testing.T) {
	f := serve(t, noRules, Config{Upstreams: []string{strings.Replace(silent(t), "http:", "h2c:", 1)}})

	conn, err := grpc.NewClient(f.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	_, err = healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{})
	if status.Code(err) != codes.Unavailable || status.Convert(err).Message() != "Bad Gateway" {
		t.Errorf("got %v", err)
	}
}
