package rule

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func classified(tb testing.TB) *Set {
	tb.Helper()
	return parsed(tb, `
rules: []
classes:
  - {class: test, apikeyPrefix: [sk_test_, rk_test_]}
  - {class: critical, scope: {paths: [/v1/charges, "/v1/charges/{id}"], methods: [POST, GET]}}
  - {class: read, scope: /v1/search}
  - {class: critical, scope: {headers: {X-Urgent: "1"}}}
  - {class: write, scope: {paths: /V1/export, hosts: api.example.com, descriptors: {plan: pro}}, pathCase: insensitive}
  - {class: test, scope: /sandbox/**, apikeyPrefix: sk_}
`)
}

func TestTheFirstClassThatAgreesIsTheRequests(t *testing.T) {
	t.Parallel()
	set := classified(t)
	for _, row := range []struct {
		req  Request
		want Class
		by   string
	}{
		{Request{APIKey: "sk_test_1", Method: "POST", Path: "/v1/charges"}, ClassTest, "classes[0]"},
		{Request{APIKey: "rk_test_", Method: "GET"}, ClassTest, "classes[0]"},
		{Request{APIKey: "sk_tes", Method: "GET"}, ClassRead, "method"},
		{Request{APIKey: "sk_live_1", Method: "POST", Path: "/v1/charges"}, ClassCritical, "classes[1]"},
		{Request{Method: "GET", Path: "/v1//charges/./7"}, ClassCritical, "classes[1]"},
		{Request{Method: "DELETE", Path: "/v1/charges/7"}, ClassWrite, "method"},
		{Request{Method: "POST", Path: "/v1/search", Headers: map[string][]string{"X-Urgent": {"1"}}}, ClassRead, "classes[2]"},
		{Request{Method: "POST", Headers: map[string][]string{"X-Urgent": {"1"}}}, ClassCritical, "classes[3]"},
		{Request{Method: "GET", Path: "/v1/EXPORT", Host: "api.example.com:443", Descriptors: map[string]string{"plan": "pro"}}, ClassWrite, "classes[4]"},
		{Request{Method: "GET", Path: "/sandbox/a", APIKey: "sk_live_1"}, ClassTest, "classes[5]"},
		{Request{Method: "GET", Path: "/sandbox/a"}, ClassRead, "method"},
		{Request{Class: ClassCritical, APIKey: "sk_test_1"}, ClassCritical, "request"},
		{Request{Method: "get"}, ClassRead, "method"},
		{Request{Method: "HEAD"}, ClassRead, "method"},
		{Request{Method: "OPTIONS"}, ClassRead, "method"},
		{Request{Method: "TRACE"}, ClassRead, "method"},
		{Request{Method: "PATCH"}, ClassWrite, "method"},
		{Request{Method: "CONNECT"}, ClassWrite, "method"},
		{Request{Method: "PURGE"}, ClassWrite, "method"},
		{Request{}, ClassWrite, "method"},
		{Request{Method: "GET", LowerTo: ClassTest}, ClassRead, "method"}, // whose budget it is, the caller does not say
	} {
		if got, by := set.ExplainClass(&row.req); got != row.want || by != row.by {
			t.Errorf("%+v is %v by %s, want %v by %s", row.req, got, by, row.want, row.by)
		}
	}
}

func TestACallerLowersAndNeverRaises(t *testing.T) {
	t.Parallel()
	for c := ClassTest; c <= ClassCritical; c++ {
		for to := ClassUnset; to <= ClassCritical; to++ {
			want := c
			if to != ClassUnset && to < c {
				want = to
			}
			if got := c.Lowered(to); got != want {
				t.Errorf("%v lowered to %v is %v, want %v", c, to, got, want)
			}
		}
		if back, ok := ParseClass(strings.ToUpper(c.String())); !ok || back != c {
			t.Errorf("%v is read as %v", c, back)
		}
	}
	if _, ok := ParseClass(""); ok {
		t.Error("no text is a class")
	}
}

func TestClassesCostNoAllocation(t *testing.T) {
	set := classified(t)
	req := benchRequest()
	req.Method, req.Path = "POST", "/v1/charges"
	if n := testing.AllocsPerRun(100, func() {
		if set.ClassOf(req) != ClassCritical {
			t.Fatal("another class")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestClassesSurviveMarshalAndNext(t *testing.T) {
	t.Parallel()
	set := classified(t)
	roundTrip(t, set)
	next := set.Next(nil, 7)
	if next.ClassOf(&Request{APIKey: "sk_test_1"}) != ClassTest {
		t.Error("a numbered set has lost its classes")
	}
	roundTrip(t, next)
	roundTrip(t, parsed(t, "rules: []\nclasses: []"))
}

func TestReviewFindsClassesThatNoRequestComesTo(t *testing.T) {
	t.Parallel()
	_, warnings, err := Review("rules.yaml", []byte(`
rules: []
classes:
  - {class: test, apikeyPrefix: sk_}
  - {class: critical, apikeyPrefix: sk_live_}
  - {class: read, scope: /v1/**}
  - {class: write, scope: {paths: /v1/charges, methods: POST}}
  - {class: critical, apikeyPrefix: [sk_live_, k_], scope: /v2}
`))
	if err != nil {
		t.Fatal(err)
	}
	var lines []int
	for _, w := range warnings {
		lines = append(lines, w.Line)
		if !strings.Contains(w.Message, "is never looked at") {
			t.Error(w)
		}
	}
	if !slices.Equal(lines, []int{5, 7}) {
		t.Errorf("warnings at lines %v, want 5 and 7: %v", lines, warnings)
	}
}

func TestTooManyClassesAreRefused(t *testing.T) {
	t.Parallel()
	errs := refused(t, "rules: []\nclasses:\n"+strings.Repeat("  - {class: read}\n", maxClasses+1))
	if len(errs) != 1 || !strings.Contains(errs[0].Fix, "at most 256 fit") {
		t.Error(errs)
	}
}

// Neither a key nor a digest can be the key of another mode's ledger.
func TestTestModeHasLedgersOfItsOwn(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	long := strings.Repeat("k", MaxKey+1)
	for _, key := range []string{"", "a", "test:a", "\xfftest:a", "\xfftest:\xfftest:a", "\xffsha256:", long, Compact(long), testMark + Compact(long)} {
		live := Compact(key)
		for name, ledger := range map[string]string{"live": live, "test": TestKey(live)} {
			if other, twice := seen[ledger]; twice {
				t.Errorf("%q, %s, has the ledger of %s", key, name, other)
			}
			seen[ledger] = fmt.Sprintf("%q, %s", key, name)
			if LiveKey(ledger) != live {
				t.Errorf("%q, %s, goes by the limits of %q", key, name, LiveKey(ledger))
			}
		}
	}
}

func BenchmarkClassOf(b *testing.B) {
	for name, set := range map[string]*Set{"none": parsed(b, "rules: []"), "six": classified(b)} {
		b.Run(name, func(b *testing.B) {
			req := benchRequest()
			b.ReportAllocs()
			for b.Loop() {
				set.ClassOf(req)
			}
		})
	}
}
