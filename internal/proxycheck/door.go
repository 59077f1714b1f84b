// Package proxycheck is the door for reverse proxies that ask before they forward a request: nginx, Caddy, Traefik and HAProxy.
//
//	client ──▶ proxy ──▶ API
//	             │ GET /v1/check?profile=caddy, with the client's fields and X-Forwarded-Method, -Uri, -Host and -For
//	             ▼
//	         trusted? ──no──▶ 403 for the operator: nobody else may say whose request it is
//	             │ yes
//	             ▼
//	         the client's request, put together again ──▶ leasewayhttp ──▶ 204, or what the client is to be told
//
// The answer has the fields and the body that leasewayhttp gives, and each profile says them in the way that its proxy can pass
// on. nginx hears nothing but yes and no: to it a refusal is 403, with the status for the client and its body in two fields.
//
// Its neighbours are leasewayhttp below, which decides, and internal/server above, which says who may call. Requests in JSON,
// from services, have internal/check.
package proxycheck

import (
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/check"
	"github.com/leaseway/leaseway/leasewayhttp"
)

// TokenField is the request field with the token of a proxy, where the server asks for one: Authorization is the client's.
const TokenField = "X-Leaseway-Token" //nolint:gosec // the name of a field, and no credential

// Config is what a Door needs.
type Config struct {
	Limiter *leaseway.Limiter
	// Trusted are the networks of the proxies, who are asked, and are passed over in X-Forwarded-For. Empty trusts nobody.
	Trusted []netip.Prefix
	Docs    string       // URL that refusals link to; "" for none
	Logger  *slog.Logger // for recovered panics; nil for none
}

// Door answers proxies. It is safe for concurrent use.
type Door struct {
	trusted []netip.Prefix
	checks  http.Handler
	limits  *leasewayhttp.Middleware
}

// New returns a Door to a Limiter.
func New(config Config) *Door {
	d := &Door{trusted: slices.Clone(config.Trusted)}
	d.limits = leasewayhttp.New(config.Limiter, leasewayhttp.WithTrustedProxies(config.Trusted...),
		leasewayhttp.WithMaxDelay(check.MaxDelay), leasewayhttp.WithDocs(config.Docs), leasewayhttp.WithLogger(config.Logger))
	d.checks = d.limits.Handler(http.HandlerFunc(allow))

	return d
}

// Stats are those of the middleware that decides.
func (d *Door) Stats() leasewayhttp.Stats { return d.limits.Stats() }

// allow answers for a request that may pass. net/http would add a Content-Type to another status.
func allow(w http.ResponseWriter, _ *http.Request) {
	w.Header()["Cache-Control"] = []string{"no-store"}
	w.WriteHeader(http.StatusNoContent)
}

// Asked reports whether r is a question to this door, and not one in JSON. Proxies ask by whatever method their client used.
func Asked(r *http.Request) bool {
	_, ok := parameter(r.URL.RawQuery, "profile")

	return ok
}

// parameter is the first value of a name in a query, as url.Values has it. A map of all of them would cost more than the decision.
func parameter(query, name string) (value string, ok bool) {
	for pair := range strings.SplitSeq(query, "&") {
		escaped, text, _ := strings.Cut(pair, "=")

		if key, err := url.QueryUnescape(escaped); err != nil || key != name || strings.Contains(pair, ";") {
			continue
		}

		if value, err := url.QueryUnescape(text); err == nil {
			return value, true
		}
	}

	return "", false
}

// ServeHTTP answers 204 when the request that r is about may pass, and else what its profile makes of the refusal. Status 403
// without X-Leaseway-Status is for the operator: the peer is no trusted proxy; and 400: it does not say what the request is.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !d.trusts(r) {
		refuse(w, http.StatusForbidden, "this peer is no trusted proxy: add its address to --trusted-proxies")

		return
	}

	name, _ := parameter(r.URL.RawQuery, "profile")

	profile, ok := profiles[name]
	if !ok {
		refuse(w, http.StatusBadRequest, "profile is none of nginx, caddy, traefik and haproxy: correct it in the address of the check")

		return
	}

	original, problem := profile.request(r)
	if problem != "" {
		refuse(w, http.StatusBadRequest, problem)

		return
	}

	switch target, _ := parameter(r.URL.RawQuery, "accel"); {
	case target != "" && !isTarget(target):
		refuse(w, http.StatusBadRequest, "accel is no location of nginx: write its name, such as @app, in letters, digits and _ - . /")
	case target != "":
		d.checks.ServeHTTP(&redirecting{ResponseWriter: w, target: target}, original)
	case profile.yesOrNo:
		answer := &yesOrNo{ResponseWriter: w}
		d.checks.ServeHTTP(answer, original)
		answer.end()
	default:
		d.checks.ServeHTTP(w, original)
	}
}

// trusts says whether the peer may say whose request it asks about.
func (d *Door) trusts(r *http.Request) bool {
	peer := leasewayhttp.ClientIP(r, nil)

	return slices.ContainsFunc(d.trusted, func(network netip.Prefix) bool { return network.Contains(peer) })
}

// isTarget bounds what is written into X-Accel-Redirect.
func isTarget(name string) bool {
	const (
		longest = 128
		letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./"
	)

	return len(name) <= longest && (name[0] == '@' || name[0] == '/') && strings.Trim(name[1:], letters) == ""
}
