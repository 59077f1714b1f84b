package leasewayhttp

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dunglas/httpsfv"
	"pgregory.net/rapid"

	"github.com/leaseway/leaseway"
)

func TestFieldsOfAnAllowedRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the clock stands at 2000-01-01, a whole second
		w := serve(newMiddleware(&verdict{decision: allowed()}, nil), get("/"))
		want := map[string]string{
			"X-RateLimit-Limit":     "150",
			"X-RateLimit-Remaining": "149",
			"X-RateLimit-Reset":     strconv.FormatInt(time.Now().Unix()+1, 10),
			"RateLimit-Policy":      `"search";q=100;w=60`,
			"RateLimit":             `"search";r=149;t=1`,
		}
		for name, value := range want {
			if got := w.Header().Values(name); len(got) != 1 || got[0] != value {
				t.Errorf("%s is %q, want %q", name, got, value)
			}
		}
		if len(w.Header()) != len(want) {
			t.Errorf("fields %v, want no others than %v", w.Header(), want)
		}
	})
}

func TestResetRoundsUp(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		after time.Duration
		want  int64
	}{
		{0, 0},
		{1, 1},
		{999_999_999, 1},
		{time.Second, 1},
		{time.Second + 1, 2},
	} {
		if got := ceilUnix(start.Add(c.after)) - start.Unix(); got != c.want {
			t.Errorf("%v after a whole second: %d, want %d", c.after, got, c.want)
		}
		if got := ceilSeconds(c.after); got != c.want {
			t.Errorf("%v: %d s, want %d", c.after, got, c.want)
		}
	}
	if got := ceilUnix(start.Add(1<<63-1)) - start.Unix(); got != 9223372037 {
		t.Errorf("the longest duration ends %d s later, want 9223372037", got)
	}
	if got := ceilSeconds(-time.Hour); got != 0 {
		t.Errorf("what is past is %d s, want 0", got)
	}
	if got := ceilSeconds(1<<63 - 1); got != 9223372037 {
		t.Errorf("the longest duration is %d s, want 9223372037", got)
	}
}

// The text of a long name does not fit the room that is there for the usual ones.
func TestFieldsOfALongName(t *testing.T) {
	name := strings.Repeat("long-", 60)
	d := allowed()
	d.Rule = name
	w := serve(newMiddleware(&verdict{decision: d}, nil), get("/"))
	if got, want := w.Header().Get("Ratelimit"), `"`+name+`";r=149;t=1`; got != want {
		t.Errorf("RateLimit is %q, want %q", got, want)
	}
	if got := w.Header().Get("X-Ratelimit-Remaining"); got != "149" {
		t.Errorf("X-RateLimit-Remaining is %q, want 149", got)
	}
}

func TestHeadersChoosesTheFields(t *testing.T) {
	ietf := []string{"Ratelimit", "Ratelimit-Policy"}
	legacy := []string{"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"}
	for headers, want := range map[Headers][]string{
		HeadersBoth:   slices.Concat(ietf, legacy),
		HeadersIETF:   ietf,
		HeadersLegacy: legacy,
		HeadersNone:   nil,
	} {
		opts := []Option{WithHeaders(headers)}
		w := serve(newMiddleware(&verdict{decision: allowed()}, opts), get("/"))
		if got := slices.Sorted(maps.Keys(w.Header())); !slices.Equal(got, want) {
			t.Errorf("%v: fields %v, want %v", headers, got, want)
		}
		w = serve(newMiddleware(&verdict{decision: overLimit()}, opts), get("/"))
		if got := w.Header().Get("Retry-After"); got != "5" {
			t.Errorf("%v: Retry-After %q on a refusal, want 5", headers, got)
		}
	}
}

// A fleet's document says it for all; a server that is unlike the rest says it itself.
func TestHeadersOfTheDocument(t *testing.T) {
	const rules = "rules: [{id: r, limit: 1, window: 1s}]"
	for _, c := range []struct {
		document string
		opts     []Option
		want     []string
	}{
		{rules, nil, []string{"Ratelimit", "X-Ratelimit-Limit"}},
		{rules + "\nheaders: both", nil, []string{"Ratelimit", "X-Ratelimit-Limit"}},
		{rules + "\nheaders: ietf", nil, []string{"Ratelimit"}},
		{rules + "\nheaders: legacy", nil, []string{"X-Ratelimit-Limit"}},
		{rules + "\nheaders: none", nil, nil},
		{rules + "\nheaders: none", []Option{WithHeaders(HeadersIETF)}, []string{"Ratelimit"}},
		{rules + "\nheaders: ietf", []Option{WithHeaders(HeadersBoth)}, []string{"Ratelimit", "X-Ratelimit-Limit"}},
	} {
		w := serve(newMiddleware(&verdict{decision: allowed(), set: mustParse(t, c.document)}, c.opts), get("/"))
		var got []string
		for _, name := range []string{"Ratelimit", "X-Ratelimit-Limit"} {
			if w.Header()[name] != nil {
				got = append(got, name)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s, %d options: fields %v, want %v", c.document, len(c.opts), got, c.want)
		}
	}
}

func TestNoFieldsWithoutARule(t *testing.T) {
	w := serve(newMiddleware(&verdict{decision: leaseway.Decision{Allowed: true}}, nil), get("/"))
	if len(w.Header()) != 0 {
		t.Errorf("fields %v, want none", w.Header())
	}
}

// A parser of structured fields reads what was decided, whatever the rule is called and however large the numbers are.
func TestFieldsParse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := leaseway.Decision{
			Allowed:   rapid.Bool().Draw(t, "allowed"),
			Reason:    leaseway.ReasonOverLimit,
			Rule:      rapid.OneOf(rapid.StringN(1, 64, -1), rapid.SampledFrom([]string{`a"b\c`, "%", "ключ", "\x00", "a;b=1, c"})).Draw(t, "rule"),
			Limit:     rapid.Int64Range(0, 1<<51).Draw(t, "limit"),
			Remaining: rapid.Int64Range(0, 1<<51).Draw(t, "remaining"),
			Quota:     rapid.Int64Range(0, 1<<51).Draw(t, "quota"),
			Window:    time.Duration(rapid.Int64Range(0, 366*86400*1e6).Draw(t, "µs of the window")) * time.Microsecond,
			Reset:     time.Duration(rapid.Int64Range(0, 1<<60).Draw(t, "reset")),
		}
		if !d.Allowed {
			d.RetryAfter = time.Duration(rapid.Int64Range(0, 1<<60).Draw(t, "retryAfter"))
		}
		w := serve(newMiddleware(&verdict{decision: d}, nil), get("/"))

		policy := parseField(t, w.Header(), "RateLimit-Policy")
		limit := parseField(t, w.Header(), "RateLimit")
		if policy.Value != limit.Value {
			t.Fatalf("the policy is %q and the limit %q", policy.Value, limit.Value)
		}
		if printable(d.Rule) && policy.Value != d.Rule {
			t.Fatalf("the policy is %q, want %q", policy.Value, d.Rule)
		}
		if got := param(limit, "r"); got != min(d.Remaining, 999_999_999_999_999) {
			t.Fatalf("r is %d for %d", got, d.Remaining)
		}
		if got := w.Header().Get("X-Ratelimit-Limit"); got != strconv.FormatInt(d.Limit, 10) {
			t.Fatalf("X-RateLimit-Limit is %s for %d", got, d.Limit)
		}
		// The rate is the same, but where it cannot be said in whole seconds: q/w = quota/window.
		if seconds := param(policy, "w"); seconds >= 0 {
			if rate, want := float64(param(policy, "q"))/float64(seconds), float64(d.Quota)/d.Window.Seconds(); rate < want*(1-1e-9) || rate > want*(1+1e-9) {
				t.Fatalf("the policy says %v a second, want %v", rate, want)
			}
		} else if d.Window%time.Second == 0 && d.Window > 0 && d.Quota < 1e15 {
			t.Fatalf("the policy of %d per %v has no window", d.Quota, d.Window)
		}
		if !d.Allowed {
			if after, t1 := w.Header().Get("Retry-After"), param(limit, "t"); after != "" && after != strconv.FormatInt(t1, 10) || after == "" && t1 != -1 {
				t.Fatalf("Retry-After is %q and t %d", after, t1)
			}
		} else if got := param(limit, "t"); !d.InFlight() && got != ceilSeconds(d.Reset) || d.InFlight() && got != -1 {
			t.Fatalf("t is %d, want %d", got, ceilSeconds(d.Reset))
		}
		unit, _ := policy.Params.Get("qu")
		if want := d.InFlight(); (unit == "concurrent-requests") != want || want && param(policy, "w") != -1 {
			t.Fatalf("the unit of %+v is %v", d, unit)
		}
	})
}

func parseField(t *rapid.T, h http.Header, name string) httpsfv.Item {
	list, err := httpsfv.UnmarshalList(h.Values(name))
	if err != nil || len(list) != 1 {
		t.Fatalf("%s %q: %v, %d members", name, h.Values(name), err, len(list))
	}
	item, ok := list[0].(httpsfv.Item)
	if !ok {
		t.Fatalf("%s is no Item: %v", name, list[0])
	}
	if _, ok := item.Value.(string); !ok {
		t.Fatalf("%s does not name a String: %v", name, item.Value)
	}
	return item
}

// param is an Integer parameter; -1 when it is not there.
func param(item httpsfv.Item, name string) int64 {
	value, ok := item.Params.Get(name)
	if !ok {
		return -1
	}
	return value.(int64)
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' || r == '%' })
}

func TestWholeSeconds(t *testing.T) {
	for _, c := range []struct {
		quota         int64
		window        time.Duration
		wantQuota     int64
		wantSeconds   int64
		whatItMustSay string
	}{
		{100, time.Minute, 100, 60, "a whole window stays as written"},
		{10, 100 * time.Millisecond, 100, 1, "ten in 100 ms are 100 in 1 s"},
		{10, 1500 * time.Millisecond, 20, 3, "ten in 1.5 s are 20 in 3 s"},
		{1, 366 * 24 * time.Hour, 1, 366 * 86400, "the longest window"},
		{0, 0, 0, 0, "a blocked rule has no window"},
		{1 << 40, 1001 * time.Microsecond, 1 << 40, 0, "too large to say: no window"},
		{1 << 51, time.Second, 999_999_999_999_999, 0, "too large to write: the largest number, and no window"},
		{-1, time.Second, 0, 1, "never a sign"},
	} {
		if q, s := wholeSeconds(c.quota, c.window); q != c.wantQuota || s != c.wantSeconds {
			t.Errorf("%s: %d in %d s, want %d in %d s", c.whatItMustSay, q, s, c.wantQuota, c.wantSeconds)
		}
	}
}

// Millions of overrides push each other out, and each is still told its own limit.
func TestPoliciesOfManyOverrides(t *testing.T) {
	var p policies
	for i := range 10 * maxPolicies {
		d := leaseway.Decision{Rule: "r", Limit: int64(i), Quota: int64(i), Window: time.Second}
		if got, want := p.of(&d).field, fmt.Sprintf(`"r";q=%d;w=1`, i); got != want {
			t.Fatalf("the policy is %s, want %s", got, want)
		}
	}
}

// Two policies that share a slot must not push each other out with every request.
func TestPoliciesInUseAreRenderedOnce(t *testing.T) {
	var p policies
	one := leaseway.Decision{Rule: "one", Limit: 1, Quota: 1, Window: time.Second}
	two := one
	for two.Limit++; p.slot(&two) != p.slot(&one); {
		two.Limit++
	}
	first, second := p.of(&one), p.of(&two)
	for range 3 {
		if p.of(&one) != first || p.of(&two) != second {
			t.Fatal("a policy was rendered again")
		}
	}
}

// A hundred rules, more or less alike, find room beside each other.
func TestPoliciesSpread(t *testing.T) {
	var p policies
	used := map[uint64]int{}
	ids := make([]string, 100)
	for i := range ids {
		ids[i] = "rule-" + strconv.Itoa(i)
		used[p.slot(&leaseway.Decision{Rule: ids[i], Limit: 100, Quota: 100, Window: time.Minute})]++
		used[p.slot(&leaseway.Decision{Rule: "rule", Limit: int64(i) * 100, Quota: int64(i) * 100, Window: time.Minute})]++
	}
	if len(used) < 150 {
		t.Errorf("200 policies use %d slots of %d", len(used), maxPolicies)
	}
}

func TestNamesStayApart(t *testing.T) {
	names := map[string]string{}
	for _, id := range []string{"\x00", "%00", "%2500", "é", "%C3%A9", `"`, `\"`, `\`, ""} {
		name := string(appendString(nil, id))
		if other, ok := names[name]; ok {
			t.Errorf("%q and %q are both written %s", id, other, name)
		}
		names[name] = id
	}
}

// What a handler does to a field of one response must not show in the next.
func TestResponsesShareNoValues(t *testing.T) {
	m := newMiddleware(&verdict{decision: allowed()}, nil)
	h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for name := range w.Header() {
			w.Header().Add(name, "added")
		}
		for name, values := range w.Header() {
			if len(values) != 2 || values[0] == "added" {
				t.Errorf("%s is %q after a value was added to each", name, values)
			}
			values[0] = "overwritten"
		}
	}))
	for range 2 {
		h.ServeHTTP(httptest.NewRecorder(), get("/"))
	}
	w := serve(m, get("/"))
	for name, values := range w.Header() {
		if len(values) != 1 || values[0] == "overwritten" || values[0] == "added" {
			t.Errorf("%s is %q", name, values)
		}
	}
	if got := w.Header().Get("Ratelimit-Policy"); got != `"search";q=100;w=60` {
		t.Errorf("RateLimit-Policy is %s", got)
	}
}
