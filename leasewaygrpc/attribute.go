package leasewaygrpc

import (
	"context"
	"net/http"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/leasewayhttp"
	"github.com/leaseway/leaseway/rule"
)

// isFree tells the methods that no rule is asked about.
func (l *Limits) isFree(method string) bool {
	_, free := l.config.exempt[method]
	return free
}

// incoming is what is known of a call that a server got.
func (l *Limits) incoming(ctx context.Context, method string) (req *leaseway.Request) {
	defer func() {
		if cause := recover(); cause != nil {
			if req == nil {
				req = &leaseway.Request{Method: http.MethodPost, Path: method, Finishes: true}
			}
			l.bugs.Note("describing a call", cause)
		}
	}()
	md, _ := metadata.FromIncomingContext(ctx)
	req = l.describe(method, md)
	if hosts := md.Get(":authority"); len(hosts) > 0 {
		req.Host = hosts[0]
	}
	// The rules of net/http about whose address it is are these as well.
	from := &http.Request{Header: req.Headers}
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		from.RemoteAddr = p.Addr.String()
	}
	req.IP = leasewayhttp.ClientIP(from, l.config.trusted)
	if l.config.attributes != nil {
		l.config.attributes(ctx, req)
	}
	return req
}

// describe is a call with metadata as rules see it.
func (l *Limits) describe(method string, md metadata.MD) *leaseway.Request {
	h := make(map[string][]string, len(md))
	for name, values := range md {
		if !strings.HasPrefix(name, ":") { // a pseudo header of HTTP/2
			h[http.CanonicalHeaderKey(name)] = values
		}
	}
	service, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	req := &leaseway.Request{
		Method: http.MethodPost, Path: method, Headers: h, Finishes: true, Class: l.classOf(method, service),
		Descriptors: map[string]string{"service": service, "method": name},
	}
	if set := l.limiter.Rules(); set != nil {
		req.APIKey = apiKey(h, set.Identity.APIKey)
		// No proxy is known to have set it, so only a header that everybody may set names the user.
		if user := set.Identity.User; user.Trusted {
			req.User = first(h, user.Header)
		}
	}
	if class, ok := rule.ParseClass(first(h, "Leaseway-Class")); ok {
		req.LowerTo = class // by its own word a call can only matter less
	}
	return req
}

// classOf is the class of a method: its own, else that of its service, else unset, which leaves it to the document.
func (l *Limits) classOf(method, service string) rule.Class {
	if class, ok := l.config.classes[method]; ok {
		return class
	}
	return l.config.classes["/"+service+"/*"]
}

func apiKey(h map[string][]string, places []rule.Credential) string {
	for _, place := range places {
		key := first(h, place.Header)
		if place.Bearer {
			scheme, token, _ := strings.Cut(first(h, "Authorization"), " ")
			if key = ""; strings.EqualFold(scheme, "bearer") {
				key = strings.Trim(token, " ")
			}
		}
		if key != "" {
			return key
		}
	}
	return ""
}

func first(h map[string][]string, canonical string) string {
	if values := h[canonical]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// Metadata returns the first value that the caller of ctx sent under name, which has any case; "" for none. It is for
// [WithAttributes]: whoever can call can write it.
func Metadata(ctx context.Context, name string) string {
	if values := metadata.ValueFromIncomingContext(ctx, name); len(values) > 0 {
		return values[0]
	}
	return ""
}

// PeerName returns the common name of the certificate that the caller of ctx has proved to own; "" without one. It is for
// [WithAttributes].
func PeerName(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.VerifiedChains) == 0 || len(info.State.VerifiedChains[0]) == 0 {
		return ""
	}
	return info.State.VerifiedChains[0][0].Subject.CommonName
}
