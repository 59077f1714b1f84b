package leasewaygrpc

import (
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"slices"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/rule"
)

// Option configures Limits. Each says what is done without it.
type Option interface{ apply(c *config) }

type config struct {
	trusted    []netip.Prefix
	exempt     map[string]struct{}
	classes    map[string]rule.Class
	attributes func(ctx context.Context, req *leaseway.Request)
	logger     *slog.Logger
	docs       string // what the operator has written about limits; "" for nothing

	messageRule string // id; "" for none
	messageKey  func(ctx context.Context) string
}

func defaultConfig() config {
	return config{exempt: setOf("/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch", "/grpc.health.v1.Health/List")}
}

func setOf(methods ...string) map[string]struct{} {
	set := make(map[string]struct{}, len(methods))
	for _, m := range methods {
		set[m] = struct{}{}
	}
	return set
}

type optionFunc func(c *config)

func (f optionFunc) apply(c *config) { f(c) }

// WithTrustedProxies believes x-forwarded-for of peers in these networks, as leasewayhttp.ClientIP reads it, and nothing else of
// them: leaseway-class only lowers, whoever sends it, and who the user is WithAttributes says, or a header that the rules have trusted
// from every peer. The default trusts nobody: the caller's address is the peer's.
func WithTrustedProxies(networks ...netip.Prefix) Option {
	networks = slices.Clone(networks)
	return optionFunc(func(c *config) { c.trusted = networks })
}

// WithExempt names the methods, such as /package.Service/Method, that no rule is asked about. The default is those of
// grpc.health.v1.Health; WithExempt() exempts nothing.
func WithExempt(methods ...string) Option {
	set := setOf(methods...)
	return optionFunc(func(c *config) { c.exempt = set })
}

// WithClasses says how much methods matter, by /package.Service/Method or /package.Service/*. The default leaves it to the rules,
// for which a call of gRPC is a write unless their classes say otherwise.
func WithClasses(classes map[string]rule.Class) Option {
	classes = maps.Clone(classes)
	return optionFunc(func(c *config) { c.classes = classes })
}

// WithAttributes calls change with each call before it is decided, to say whose budget it spends: a user from a verified token or
// [PeerName], a key from [Metadata], a cost, descriptors. It must not keep req nor write to req.Headers. The default takes API keys
// and users from where the identity section of the rules says.
func WithAttributes(change func(ctx context.Context, req *leaseway.Request)) Option {
	return optionFunc(func(c *config) { c.attributes = change })
}

// WithPerMessage has each message that a client streams, after its first one, take a token of the rule with this id, from the
// budget of what key returns for the stream's context; nil is one budget for all. A refusal ends the stream. The rule needs a scope
// that no call has, such as {descriptors: {message: each}}, or calls spend its tokens, too. The default decides streams at their
// start alone.
func WithPerMessage(id string, key func(ctx context.Context) string) Option {
	if key == nil {
		key = func(context.Context) string { return "" }
	}
	return optionFunc(func(c *config) { c.messageRule, c.messageKey = id, key })
}

// WithDocs links refusals to url, where the operator says what the limits of this API are: in their Help. The default links nothing.
func WithDocs(url string) Option { return optionFunc(func(c *config) { c.docs = url }) }

// WithLogger logs recovered panics, once a minute at most. The default only counts them.
func WithLogger(logger *slog.Logger) Option { return optionFunc(func(c *config) { c.logger = logger }) }
