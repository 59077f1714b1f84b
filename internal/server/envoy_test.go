package server

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	leasewayv1 "github.com/leaseway/leaseway/gen/leaseway/v1"
)

// What the operator says of the limits is linked in the refusals of every door that writes to the caller.
func TestRefusalsLinkTheOperatorsPage(t *testing.T) {
	const want = `<https://docs.example/limits>; rel="help"`

	r := start(t, "--rules", file(t, "rules: [{id: none, block: true}]"), "--docs-url", "https://docs.example/limits",
		"--trusted-proxies", "127.0.0.1")

	if code, body := r.asProxy(t, http.MethodGet); code != http.StatusTooManyRequests ||
		!strings.Contains(body, `"docs":"https://docs.example/limits"`) {
		t.Errorf("a proxy is told %d %s", code, body)
	}

	conn, err := grpc.NewClient(r.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)

	defer conn.Close()

	limits, err := rlsv3.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &rlsv3.RateLimitRequest{
		Domain: "edge", Descriptors: []*commonv3.RateLimitDescriptor{{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "key", Value: "k"}}}},
	})
	must(t, err)

	if !slices.ContainsFunc(limits.GetResponseHeadersToAdd(), func(h *corev3.HeaderValue) bool { return h.GetKey() == "link" && h.GetValue() == want }) {
		t.Errorf("the rate limit service says %v", limits)
	}

	verdict, err := authv3.NewAuthorizationClient(conn).Check(t.Context(), &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{Method: "GET", Path: "/v1/x"}},
	}})
	must(t, err)

	if !slices.ContainsFunc(verdict.GetDeniedResponse().GetHeaders(), func(h *corev3.HeaderValueOption) bool {
		return h.GetHeader().GetKey() == "link" && h.GetHeader().GetValue() == want
	}) {
		t.Errorf("external authorization says %v", verdict)
	}
}

// Envoy's two services answer on the gRPC listener, over a real connection and to the generated clients.
func TestEnvoyIsAnswered(t *testing.T) {
	const rules = `rules:
  - {id: per-key, scope: {domain: edge, entries: [key]}, keyBy: descriptor:key, limit: 2, window: 1h}
  - {id: path, scope: /v1/x, limit: 1, window: 1h}`

	for charge, left := range map[string]uint32{"together": 1, "all": 0} {
		r := start(t, "--rules", file(t, rules), "--rls-charge", charge)

		conn, err := grpc.NewClient(r.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}

		key := &commonv3.RateLimitDescriptor{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "key", Value: "k"}}}
		block := &commonv3.RateLimitDescriptor{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "key", Value: "huge"}}}

		limits := rlsv3.NewRateLimitServiceClient(conn)
		ask := func(descriptors ...*commonv3.RateLimitDescriptor) (*rlsv3.RateLimitResponse, error) {
			return limits.ShouldRateLimit(t.Context(), &rlsv3.RateLimitRequest{Domain: "edge", Descriptors: descriptors})
		}

		if _, err := ask(); status.Code(err) != codes.InvalidArgument {
			t.Errorf("no descriptors: got %v, want INVALID_ARGUMENT", err)
		}

		response, err := ask(key)
		if err != nil || response.GetOverallCode() != rlsv3.RateLimitResponse_OK || response.GetStatuses()[0].GetLimitRemaining() != 1 {
			t.Errorf("got %v, %v, want OK, and 1 left", response, err)
		}

		for range 2 {
			_, _ = ask(block)
		}

		response, err = ask(key, block)
		if err != nil || response.GetOverallCode() != rlsv3.RateLimitResponse_OVER_LIMIT || response.GetStatuses()[0].GetLimitRemaining() != left {
			t.Errorf("%s: got %v, %v, want OVER_LIMIT, and %d left of the first", charge, response, err, left)
		}

		look, err := leasewayv1.NewCheckServiceClient(conn).Check(t.Context(), &leasewayv1.CheckRequest{
			Domain: "edge", Entries: []*leasewayv1.Entry{{Key: "key", Value: "k"}}, Cost: proto.Int64(0),
		})
		if d := look.GetDecision(); err != nil || d.GetRule() != "per-key" || d.GetRemaining() != int64(left) {
			t.Errorf("%s: got %v, %v from Leaseway's own service, want the same budget", charge, look, err)
		}

		auth := authv3.NewAuthorizationClient(conn)
		for i, want := range []codes.Code{codes.OK, codes.ResourceExhausted} {
			verdict, err := auth.Check(t.Context(), &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
				Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{Method: "GET", Path: "/v1/x"}},
			}})
			if err != nil || verdict.GetStatus().GetCode() != int32(want) {
				t.Errorf("check %d: got %v, %v, want %v", i, verdict, err, want)
			}
		}

		_ = conn.Close()
	}
}
