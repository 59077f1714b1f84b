package leasewayhttp

import (
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/rule"
)

// Option configures a Middleware. Each says what is done without it.
type Option interface{ apply(c *config) }

// Headers says which rate-limit fields a response carries, in the words of the rule document. Retry-After is not one of them:
// every refusal that waiting can mend carries it.
type Headers = rule.Headers

// What WithHeaders takes.
const (
	// HeadersBoth sends the fields of HeadersIETF and of HeadersLegacy.
	HeadersBoth = rule.HeadersBoth
	// HeadersIETF sends RateLimit-Policy and RateLimit, of draft-ietf-httpapi-ratelimit-headers. The w of a window that is a
	// day or month of a calendar is nominal, 24 hours or 30 days, so that a policy is the same all year; t is exact.
	HeadersIETF = rule.HeadersIETF
	// HeadersLegacy sends X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset (seconds since the Unix epoch).
	HeadersLegacy = rule.HeadersLegacy
	// HeadersNone sends none.
	HeadersNone = rule.HeadersNone
)

type config struct {
	trusted    []netip.Prefix
	headers    Headers // "" is what the rule document says
	exempt     []string
	identity   *rule.Identity
	attributes func(r *http.Request, req *leaseway.Request)
	denied     func(w http.ResponseWriter, r *http.Request, d leaseway.Decision)
	noJitter   bool
	docs       string
	origins    []string
	logger     *slog.Logger
	maxDelay   time.Duration // 0 holds requests for as long as their rules say
}

func defaultConfig() config { return config{exempt: []string{"/healthz", "/livez", "/readyz"}} }

type optionFunc func(c *config)

func (f optionFunc) apply(c *config) { f(c) }

// WithTrustedProxies believes the X-Forwarded-For of peers in these networks, see [ClientIP], the user header of the
// identity section and the class of Leaseway-Class, which they must set or remove: from others it only lowers. The default
// trusts nobody, which is right for servers that clients reach directly.
func WithTrustedProxies(networks ...netip.Prefix) Option {
	networks = slices.Clone(networks)
	return optionFunc(func(c *config) { c.trusted = networks })
}

// WithHeaders says which rate-limit fields responses carry. The default is what the rules in force say under headers,
// which is HeadersBoth unless their owner wrote something else.
func WithHeaders(headers Headers) Option {
	return optionFunc(func(c *config) { c.headers = headers })
}

// WithExempt names the paths that are served and counted by no rule. A path is compared whole, after decoding:
// "/healthz" exempts neither "/healthz/" nor "/healthz-admin". The default is /healthz, /livez and /readyz; WithExempt()
// exempts nothing.
func WithExempt(paths ...string) Option {
	paths = slices.Clone(paths)
	return optionFunc(func(c *config) { c.exempt = paths })
}

// WithIdentity says where users and API keys are named. The default is the identity section of the rules in force, which
// is what a fleet should share; you need this only for a server that is called in another way than the rest.
func WithIdentity(identity rule.Identity) Option {
	identity.APIKey = slices.Clone(identity.APIKey)
	for i := range identity.APIKey {
		identity.APIKey[i].Header = http.CanonicalHeaderKey(identity.APIKey[i].Header)
	}
	identity.User.Header = http.CanonicalHeaderKey(identity.User.Header)
	return optionFunc(func(c *config) { c.identity = &identity })
}

// WithAttributes calls change with each request before it is decided, to add what the middleware cannot know: a user from
// a verified token, a cost, descriptors. It must not keep req nor write to req.Headers, which are the request's own. The
// default changes nothing.
func WithAttributes(change func(r *http.Request, req *leaseway.Request)) Option {
	return optionFunc(func(c *config) { c.attributes = change })
}

// WithDenied lets write answer refused requests: it sets the status, for which [StatusCode] is the usual one, and writes
// the body. Retry-After and the rate-limit fields are set by then. The default answers with a problem document (RFC 9457).
func WithDenied(write func(w http.ResponseWriter, r *http.Request, d leaseway.Decision)) Option {
	return optionFunc(func(c *config) { c.denied = write })
}

// WithDocs links refusals to url, where the operator says what the limits of this API are: in the field Link, as help, and
// in the problem document as docs. The default links nothing.
func WithDocs(url string) Option {
	// What could end the field, or the address in it, is no part of a URL.
	url = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || r == '<' || r == '>' || r == '"' {
			return -1
		}
		return r
	}, url)
	return optionFunc(func(c *config) { c.docs = url })
}

// WithoutJitter sends the exact Retry-After. The default adds up to a tenth, and at most 30 s, so that callers who were
// refused together do not come back together.
func WithoutJitter() Option {
	return optionFunc(func(c *config) { c.noJitter = true })
}

// WithMaxDelay refuses, as ReasonDelayed, what a leaky bucket would have held for longer than longest, and gives its tokens
// back: for servers that are asked by somebody who does not wait. The default, also for what is not positive, holds each request
// until its turn.
func WithMaxDelay(longest time.Duration) Option {
	return optionFunc(func(c *config) { c.maxDelay = max(0, longest) })
}

// WithCORS lets browser pages of these origins, such as "https://app.example.com", read refusals; "*" is every origin, for
// requests without credentials. The default adds nothing unless a middleware before this one has already allowed the
// origin; then its answer stands, and the fields are exposed.
func WithCORS(origins ...string) Option {
	origins = slices.Clone(origins)
	for i := range origins {
		// An Origin field never ends in a slash; an address copied from a browser does.
		origins[i] = strings.TrimSuffix(origins[i], "/")
	}
	return optionFunc(func(c *config) { c.origins = origins })
}

// WithLogger logs recovered panics, once a minute at most. The default only counts them, in [Stats].
func WithLogger(logger *slog.Logger) Option {
	return optionFunc(func(c *config) { c.logger = logger })
}
