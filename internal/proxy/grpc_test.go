package proxy

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/leaseway/leaseway/leasewaygrpc"
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

// Whoever calls through the proxy learns as much as one who calls a server with the interceptors: the same status, its details
// included, and the same trailer.
func TestARefusalOfGRPCIsThatOfTheInterceptors(t *testing.T) {
	const rules = `rules:
  - {id: closed, scope: /test.Echo/List, block: true}
  - {id: two, scope: /test.Echo/Check, limit: 2, window: 1h}
  - {id: named, scope: /test.Echo/Named, keyBy: apikey, missing: deny, limit: 1, window: 1s}`

	const docs = "https://docs.example/limits"

	f := serve(t, rules, Config{Upstreams: []string{silent(t)}, Docs: docs})
	through, err := grpc.NewClient(f.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer through.Close()

	limits := leasewaygrpc.New(f.limiter, leasewaygrpc.WithDocs(docs))
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(limits.UnaryServer), grpc.ChainStreamInterceptor(limits.StreamServer),
		grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error { return nil }))

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	served := make(chan struct{})

	go func() {
		defer close(served)

		_ = server.Serve(listener)
	}()

	t.Cleanup(func() {
		server.Stop()
		<-served
	})

	direct, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	for method, spent := range map[string]int{"List": 0, "Check": 2, "Named": 0} {
		for range spent {
			_ = direct.Invoke(ctx, "/test.Echo/"+method, &healthv1.HealthCheckRequest{}, &healthv1.HealthCheckResponse{})
		}

		var got, want refusalSeen
		for conn, seen := range map[*grpc.ClientConn]*refusalSeen{through: &got, direct: &want} {
			*seen = refusedCall(ctx, t, conn, "/test.Echo/"+method)
		}

		// The wait is that of the moment at which each was asked.
		if w, g := want.wait, got.wait; (w == 0) != (g == 0) || (w-g).Abs() > patience {
			t.Errorf("%s: to wait %v, want %v", method, g, w)
		}

		if (got.pushback == "-1") != (want.pushback == "-1") || got.pushback == "" {
			t.Errorf("%s: pushback %q, want %q", method, got.pushback, want.pushback)
		}

		if !slices.Equal(got.details, want.details) || got.code != want.code || !slices.Contains(want.details, "Help "+docs) {
			t.Errorf("%s: through the proxy\n%v %q, want\n%v %q", method, got.code, got.details, want.code, want.details)
		}
	}
}

// refusalSeen is what a client knows of why its call was refused, with the time to wait apart.
type refusalSeen struct {
	code     codes.Code
	details  []string
	wait     time.Duration
	pushback string
}

func refusedCall(ctx context.Context, t *testing.T, conn *grpc.ClientConn, method string) (seen refusalSeen) {
	t.Helper()

	var trailer metadata.MD

	s := status.Convert(conn.Invoke(ctx, method, &healthv1.HealthCheckRequest{}, &healthv1.HealthCheckResponse{}, grpc.Trailer(&trailer)))
	seen.code = s.Code()

	message, _, _ := strings.Cut(s.Message(), ": try again in")
	seen.details = append(seen.details, message)

	for _, detail := range s.Details() {
		switch d := detail.(type) {
		case *errdetails.RetryInfo:
			seen.wait = d.GetRetryDelay().AsDuration()
			seen.details = append(seen.details, "RetryInfo")
		case *errdetails.QuotaFailure:
			about, _, _ := strings.Cut(d.GetViolations()[0].GetDescription(), ": try again in")
			seen.details = append(seen.details, "QuotaFailure "+d.GetViolations()[0].GetSubject()+" "+about)
		case *errdetails.ErrorInfo:
			seen.details = append(seen.details, fmt.Sprint("ErrorInfo ", d.GetReason(), d.GetDomain(), d.GetMetadata()))
		case *errdetails.Help:
			seen.details = append(seen.details, "Help "+d.GetLinks()[0].GetUrl())
		default:
			t.Errorf("a detail is %v", detail)
		}
	}

	seen.pushback = strings.Join(trailer.Get("grpc-retry-pushback-ms"), ",")

	return seen
}

// What is not ASCII, such as the sign of microseconds, cannot be in a field of HTTP.
func TestMessagesOfGRPCAreEncoded(t *testing.T) {
	for message, want := range map[string]string{"every 5µs, \"a\" of 100%": `every 5%C2%B5s, "a" of 100%25`, "a\nb~ ": "a%0Ab~ "} {
		if got := percentEncoded(message); got != want {
			t.Errorf("%q became %q, want %q", message, got, want)
		}
	}
}

// Clients of gRPC-Web, in browsers, speak HTTP/1.1, and want their own type of content.
func TestARefusalSpeaksTheDialectOfItsCaller(t *testing.T) {
	f := serve(t, "rules: [{id: closed, block: true}]", Config{Upstreams: []string{silent(t)}})

	got, body := f.get(t, "/test.Echo/Say", "Content-Type", "application/grpc-web+proto")
	if h := got.Header; got.StatusCode != http.StatusOK || body != "" || h.Get("Content-Type") != "application/grpc-web+proto" ||
		h.Get("Grpc-Status") != "8" || h.Get("Grpc-Status-Details-Bin") == "" {
		t.Errorf("got %d, %v and %q", got.StatusCode, h, body)
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

// Whoever names a server of gRPC by http:// is told which scheme it is.
func TestAnUpstreamOfGRPCNamedByHTTP(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	server := grpc.NewServer()
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)

	var log lockedBuffer

	address := listener.Addr().String()
	f := serve(t, noRules, Config{Upstreams: []string{"http://" + address}, Logger: slog.New(slog.NewTextHandler(&log, nil))})

	for range failuresOut {
		if resp, body := f.get(t, "/"); resp.StatusCode != http.StatusBadGateway {
			t.Fatalf("got %d %s", resp.StatusCode, body)
		}
	}

	if want := "write h2c://" + address + " in --upstream"; !strings.Contains(log.String(), want) {
		t.Errorf("the log lacks %q: %s", want, log.String())
	}
}

// lockedBuffer is a log that is read while it may be written.
type lockedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.text.String()
}
