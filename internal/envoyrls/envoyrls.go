// Package envoyrls is the door for Envoy: its global rate limit service, version 3, and its external authorization, so that
// a proxy in front of services in any language limits their callers.
//
//	Envoy ── ShouldRateLimit(domain, descriptors) ─▶ Door ─┬─ one Decide a descriptor ─▶ Limiter
//	Envoy ── Check(method, path, headers, source) ─▶ Door ─┘                               │
//	  ◀── codes, remaining, headers, body, metadata ◀──────────── Decision ◀───────────────┘
//
// Each descriptor is decided as a request of its own, with its entries as rule.Request.Entries, so that rules address it by
// scope: {domain, entries} or scope: {descriptors}, and by keyBy: descriptor:NAME. What one descriptor refuses is given back
// to the others, unless the door charges all.
//
// The messages of ShouldRateLimit are read and written by hand, since their generated types would cost more than the decision;
// a test holds the two together. Below the door are the check door, which says what becomes of delays, and leasewayhttp, which
// says what a response tells its client; above it is internal/server, which decides who may call.
package envoyrls

import (
	"context"
	"slices"
	"sync"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/check"
	"github.com/leaseway/leaseway/leasewayhttp"
)

// Charge says who pays for a request with several descriptors of which one is over its limit.
type Charge string

const (
	// ChargeTogether charges nobody: all or nothing. It is the default.
	ChargeTogether Charge = "together"
	// ChargeAll charges every descriptor that is within its limit, as envoyproxy/ratelimit does.
	ChargeAll Charge = "all"
)

// Charges are the values of Charge.
func Charges() []Charge { return []Charge{ChargeTogether, ChargeAll} }

// Config is how a Door answers.
type Config struct {
	Charge Charge // "" is ChargeTogether
	Docs   string // URL that refusals link to; "" for none
}

// Door answers Envoy from a Limiter.
type Door struct {
	authv3.UnimplementedAuthorizationServer

	limiter *leaseway.Limiter
	check   *check.Door
	says    *leasewayhttp.Middleware
	charge  Charge
	calls   sync.Pool             // of *call
	info    *grpc.UnaryServerInfo // of each of them
}

// New returns a Door to limiter.
func New(limiter *leaseway.Limiter, config Config) *Door {
	says := leasewayhttp.New(limiter, leasewayhttp.WithDocs(config.Docs))
	d := &Door{limiter: limiter, check: check.New(limiter), says: says, charge: config.Charge}
	d.info = &grpc.UnaryServerInfo{Server: d, FullMethod: rlsv3.RateLimitService_ShouldRateLimit_FullMethodName}
	d.calls.New = func() any {
		c := &call{door: d}
		c.next = func(ctx context.Context, _ any) (any, error) { return c.answer(ctx) }

		return c
	}

	return d
}

// Register adds both services to a server whose codec lets messages read and write themselves.
func (d *Door) Register(server grpc.ServiceRegistrar) {
	desc := rlsv3.RateLimitService_ServiceDesc
	desc.HandlerType = (*any)(nil) // the handler below is all there is
	desc.Methods = slices.Clone(desc.Methods)
	desc.Methods[0].Handler = d.handle

	server.RegisterService(&desc, d)
	authv3.RegisterAuthorizationServer(server, d)
}

// handle is ShouldRateLimit's grpc.MethodHandler.
func (d *Door) handle(
	_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor, //nolint:revive // gRPC's order
) (any, error) {
	c, _ := d.calls.Get().(*call)
	if err := decode(c); err != nil {
		return nil, err
	}

	if intercept == nil {
		return c.answer(ctx)
	}

	return intercept(ctx, c, d.info, c.next)
}
