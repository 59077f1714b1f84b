package admin

import (
	"context"
	"crypto/x509"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// principal is who calls, and what they may do.
type principal struct {
	name  string
	role  Role
	rules []string // how the ids of their rules begin; empty for all
	// caller says that it is a service or a holder, which may ask about budgets and nothing else.
	caller bool
}

// mayRule says whether a rule is one of theirs.
func (p *principal) mayRule(id string) bool {
	return len(p.rules) == 0 || slices.ContainsFunc(p.rules, func(prefix string) bool { return strings.HasPrefix(id, prefix) })
}

// whole says whether all rules are theirs.
func (p *principal) whole() bool { return len(p.rules) == 0 }

// principalKey is where a context has its principal.
type principalKey struct{}

// caller is who called; every route has one.
func caller(ctx context.Context) *principal {
	p, _ := ctx.Value(principalKey{}).(*principal)
	if p == nil {
		return &principal{} // who may do nothing
	}

	return p
}

// need is what a route asks of its callers.
type need struct {
	role Role
	// whole keeps out those who may see and change some rules only.
	whole bool
	// callers lets services and holders in, too.
	callers bool
}

// guard lets only those through who may.
func (d *Door) guard(api huma.API, n need) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		request, _ := humago.Unwrap(ctx)

		p, problem := d.identify(request)
		if problem == nil {
			problem = n.refuses(p, ctx.Param("ruleId"))
		}

		if problem != nil {
			d.log.Info("refused a call", "status", problem.Status, "who", nameOf(p), "operation", ctx.Operation().OperationID)
			writeProblem(api, ctx, problem)

			return
		}

		next(huma.WithValue(ctx, principalKey{}, p))
	}
}

func nameOf(p *principal) string {
	if p == nil {
		return ""
	}

	return p.name
}

// refuses says why somebody may not call a route; nil if they may.
func (n need) refuses(p *principal, ruleID string) *Problem {
	switch {
	case p.caller && n.callers:
		return nil
	case p.caller:
		return refuse(http.StatusForbidden, "this token is for services and holders: show one of role viewer, operator or admin")
	case p.role < n.role:
		return refuse(http.StatusForbidden, "this takes the role %s, and you have %s", n.role, p.role)
	case n.whole && !p.whole():
		return refuse(http.StatusForbidden, "this is about all rules, and yours are those that begin with %s", strings.Join(p.rules, ", "))
	case ruleID != "" && !p.mayRule(ruleID):
		return refuse(http.StatusForbidden, "this rule is not yours: yours begin with %s", strings.Join(p.rules, ", "))
	}

	return nil
}

// identify finds out who calls. The problem is nil if they may be somebody; what they may do is another question.
func (d *Door) identify(r *http.Request) (*principal, *Problem) {
	tokens, err := d.tokensNow(r.Context())
	if err != nil {
		return nil, refuse(http.StatusServiceUnavailable, "who may call is not known while the rule store cannot be read: %v", err)
	}

	if token := bearer(r.Header.Get("Authorization")); token != "" {
		return d.byToken(r, tokens, token)
	}

	if p := d.byCertificate(r); p != nil {
		return p, nil
	}

	if d.config.Callers == nil && d.open(r, tokens) {
		return loopback(), nil
	}

	if d.config.Callers == nil && client(r).IsLoopback() && d.unclaimed(tokens) {
		return nil, refuse(http.StatusUnauthorized, "this call came through a proxy, under a name that is not this machine's, or from a "+
			"page of another origin: without a token none but this machine's own are let in; make the first token here with "+
			"leaseway token create")
	}

	return nil, refuse(http.StatusUnauthorized, "send the header Authorization: Bearer TOKEN; leaseway token create makes one")
}

// Reads says whether a call, of a route that is not the door's, is by somebody who may see what concerns all rules: by a
// token or a certificate of their own.
func (d *Door) Reads(r *http.Request) bool {
	book := d.callersNow()
	if book == nil {
		return false
	}

	p := d.byCertificate(r)
	if token := bearer(r.Header.Get("Authorization")); token != "" {
		p = book.owner(token, d.config.Now())
	}

	return p != nil && p.role >= Viewer && p.whole()
}

// open says whether nobody was given a right yet, so that this machine has all of them.
func (d *Door) open(r *http.Request, tokens *tokenBook) bool { return d.unclaimed(tokens) && Local(r) }

func (d *Door) unclaimed(tokens *tokenBook) bool {
	return !tokens.any() && len(d.config.Certificates) == 0
}

func loopback() *principal { return &principal{name: "loopback", role: Admin} }

// byToken finds the owner of a token. Whoever guesses too often is not listened to for a while.
func (d *Door) byToken(r *http.Request, tokens *tokenBook, token string) (*principal, *Problem) {
	now := d.config.Now()
	from := client(r)

	if wait := d.strikes.wait(from, now); wait > 0 {
		problem := refuse(http.StatusTooManyRequests, "too many wrong tokens came from this address: wait, and send a right one")
		problem.retry = int((wait-1)/time.Second) + 1

		return nil, problem
	}

	if p := tokens.owner(token, now); p != nil {
		return p, nil
	}

	if d.config.Callers != nil && d.config.Callers.Allows(token) {
		if d.open(r, tokens) { // the first token is made by somebody who has one of these, from this machine
			return loopback(), nil
		}

		return &principal{name: "caller", caller: true}, nil
	}

	d.strikes.strike(from, now)

	return nil, refuse(http.StatusUnauthorized, "the token is not known here, or has expired: leaseway token create makes one")
}

// byCertificate finds the role of a client certificate that the listener has verified; nil if it has none.
func (d *Door) byCertificate(r *http.Request) *principal {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return nil
	}

	names := namesOf(r.TLS.VerifiedChains[0][0])
	for i := range d.config.Certificates {
		if c := &d.config.Certificates[i]; slices.Contains(names, c.Name) {
			return &principal{name: "certificate " + c.Name, role: c.Role, rules: c.Rules}
		}
	}

	return nil
}

// namesOf are all names that a certificate has.
func namesOf(c *x509.Certificate) []string {
	names := append([]string{c.Subject.CommonName}, c.DNSNames...)
	names = append(names, c.EmailAddresses...)

	for _, uri := range c.URIs {
		names = append(names, uri.String())
	}

	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// Local says whether a call comes from this machine, and was meant to: not from a page that a browser here shows, and not
// through a proxy here, as far as it shows.
func Local(r *http.Request) bool {
	if !r.ProtoAtLeast(1, 1) {
		return false // nginx speaks HTTP/1.0 and names nobody, unless told otherwise; no client of today does
	}

	for _, header := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Via"} {
		if r.Header.Get(header) != "" {
			return false
		}
	}

	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}

	host = strings.Trim(host, "[]")
	named, err := netip.ParseAddr(host)

	return client(r).IsLoopback() && (host == "localhost" || err == nil && named.IsLoopback()) &&
		http.NewCrossOriginProtection().Check(r) == nil
}

// client is the address of the peer; the zero address when it has none.
func client(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}

	return peer.Addr().Unmap().WithZone("")
}

// bearer returns the token of an Authorization header; "" for none.
func bearer(header string) string {
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}

	return strings.TrimSpace(token)
}
