package rule

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// scoped is a set with one rule for each scope, with the ids r0, r1 and so on.
func scoped(tb testing.TB, scopes ...string) *Set {
	tb.Helper()
	var b strings.Builder
	b.WriteString("rules:\n")
	for i, s := range scopes {
		fmt.Fprintf(&b, "  - {id: r%d, limit: 3, window: 60s, %s}\n", i, s)
	}
	return parsed(tb, b.String())
}

// matched gives the places of the rules that match.
func matched(set *Set, req Request) string {
	var places []string
	for _, m := range set.Match(&req, nil) {
		if set.Rules[m.Index] != m.Rule {
			return "a match whose index is not its rule's"
		}
		places = append(places, strconv.Itoa(m.Index))
	}
	return strings.Join(places, " ")
}

func TestPathsMatchPatterns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ pattern, yes, no string }{
		{"/v1/search", "/v1/search /v1/search/ //v1//search /v1/search?q=/x", "/ /v1 /v1/search/x /v1/searching /v2/search"},
		{"/v1/**", "/v1 /v1/ /v1/a /v1/a/b", "/ /v10 /v10/a /a/v1"},
		{"/**", "/ /a /a/b * x", ""},
		{"/", "/ // /./ /a/..", "/a"},
		{"/v1/{user}/cart", "/v1/a/cart /v1/cart/cart", "/v1/cart /v1//cart /v1/a/b/cart /v1/a/cart/x"},
		{"/{a}/{b}", "/x/y", "/ /x /x/y/z"},
		{"/{a}/x/**", "/1/x /1/x/y/z", "/x /1/2/x /1"},
		{"/a%20b", "/a%20b", "/a /ab /a+b"},
		{"/a b", "/a%20b", "/a+b"},
		{"/ключ", "/%D0%BA%D0%BB%D1%8E%D1%87 /%d0%ba%d0%bb%d1%8e%d1%87 /ключ", "/%D0%BA"},
		{"/%2A", "/* /%2a", "/a"},
		{"/a%2Fb", "/a%2Fb /a%2fb", "/a/b"},
		{"/a/../b/./c", "/b/c", "/a/b/c"},
		{"/users:search", "/users:search /users%3Asearch /users%3asearch", "/users"},
	} {
		set := scoped(t, fmt.Sprintf("scope: %q", c.pattern))
		for path := range strings.FieldsSeq(c.yes) {
			if matched(set, Request{Path: path}) != "0" {
				t.Errorf("%s does not match %s", c.pattern, path)
			}
		}
		for path := range strings.FieldsSeq(c.no) {
			if matched(set, Request{Path: path}) != "" {
				t.Errorf("%s matches %s", c.pattern, path)
			}
		}
	}
}

// Every spelling that the upstream takes as the same resource must spend the same budget.
func TestPathSpellings(t *testing.T) {
	t.Parallel()
	const path = "scope: /api/login"
	set := scoped(t, path, path+", pathCase: insensitive", path+", trailingSlash: strict", "scope: /api/login/, trailingSlash: strict",
		"scope: /api/LOGIN/**, pathCase: insensitive, trailingSlash: strict")
	for spelling, want := range map[string]string{
		"/api/login": "0 1 2 4", "/api//login": "0 1 2 4", "/api/./login": "0 1 2 4", "/api/x/../login": "0 1 2 4", "/api/%6Cogin": "0 1 2 4",
		"/api/%6cogin": "0 1 2 4", "/api/login?x=1": "0 1 2 4", "/api/login#x": "0 1 2 4", "/../api/login": "0 1 2 4", "/api/%2e/login": "0 1 2 4",
		"/api/x/%2E%2e/login": "0 1 2 4", "//api/login": "0 1 2 4", "api/login": "0 1 2 4", "/%61%70%69/login": "0 1 2 4",
		"/api/login/": "0 1 3 4", "/api/login//": "0 1 3 4", "/api/login/.": "0 1 3 4", "/api/login/x/..": "0 1 3 4",
		"/API/login": "1 4", "/api/LOGIN/": "1 4", "/api/LOGIN/x": "4",
		"/api/login%2F": "", "/api%2Flogin": "", "/api/login%00": "", "/api/login%": "", "/api/%zzlogin": "", "/": "", "": "",
	} {
		if got := matched(set, Request{Path: spelling}); got != want {
			t.Errorf("%q matches %q, want %q", spelling, got, want)
		}
	}
}

func TestScopesOfAllKinds(t *testing.T) {
	t.Parallel()
	set := scoped(t,
		"mode: shadow", // 0: everything
		"mode: off",
		"scope: {methods: [GET, PURGE]}",
		"scope: {hosts: [api.example.com, '[::1]']}",
		"scope: {hosts: '*.example.com'}",
		"scope: {headers: {x-plan: [free, trial]}}",
		"scope: {descriptors: {region: eu, tier: 1}}",
		"scope: {paths: [/a, '/{x}', /a/**], methods: POST}", // 7
		"scope: {paths: /a, hosts: api.example.com, headers: {x-plan: free}}",
	)
	plan := func(values ...string) http.Header { return http.Header{"X-Plan": values} }
	for _, c := range []struct {
		req  Request
		want string
	}{
		{Request{}, "0"},
		{Request{Method: "GET"}, "0 2"},
		{Request{Method: "get"}, "0 2"},
		{Request{Method: "purge"}, "0 2"},
		{Request{Method: "PURGED"}, "0"},
		{Request{Host: "api.example.com"}, "0 3 4"},
		{Request{Host: "API.Example.COM.:8080"}, "0 3 4"},
		{Request{Host: "a.b.example.com"}, "0 4"},
		{Request{Host: "example.com"}, "0"},
		{Request{Host: "badexample.com"}, "0"},
		{Request{Host: ".example.com"}, "0"},
		{Request{Host: "[::1]:80"}, "0 3"},
		{Request{Host: "[::1]"}, "0 3"},
		{Request{Headers: plan("free")}, "0 5"},
		{Request{Headers: plan("gold", "trial", "free")}, "0 5"},
		{Request{Headers: plan("Free")}, "0"},
		{Request{Descriptors: map[string]string{"region": "eu", "tier": "1"}}, "0 6"},
		{Request{Descriptors: map[string]string{"region": "eu"}}, "0"},
		{Request{Method: "POST", Path: "/a"}, "0 7"},
		{Request{Method: "POST", Path: "/a/b"}, "0 7"},
		{Request{Method: "POST", Path: "/b"}, "0 7"},
		{Request{Method: "POST", Path: "/b/b"}, "0"},
		{Request{Path: "/a", Host: "api.example.com", Headers: plan("free")}, "0 3 4 5 8"},
		{Request{Path: "/a", Host: "api.example.com"}, "0 3 4"},
	} {
		if got := matched(set, c.req); got != c.want {
			t.Errorf("%+v matches %q, want %q", c.req, got, c.want)
		}
	}
}

// The index must find what a look at every rule finds.
func TestMatchAgreesWithALookAtEveryRule(t *testing.T) {
	t.Parallel()
	d := dice{rand.New(rand.NewPCG(1, 2))}
	found := 0
	for range 50 {
		var scopes []string
		for range 1 + d.IntN(80) {
			scopes = append(scopes, d.scope())
		}
		set := scoped(t, scopes...)
		for range 100 {
			req := d.request()
			var want []string
			for i, r := range set.Rules {
				if inScope(r, &req) {
					want = append(want, strconv.Itoa(i))
				}
			}
			found += len(want)
			if got := matched(set, req); got != strings.Join(want, " ") {
				t.Fatalf("%+v matches %s, want %s, of\n%s", req, got, want, set.Marshal())
			}
		}
	}
	if found < 1000 {
		t.Errorf("only %d matches: the test compares too little", found)
	}
}

// dice draws scopes and requests from so few words that they often meet.
type dice struct{ *rand.Rand }

func (d dice) pick(from ...string) string { return from[d.IntN(len(from))] }

func (d dice) scope() string {
	if d.IntN(4) == 0 {
		return d.pick("scope: {methods: PUT}", "scope: {hosts: h}", "scope: {hosts: [h, '*.h']}", "scope: {headers: {x: [a, b]}}",
			"scope: {descriptors: {d: [1, 2], e: 1}}")
	}
	var paths []string
	for range 1 + d.IntN(3) {
		path := d.path("a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "{x}", "{y}") + d.pick("", "", "/", "/**")
		if path == "" {
			path = "/"
		}
		if path = strconv.Quote(path); !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return fmt.Sprintf("scope: {paths: [%s]%s}, pathCase: %s, trailingSlash: %s, mode: %s", strings.Join(paths, ", "),
		d.pick("", ", methods: GET", ", hosts: h", ", headers: {x: a}", ", descriptors: {d: '1'}"), d.pick("sensitive", "insensitive"),
		d.pick("ignore", "strict"), d.pick("enforce", "enforce", "off"))
}

func (d dice) path(segments ...string) string {
	path := make([]string, 1, 5)
	for range d.IntN(5) {
		path = append(path, d.pick(segments...))
	}
	return strings.Join(path, "/")
}

func (d dice) request() Request {
	return Request{
		Path:   d.path("a", "b", "c", "l", "A", "zz", ".", "..") + d.pick("", "/"),
		Method: d.pick("GET", "PUT", ""), Host: d.pick("h", "g.h", "H"),
		Headers:     map[string][]string{"X": {d.pick("a", "c"), d.pick("b", "a")}},
		Descriptors: map[string]string{"d": d.pick("1", "2", "3"), "e": d.pick("1", "2")},
	}
}

// inScope is the simple form of Match for one rule.
func inScope(r *Rule, req *Request) bool {
	clean, slash := cleanPath(req.Path)
	path := len(r.Scope.patterns) == 0
	for i := range r.Scope.patterns {
		p := &r.Scope.patterns[i]
		path = path || p.matches(clean, r.Scope.PathCase == CaseInsensitive) && r.Scope.slashAgrees(p, slash)
	}
	return r.Mode != Off && path && r.Scope.agrees(req, methodBit(req.Method))
}

func TestMatchReusesTheBuffer(t *testing.T) {
	set := scoped(t, "scope: /a", "scope: /a/**", "keyBy: user")
	buf := make([]Match, 2, 8)
	req := Request{Path: "/a", Method: "GET"}
	if got := set.Match(&req, buf); len(got) != 3 || &got[0] != &buf[0] || got[2].Rule != set.Rules[2] {
		t.Errorf("got %v", got)
	}
	if n := testing.AllocsPerRun(100, func() { buf = set.Match(&req, buf) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzPath holds what a clean path is: cleaning it again changes nothing, and no spelling escapes a rule on all paths.
func FuzzPath(f *testing.F) {
	for _, seed := range []string{
		"", "/", "*", "/a/b", "/a//b/", "/a/./b/../c", "/%41", "/%2e%2e/x", "/%2f", "/%zz", "/a%", "/?q", "/#f", "/ключ", "/\x00", "a/b", "/a/..//../", "/%c3%28", "/a;b=1/,",
	} {
		f.Add(seed)
	}
	set := scoped(f, "scope: /**", "scope: '/{one}'", "scope: '/{one}/**', pathCase: insensitive", "scope: /")
	f.Fuzz(func(t *testing.T, path string) {
		clean, slash := cleanPath(path)
		if again, s := cleanPath(clean + "/"); again != clean || !s {
			t.Errorf("%q cleans to %q, and that to %q", path, clean, again)
		}
		if again, _ := cleanPath(clean); again != clean {
			t.Errorf("%q cleans to %q, and that to %q", path, clean, again)
		}
		if rewritten, s := rewritePath(path); rewritten != clean || s != slash {
			t.Errorf("%q is clean as %q (%v), and rewritten as %q (%v)", path, clean, slash, rewritten, s)
		}
		segments := strings.Count(clean, "/")
		want := map[bool]string{true: "0 2", false: "0 1 2"}[segments > 1]
		if segments == 0 {
			want = "0 3"
		}
		if got := matched(set, Request{Path: path}); got != want {
			t.Errorf("%q matches %q, want %q", path, got, want)
		}
	})
}
