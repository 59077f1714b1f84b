package admin

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/leaseway/leaseway/internal/rulestore"
)

// accessCase is who may call an operation, written down apart from the code that says so.
type accessCase struct {
	least Role
	// scoped says what those may who have the rules that begin with "search": all, nothing, or only these.
	scoped  string
	callers bool // services and holders may
	path    string
	body    string
}

const (
	inScope = "in scope" // with a rule of theirs, not with another
	always  = "always"
	never   = "never"
)

// accessCases has every operation of the API; the test fails for one that is not here.
func accessCases() map[string]accessCase {
	const rulePath = "/admin/rules/ID"

	return map[string]accessCase{
		"list-rules":       {least: Viewer, scoped: always, path: "/admin/rules"},
		"get-rule":         {least: Viewer, scoped: inScope, path: rulePath},
		"put-rule":         {least: Operator, scoped: inScope, path: rulePath + "?dryRun=true", body: searchRule},
		"patch-rule":       {least: Operator, scoped: inScope, path: rulePath + "?dryRun=true", body: `{"mode":"off"}`},
		"delete-rule":      {least: Operator, scoped: inScope, path: rulePath + "?dryRun=true"},
		"list-versions":    {least: Viewer, scoped: inScope, path: rulePath + "/versions"},
		"get-version":      {least: Viewer, scoped: inScope, path: rulePath + "/versions/1"},
		"diff-versions":    {least: Viewer, scoped: inScope, path: rulePath + "/diff"},
		"roll-back-rule":   {least: Operator, scoped: inScope, path: rulePath + "/rollback?dryRun=true", body: `{"version":1}`},
		"list-audit":       {least: Viewer, scoped: inScope, path: "/admin/audit?rule=ID"},
		"get-document":     {least: Viewer, scoped: always, path: "/admin/document"},
		"apply-document":   {least: Operator, scoped: inScope, path: "/admin/document?dryRun=true", body: `{"rules":[{"id":"ID","limit":7,"window":"1m"}]}`},
		"list-overrides":   {least: Viewer, scoped: inScope, path: rulePath + "/overrides"},
		"put-override":     {least: Operator, scoped: inScope, path: rulePath + "/overrides?dryRun=true", body: `{"key":"k","limit":5}`},
		"delete-override":  {least: Operator, scoped: inScope, path: rulePath + "/overrides?dryRun=true&key=k"},
		"import-overrides": {least: Operator, scoped: inScope, path: "/admin/overrides/import?dryRun=true", body: `{"rule":"ID","key":"k","limit":5}`},
		"export-overrides": {least: Viewer, scoped: inScope, path: "/admin/overrides/export?rule=ID"},
		"list-settings":    {least: Viewer, scoped: never, path: "/admin/settings"},
		"put-setting":      {least: Admin, scoped: never, path: "/admin/settings/headers?dryRun=true", body: `"ietf"`},
		"delete-setting":   {least: Admin, scoped: never, path: "/admin/settings/headers?dryRun=true"},
		"list-switches":    {least: Viewer, scoped: always, path: "/admin/switches"},
		"throw-switch":     {least: Operator, scoped: inScope, path: "/admin/switches/rule:ID?dryRun=true", body: `{"reason":"r"}`},
		"reset-switch":     {least: Operator, scoped: inScope, path: "/admin/switches/rule:ID?dryRun=true"},
		"list-tokens":      {least: Admin, scoped: never, path: "/admin/tokens"},
		"create-token":     {least: Admin, scoped: never, path: "/admin/tokens?dryRun=true", body: `{"name":"n","role":"viewer"}`},
		"revoke-token":     {least: Admin, scoped: never, path: "/admin/tokens/none?dryRun=true"},
		"list-instances":   {least: Viewer, scoped: always, path: "/admin/instances"},
		"who-am-i":         {least: Viewer, scoped: always, path: "/admin/whoami"},
		"get-limits":       {least: Viewer, scoped: always, callers: true, path: "/v1/limits?key=k"},
		"find-limits":      {least: Viewer, scoped: always, callers: true, path: "/v1/limits", body: `{"key":"k"}`},
		"reset-budget":     {least: Operator, scoped: inScope, path: rulePath + "/reset?dryRun=true", body: `{"key":"k"}`},
		"refund-budget":    {least: Operator, scoped: inScope, path: rulePath + "/refund?dryRun=true", body: `{"key":"k","tokens":1}`},
	}
}

// operations are those of the OpenAPI document, by their ids.
func operations(api huma.API) map[string]*huma.Operation {
	all := map[string]*huma.Operation{}

	for _, item := range api.OpenAPI().Paths {
		for _, op := range []*huma.Operation{item.Get, item.Put, item.Post, item.Patch, item.Delete, item.Head, item.Options, item.Trace} {
			if op != nil {
				all[op.OperationID] = op
			}
		}
	}

	return all
}

// callersFile is a token file as the server has one.
type callersFile string

func (f callersFile) Allows(token string) bool { return token == string(f) }

func TestWhoMayCallWhat(t *testing.T) {
	const fileToken = "a-token-of-the-token-file"

	r := newRig(t, func(c *Config) { c.Callers = callersFile(fileToken) })
	change := &rulestore.Change{Author: "test", Action: "test"}

	for _, id := range []string{"search", "other"} {
		made, _, err := parseRule(id, []byte(searchRule))
		if err != nil {
			t.Fatal(err)
		}

		change.Rules = append(change.Rules, rulestore.RuleChange{ID: id, Rule: made})
	}

	change.Settings = []rulestore.SettingChange{
		{Name: "headers", Value: []byte(`"both"`)},
		{Name: "switches", Value: []byte(`{"rules":{"search":"off","other":"off"}}`)},
	}

	type who struct {
		name, token string
		role        Role
		scoped      bool
		caller      bool
		known       bool
	}

	people := []who{{name: "nobody"}, {name: "a stranger", token: "lw_abcdefgh_" + strings.Repeat("x", 43)}, {name: "the token file", token: fileToken, caller: true, known: true}}

	for _, row := range []struct {
		role   string
		prefix []string
	}{
		{"viewer", nil}, {"operator", nil}, {"admin", nil}, {"holder", nil},
		{"viewer", []string{"search"}}, {"operator", []string{"search"}}, {"admin", []string{"search"}},
	} {
		drawn, err := NewToken(Token{Name: row.role, Role: row.role, Rules: row.prefix, Created: start})
		if err != nil {
			t.Fatal(err)
		}

		change.Settings = append(change.Settings, drawn.Setting)
		people = append(people, who{
			name: fmt.Sprint(row.role, row.prefix), token: drawn.Text, role: Role(max(0, slices.Index(roleWords(), row.role))),
			scoped: row.prefix != nil, caller: row.role == HolderRole, known: true,
		})
	}

	expired, err := NewToken(Token{Name: "late", Role: "admin", Created: start, Expires: start})
	if err != nil {
		t.Fatal(err)
	}

	change.Settings = append(change.Settings, expired.Setting)
	people = append(people, who{name: "who is late", token: expired.Text})

	if _, err := r.store.Write(t.Context(), change); err != nil {
		t.Fatal(err)
	}

	cases := accessCases()

	for id, op := range operations(r.api) {
		one, there := cases[id]
		if !there {
			t.Errorf("%s %s: nobody said who may call %s: add it to accessCases", op.Method, op.Path, id)

			continue
		}

		delete(cases, id)

		for _, person := range people {
			for _, ruleID := range []string{"search", "other"} {
				want := http.StatusForbidden

				switch {
				case !person.known:
					want = http.StatusUnauthorized
				case person.caller && one.callers,
					!person.caller && person.role >= one.least && (!person.scoped || one.scoped == always || one.scoped == inScope && ruleID == "search"):
					want = 0 // let through
				}

				r.after(time.Minute) // so that wrong tokens do not shut the address out
				r.token = person.token
				path := strings.ReplaceAll(one.path, "ID", ruleID)
				headers := []string{}

				if id == "import-overrides" {
					headers = []string{"Content-Type", typeJSONLines}
				}

				got := r.send(op.Method, path, strings.ReplaceAll(one.body, "ID", ruleID), headers...)
				refused := got.status == http.StatusUnauthorized || got.status == http.StatusForbidden

				if want != 0 && got.status != want || want == 0 && refused {
					t.Errorf("%s: %s %s: got %d, want %d (0: let through): %s", person.name, op.Method, path, got.status, want, got.body)
				}

				if got.status >= 500 || got.status == http.StatusNotFound && id != "revoke-token" {
					t.Errorf("%s: %s %s: the case does not reach what it is about: %d %s", person.name, op.Method, path, got.status, got.body)
				}

				if refused && got.status == http.StatusUnauthorized && got.header.Get("WWW-Authenticate") == "" {
					t.Errorf("%s %s: no WWW-Authenticate", op.Method, path)
				}
			}
		}
	}

	for _, id := range slices.Sorted(maps.Keys(cases)) {
		t.Errorf("%s: there is no such operation any more", id)
	}
}

// Where nobody has a token, this machine may do everything; never another one, nor what a browser or a proxy here passes on.
func TestOnlyThisMachineNeedsNoTokenAndOnlyUntilThereIsOne(t *testing.T) {
	r := newRig(t)
	r.send(http.MethodGet, "/admin/whoami", "").want(http.StatusOK, `"name":"loopback"`, `"role":"admin"`)

	for _, row := range []struct {
		name string
		does func(*http.Request)
	}{
		{"another machine", func(q *http.Request) { q.RemoteAddr = "192.0.2.7:1234" }},
		{"no address", func(q *http.Request) { q.RemoteAddr = "@" }},
		{"a name that was rebound", func(q *http.Request) { q.Host = "evil.example" }},
		{"a proxy", func(q *http.Request) { q.Header.Set("X-Forwarded-For", "192.0.2.7") }},
		{"a proxy as nginx is by default", func(q *http.Request) { q.Proto, q.ProtoMajor, q.ProtoMinor = "HTTP/1.0", 1, 0 }},
		{"a proxy that says whom it was asked for", func(q *http.Request) { q.Header.Set("X-Forwarded-Host", "limits.example") }},
		{"a proxy that says so otherwise", func(q *http.Request) { q.Header.Set("Forwarded", "for=192.0.2.7") }},
		{"a page of another site", func(q *http.Request) { q.Header.Set("Sec-Fetch-Site", "cross-site") }},
		{"a page of another origin", func(q *http.Request) { q.Header.Set("Origin", "http://evil.example") }},
	} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/admin/rules", nil)
		request.RemoteAddr, request.Host = "127.0.0.1:1234", "localhost:8080"

		if p, problem := r.door.identify(request); problem != nil || p.role != Admin {
			t.Fatalf("got %+v, %v", p, problem)
		}

		row.does(request)

		p, problem := r.door.identify(request)
		if problem == nil || problem.Status != http.StatusUnauthorized {
			t.Fatalf("%s: got %+v, %v", row.name, p, problem)
		}

		// Who is at this machine, or means to be, learns why it is not enough.
		if here := strings.HasPrefix(request.RemoteAddr, "127."); strings.Contains(problem.Detail, "came through a proxy") != here {
			t.Errorf("%s: told %q", row.name, problem.Detail)
		}
	}

	// The first token is one by which others can be made.
	for _, body := range []string{
		`{"name": "a", "role": "viewer"}`, `{"name": "a", "role": "admin", "rules": ["x"]}`, `{"name": "a", "role": "admin", "expiresInSec": 60}`,
		`{"name": "a", "role": "holder"}`,
	} {
		r.send(http.MethodPost, "/admin/tokens", body).want(http.StatusUnprocessableEntity, "lock everybody out")
	}

	token := r.createToken(`{"name": "ann", "role": "admin"}`)
	r.send(http.MethodGet, "/admin/whoami", "").want(http.StatusUnauthorized)
	r.token = token
	r.send(http.MethodGet, "/admin/whoami", "").want(http.StatusOK, `"name":"ann"`)

	// A row that somebody broke by hand does not open the door.
	broken := newRig(t)
	if _, err := broken.store.Write(t.Context(), &rulestore.Change{
		Author: "test", Action: "test", Settings: []rulestore.SettingChange{{Name: tokenPrefix + "x", Value: []byte(`5`)}},
	}); err != nil {
		t.Fatal(err)
	}

	broken.send(http.MethodGet, "/admin/whoami", "").want(http.StatusUnauthorized)

	// Nor is it open where other tokens, or certificates, say who may call.
	for _, change := range []func(*Config){
		func(c *Config) { c.Callers = callersFile("x") },
		func(c *Config) { c.Certificates = []Certificate{{Name: "ops", Role: Admin}} },
	} {
		newRig(t, change).send(http.MethodGet, "/admin/whoami", "").want(http.StatusUnauthorized)
	}

	// Whoever has a token of the file makes the first token from this machine, and is nobody special from then on.
	first := newRig(t, func(c *Config) { c.Callers = callersFile("of-the-file") })
	first.token = "of-the-file"
	first.createToken(`{"name": "ann", "role": "admin"}`)
	first.send(http.MethodGet, "/admin/whoami", "").want(http.StatusForbidden)
}

func TestTokensAreMadeListedAndRevoked(t *testing.T) {
	r := newRig(t)
	r.token = r.createToken(`{"name": "ann", "role": "admin"}`)
	mine := r.token
	short := r.createToken(`{"name": "bob", "role": "viewer", "rules": ["team-"], "expiresInSec": 60}`)

	list := r.send(http.MethodGet, "/admin/tokens", "").want(http.StatusOK, `"name":"ann"`, `"rules":["team-"]`).lacks("sha256", mine, short)
	ids := map[string]string{}

	for _, one := range read[struct{ Tokens []TokenView }](list).Tokens {
		ids[one.Name] = one.ID
	}

	if !strings.HasPrefix(short, tokenMark+ids["bob"]+"_") {
		t.Errorf("%s does not begin with its id %s", short, ids["bob"])
	}

	// What the store and the audit have does not open the door.
	state, err := r.store.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	if text := string(state.Settings[tokenPrefix+ids["ann"]]); strings.Contains(text, strings.SplitN(mine, "_", 3)[2]) || !strings.Contains(text, "sha256") {
		t.Errorf("the store has %s", text)
	}

	r.send(http.MethodGet, "/admin/audit?version=1", "").want(http.StatusOK, "tokens.create", `"name":"ann"`).lacks("sha256", mine)
	r.send(http.MethodGet, "/admin/settings", "").want(http.StatusOK).lacks("token")
	r.send(http.MethodPut, "/admin/settings/token%2Fx", `{}`).want(http.StatusNotFound)
	r.send(http.MethodGet, "/admin/document", "").want(http.StatusOK).lacks("token")

	r.token = short
	r.send(http.MethodGet, "/admin/whoami", "").want(http.StatusOK, `"name":"bob"`)
	r.after(time.Minute)
	r.send(http.MethodGet, "/admin/whoami", "").want(http.StatusUnauthorized, "expired")

	r.token = mine
	r.send(http.MethodDelete, "/admin/tokens/"+ids["ann"], "").want(http.StatusConflict, "last token")

	next := r.createToken(`{"name": "cid", "role": "admin"}`)
	r.send(http.MethodDelete, "/admin/tokens/"+ids["ann"]+"?reason=left", "").want(http.StatusOK)
	r.send(http.MethodGet, "/admin/whoami", "").want(http.StatusUnauthorized)
	r.token = next
	r.send(http.MethodGet, "/admin/audit?action=tokens.revoke", "").want(http.StatusOK, `"author":"ann"`, `"reason":"left"`, ids["ann"])

	for _, body := range []string{
		`{"name": "", "role": "viewer"}`, `{"name": "a", "role": "root"}`, `{"name": "a", "role": "viewer", "rules": [""]}`,
		`{"name": "a", "role": "holder", "rules": ["x"]}`, `{"name": "a", "role": "viewer", "expires": "2020-01-01T00:00:00Z"}`,
		`{"name": "a", "role": "viewer", "expires": "2030-01-01T00:00:00Z", "expiresInSec": 5}`, `{"role": "viewer"}`,
	} {
		r.send(http.MethodPost, "/admin/tokens", body).want(http.StatusUnprocessableEntity)
	}
}

func TestHoldersHaveTokensOfTheirOwn(t *testing.T) {
	r := newRig(t)
	if !r.door.Allows("") {
		t.Error("a token is asked for, and there is none")
	}

	r.token = r.createToken(`{"name": "ann", "role": "admin"}`)
	if !r.door.Allows("") {
		t.Error("a token for people shuts holders out")
	}

	holder := r.createToken(`{"name": "edge", "role": "holder", "require": true}`)
	r.send(http.MethodGet, "/admin/whoami", "").want(http.StatusOK) // the server has heard of it by then

	for token, want := range map[string]bool{"": false, holder: true, r.token: false, holder + "x": false} {
		if got := r.door.Allows(token); got != want {
			t.Errorf("%q: got %v", token, got)
		}
	}
}

func TestWhoGuessesIsNotListenedTo(t *testing.T) {
	r := newRig(t)
	admin := r.createToken(`{"name": "ann", "role": "admin"}`)
	r.token = strings.Repeat("guess", 5)

	for range strikesAtOnce {
		r.send(http.MethodGet, "/admin/whoami", "").want(http.StatusUnauthorized)
	}

	r.token = admin // or else a guess that is right would show
	got := r.send(http.MethodGet, "/admin/whoami", "").want(http.StatusTooManyRequests)

	if got.header.Get("Retry-After") != "3" {
		t.Errorf("Retry-After %q", got.header.Get("Retry-After"))
	}

	r.after(strikeSpan)
	r.send(http.MethodGet, "/admin/whoami", "").want(http.StatusOK)
}

func TestStrikesAreThoseOfANetworkAndForgotten(t *testing.T) {
	s := newStrikes()
	at := netip.MustParseAddr

	for range strikesAtOnce {
		s.strike(at("2001:db8::1"), start)
	}

	for _, row := range []struct {
		addr string
		now  time.Time
		want time.Duration
	}{
		{"2001:db8::2", start, strikeSpan},
		{"2001:db8::2", start.Add(strikeSpan), 0},
		{"192.0.2.1", start, 0},
		{"2001:db8:0:1::1", start, 0},
	} {
		if s.slot(at(row.addr)) == s.slot(at("2001:db8::1")) && row.want == 0 && row.now.Equal(start) {
			continue // the one slot in 4096
		}

		if got := s.wait(at(row.addr), row.now); got != row.want {
			t.Errorf("%s after %v: got %v, want %v", row.addr, row.now.Sub(start), got, row.want)
		}
	}
}

// However many guesses come at once, and whatever happens to the clock, an address is heard again after a span.
func TestStrikesLockNobodyOut(t *testing.T) {
	s := newStrikes()
	addr := netip.MustParseAddr("192.0.2.1")

	for range 50 * strikesAtOnce {
		s.strike(addr, start)
	}

	if got := s.wait(addr, start); got != strikeSpan {
		t.Errorf("after many at once it waits %v, want %v", got, strikeSpan)
	}

	back := start.Add(-time.Hour)
	if got := s.wait(addr, back); got != 0 {
		t.Errorf("after the clock was set back by an hour it waits %v", got)
	}

	for range strikesAtOnce {
		s.strike(addr, back)
	}

	if got := s.wait(addr, back); got != strikeSpan {
		t.Errorf("then, after wrong tokens, it waits %v, want %v", got, strikeSpan)
	}
}

func TestCertificatesHaveRoles(t *testing.T) {
	r := newRig(t, func(c *Config) {
		c.Certificates = []Certificate{
			{Name: "ops", Role: Operator, Rules: []string{"team-"}},
			{Name: "spiffe://example.org/admin", Role: Admin},
		}
	})
	uri, err := url.Parse("spiffe://example.org/admin")
	if err != nil {
		t.Fatal(err)
	}

	for _, row := range []struct {
		name string
		cert *x509.Certificate
		role Role
	}{
		{"by common name", &x509.Certificate{Subject: pkix.Name{CommonName: "ops"}}, Operator},
		{"by URI", &x509.Certificate{URIs: []*url.URL{uri}}, Admin},
		{"by DNS name", &x509.Certificate{DNSNames: []string{"ops"}}, Operator},
		{"a stranger", &x509.Certificate{Subject: pkix.Name{CommonName: "opsy"}}, Nobody},
		{"without a name", &x509.Certificate{}, Nobody},
	} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/admin/whoami", nil)
		request.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{row.cert}}}

		p, problem := r.door.identify(request)
		if (problem == nil) != (row.role != Nobody) || p != nil && p.role != row.role {
			t.Errorf("%s: got %+v, %v", row.name, p, problem)
		}

		request.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{row.cert}} // nobody vouches for it
		if p, problem := r.door.identify(request); problem == nil {
			t.Errorf("%s, unverified: got %+v", row.name, p)
		}
	}
}

// late is a store whose next loads give a state of before.
type late struct {
	rulestore.Store

	before *rulestore.State
	loads  int
}

func (l *late) Load(ctx context.Context) (*rulestore.State, error) {
	if l.loads > 0 {
		l.loads--

		return l.before, nil
	}

	return l.Store.Load(ctx)
}

// Two who revoke each other at the same time lock nobody out: the second is told that it is the last.
func TestTheLastTwoDoNotRevokeEachOther(t *testing.T) {
	r := newRig(t)
	slow := &late{Store: r.store}
	other := &rig{t: t, now: start} // the door of another coordinator
	other.over(slow)

	r.token = r.createToken(`{"name": "ann", "role": "admin"}`)
	bob := r.createToken(`{"name": "bob", "role": "admin"}`)
	ids := map[string]string{}

	for _, one := range read[struct{ Tokens []TokenView }](r.send(http.MethodGet, "/admin/tokens", "").want(http.StatusOK)).Tokens {
		ids[one.Name] = one.ID
	}

	both, err := r.store.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	other.token = bob
	other.send(http.MethodGet, "/admin/tokens", "").want(http.StatusOK) // who is believed from then on
	r.send(http.MethodDelete, "/admin/tokens/"+ids["bob"], "").want(http.StatusOK)

	slow.before, slow.loads = both, 1 // bob looked just before
	other.send(http.MethodDelete, "/admin/tokens/"+ids["ann"], "").want(http.StatusConflict, "the last token")

	if slow.loads != 0 {
		t.Errorf("%d loads were not made: the test shows nothing", slow.loads)
	}
}
