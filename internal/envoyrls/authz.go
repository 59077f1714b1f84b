package envoyrls

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/leasewayhttp"
)

// maxHeaders is how many headers of a checked request there may be.
const maxHeaders = 512

// Check is external authorization: it decides a request by what Envoy says of it, as the middleware would decide the request
// itself. The caller's address is the source that Envoy found; context extensions are descriptors.
func (d *Door) Check(ctx context.Context, msg *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	attributes := msg.GetAttributes()
	if attributes.GetRequest().GetHttp() == nil {
		return nil, status.Error(codes.InvalidArgument, "attributes.request.http is missing; ext_authz is for HTTP filters here")
	}

	if n := len(attributes.GetRequest().GetHttp().GetHeaders()) + len(attributes.GetContextExtensions()); n > maxHeaders {
		return nil, status.Errorf(codes.InvalidArgument,
			"attributes.request.http.headers and context_extensions have %d entries; send at most %d", n, maxHeaders)
	}

	req := d.says.Request(httpRequest(attributes))
	req.Descriptors, req.Finishes = attributes.GetContextExtensions(), false

	decision := d.check.Decide(ctx, req, false)

	if err := ctx.Err(); err != nil {
		d.limiter.Refund(decision) //nolint:contextcheck // what is given back is sent later, whoever gave it

		return nil, status.FromContextError(err).Err()
	}

	return d.verdict(&decision), nil
}

// httpRequest is the request that Envoy describes. What it leaves out is empty, and nothing of it is parsed that could fail.
func httpRequest(attributes *authv3.AttributeContext) *http.Request {
	said := attributes.GetRequest().GetHttp()
	path, _, _ := strings.Cut(said.GetPath(), "?")

	r := &http.Request{
		Method: said.GetMethod(), Host: said.GetHost(), Proto: said.GetProtocol(), Header: make(http.Header, len(said.GetHeaders())),
		URL: &url.URL{Path: path},
	}
	if plain, err := url.PathUnescape(path); err == nil && plain != path {
		r.URL.Path, r.URL.RawPath = plain, path
	}

	for name, value := range said.GetHeaders() {
		r.Header.Add(name, value)
	}

	for _, header := range said.GetHeaderMap().GetHeaders() { // with encode_raw_headers
		value := header.GetValue()
		if raw := header.GetRawValue(); len(raw) > 0 {
			value = string(raw)
		}

		r.Header.Add(header.GetKey(), value)
	}

	if from := attributes.GetSource().GetAddress().GetSocketAddress(); from != nil {
		r.RemoteAddr = net.JoinHostPort(from.GetAddress(), strconv.FormatUint(uint64(from.GetPortValue()), 10))
	}

	return r
}

// verdict is the response to a decision: 429 for the caller's budget and 503 for the system's state, in both cases with the
// fields and the body that the middleware would send.
func (d *Door) verdict(decision *leaseway.Decision) *authv3.CheckResponse {
	fields, body := d.says.AppendFields(nil, decision)

	headers := make([]*corev3.HeaderValueOption, len(fields))
	for i, f := range fields {
		headers[i] = &corev3.HeaderValueOption{
			Header:       &corev3.HeaderValue{Key: f.Name, Value: f.Value},
			AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
		}
	}

	metadata := map[string]*structpb.Value{}
	for name, text := range map[string]string{
		"rule": decision.Rule, "reason": decision.Reason.String(), "shadowDenied": decision.ShadowDenied,
	} {
		if text != "" {
			metadata[name] = structpb.NewStringValue(text)
		}
	}

	response := &authv3.CheckResponse{DynamicMetadata: &structpb.Struct{Fields: metadata}}

	if decision.Allowed {
		response.Status = &rpcstatus.Status{Code: int32(codes.OK)}
		response.HttpResponse = &authv3.CheckResponse_OkResponse{OkResponse: &authv3.OkHttpResponse{ResponseHeadersToAdd: headers}}

		return response
	}

	code := codes.ResourceExhausted
	if leasewayhttp.StatusCode(*decision) == http.StatusServiceUnavailable {
		code = codes.Unavailable
	}

	response.Status = &rpcstatus.Status{Code: int32(code)}
	response.HttpResponse = &authv3.CheckResponse_DeniedResponse{DeniedResponse: &authv3.DeniedHttpResponse{
		Status:  &typev3.HttpStatus{Code: typev3.StatusCode(leasewayhttp.StatusCode(*decision))},
		Headers: headers, Body: string(body),
	}}

	return response
}
