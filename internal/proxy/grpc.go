package proxy

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/leasewaygrpc"
	"github.com/leaseway/leaseway/leasewayhttp"
)

// grpcStatus is the field, a trailer in most answers, that says how a call ended.
const grpcStatus = "Grpc-Status"

func isGRPC(h http.Header) bool { return strings.HasPrefix(h.Get("Content-Type"), "application/grpc") }

// refuseGRPC answers a refused call as a server with the interceptors would. The status is for logs and counts: sayGRPC has the
// client see 200, as calls of gRPC have it.
func refuseGRPC(interceptors *leasewaygrpc.Limits, w http.ResponseWriter, d leaseway.Decision) {
	h := w.Header()
	refusal, trailer := interceptors.Refusal(d)
	for name, values := range trailer {
		h[http.CanonicalHeaderKey(name)] = values
	}
	if details, err := proto.Marshal(refusal.Proto()); err == nil { // it always marshals
		h.Set("Grpc-Status-Details-Bin", base64.RawStdEncoding.EncodeToString(details))
	}
	h.Set(grpcStatus, strconv.Itoa(int(refusal.Code())))
	h.Set("Grpc-Message", percentEncoded(refusal.Message()))
	w.WriteHeader(leasewayhttp.StatusCode(d))
}

// percentEncoded is a message as gRPC sends it: in ASCII, whatever else is in it.
func percentEncoded(message string) string {
	var b strings.Builder
	for _, c := range []byte(message) {
		if c < ' ' || c > '~' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// sayGRPC turns an answer of the proxy's own into one of gRPC, a header without a body. Left as HTTP it would be UNAVAILABLE to a
// client whatever it says, and 429 would look like an outage.
func sayGRPC(h http.Header, status int) {
	if h.Get(grpcStatus) != "" {
		return // a refusal, which says more
	}
	code := codes.Unavailable
	switch status {
	case http.StatusGatewayTimeout, http.StatusRequestTimeout:
		code = codes.DeadlineExceeded
	case http.StatusInternalServerError, http.StatusBadRequest:
		code = codes.Internal
	}
	h.Set(grpcStatus, strconv.Itoa(int(code)))
	h.Set("Grpc-Message", http.StatusText(status))
}
