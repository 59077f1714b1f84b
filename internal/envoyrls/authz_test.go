package envoyrls

import (
	"encoding/json"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// checked is what Envoy asks about a request.
func checked(path, address string, headers map[string]string) *authv3.CheckRequest {
	return &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Source: &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
			SocketAddress: &corev3.SocketAddress{Address: address, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 4711}},
		}}},
		Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
			Method: "GET", Path: path, Host: "api.example.com", Headers: headers,
		}},
		ContextExtensions: map[string]string{"route": "search"},
	}}
}

func headersOf(options []*corev3.HeaderValueOption) map[string]string {
	m := map[string]string{}
	for _, o := range options {
		m[o.GetHeader().GetKey()] = o.GetHeader().GetValue()
	}

	return m
}

func TestCheckDecidesByAllThatEnvoySays(t *testing.T) {
	const tail = ", limit: 1, window: 1h}"

	for name, c := range map[string]struct {
		rule        string
		same, other *authv3.CheckRequest
	}{
		"address": {"keyBy: ip", checked("/a", "192.0.2.1", nil), checked("/a", "192.0.2.2", nil)},
		"path":    {"scope: /v1/a, keyBy: global", checked("/v1/a?q=1", "192.0.2.1", nil), checked("/v1/b", "192.0.2.1", nil)},
		"api key": {"keyBy: apikey", checked("/", "192.0.2.1", map[string]string{"x-api-key": "k1"}), checked("/", "192.0.2.1", map[string]string{"x-api-key": "k2"})},
		"header":  {"keyBy: 'header:X-Tenant'", checked("/", "192.0.2.1", map[string]string{"x-tenant": "a"}), checked("/", "192.0.2.1", nil)},
		"escapes": {"scope: '/a b', keyBy: global", checked("/a%20b", "192.0.2.1", nil), checked("/%zz", "192.0.2.1", nil)},
	} {
		door := newDoor(t, "rules: [{id: r, "+c.rule+tail+"]", ChargeTogether)

		first, err := door.Check(t.Context(), c.same)
		if err != nil || first.GetStatus().GetCode() != int32(codes.OK) {
			t.Fatalf("%s: %v, %v", name, first, err)
		}

		if h := headersOf(first.GetOkResponse().GetResponseHeadersToAdd()); h["x-ratelimit-remaining"] != "0" || h["ratelimit-policy"] == "" {
			t.Errorf("%s: the response of what is allowed has the headers %v", name, h)
		}

		second, err := door.Check(t.Context(), c.same)
		if err != nil || second.GetStatus().GetCode() != int32(codes.ResourceExhausted) || second.GetDeniedResponse().GetStatus().GetCode() != 429 {
			t.Errorf("%s: %v, %v, want 429", name, second, err)
		}

		denied := second.GetDeniedResponse()
		if h := headersOf(denied.GetHeaders()); h["retry-after"] == "" || h["content-type"] != "application/problem+json" {
			t.Errorf("%s: the refusal has the headers %v", name, h)
		}

		var body struct {
			Rule   string `json:"rule"`
			Status int    `json:"status"`
		}
		if err := json.Unmarshal([]byte(denied.GetBody()), &body); err != nil || body.Rule != "r" || body.Status != 429 {
			t.Errorf("%s: the body is %s", name, denied.GetBody())
		}

		if got := second.GetDynamicMetadata().GetFields()["reason"].GetStringValue(); got != "over_limit" {
			t.Errorf("%s: the metadata has the reason %q", name, got)
		}

		third, err := door.Check(t.Context(), c.other)
		if err != nil || third.GetOkResponse() == nil {
			t.Errorf("%s: another one: %v, %v", name, third, err)
		}
	}
}

func TestContextExtensionsAreDescriptors(t *testing.T) {
	door := newDoor(t, "rules: [{id: r, scope: {descriptors: {route: search}}, limit: 1, window: 1h}]", ChargeTogether)

	for i, want := range []codes.Code{codes.OK, codes.ResourceExhausted} {
		if got, err := door.Check(t.Context(), checked("/", "192.0.2.1", nil)); err != nil || got.GetStatus().GetCode() != int32(want) {
			t.Errorf("request %d: got %v, %v, want %v", i, got, err, want)
		}
	}
}

// What is no request is an error and not a panic, whatever Envoy leaves out.
func TestChecksOfNothing(t *testing.T) {
	door := newDoor(t, "rules: [{id: r, keyBy: ip, missing: shared, limit: 100, window: 1h}]", ChargeTogether)

	for _, msg := range []*authv3.CheckRequest{nil, {}, {Attributes: &authv3.AttributeContext{Request: &authv3.AttributeContext_Request{}}}} {
		if _, err := door.Check(t.Context(), msg); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v: got %v, want INVALID_ARGUMENT", msg, err)
		}
	}

	for _, msg := range []*authv3.CheckRequest{
		{Attributes: &authv3.AttributeContext{Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{}}}},
		checked("", "", nil), checked("*", "no address", map[string]string{"": ""}), checked("//\xff%", "::1", map[string]string{":path": "/"}),
	} {
		if response, err := door.Check(t.Context(), msg); err != nil || response.GetOkResponse() == nil {
			t.Errorf("%v: got %v, %v, want OK", msg, response, err)
		}
	}
}
