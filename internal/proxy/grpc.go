package proxy

import (
	"net/http"
	"strconv"
	"strings"
)

// The codes of gRPC that the proxy answers with.
const (
	grpcDeadlineExceeded  = 4
	grpcResourceExhausted = 8
	grpcInternal          = 13
	grpcUnavailable       = 14
)

func isGRPC(h http.Header) bool { return strings.HasPrefix(h.Get("Content-Type"), "application/grpc") }

// sayGRPC turns an answer of the proxy's own into one of gRPC, a header without a body. Left as HTTP it would be UNAVAILABLE to a
// client whatever it says, and 429 would look like an outage.
func sayGRPC(h http.Header, status int) {
	code, message := grpcUnavailable, http.StatusText(status)
	switch status {
	case http.StatusTooManyRequests:
		code = grpcResourceExhausted
	case http.StatusGatewayTimeout, http.StatusRequestTimeout:
		code = grpcDeadlineExceeded
	case http.StatusInternalServerError, http.StatusBadRequest:
		code = grpcInternal
	}
	if reason := h.Get("Leaseway-Reason"); reason != "" {
		message = "leaseway: " + reason
		pushback := "-1" // waiting does not help
		if seconds, err := strconv.ParseInt(h.Get("Retry-After"), 10, 64); err == nil {
			pushback = strconv.FormatInt(1000*seconds, 10)
		}
		h.Set("Grpc-Retry-Pushback-Ms", pushback)
	}
	h.Set("Content-Type", "application/grpc")
	h.Set("Grpc-Status", strconv.Itoa(code))
	h.Set("Grpc-Message", message)
}
