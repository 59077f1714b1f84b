package rule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// descriptor reads "a=1 b=2" as entries in that order.
func descriptor(text string) (entries []Entry) {
	for part := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(part, "=")
		entries = append(entries, Entry{key, value})
	}
	return entries
}

func TestEntriesMatchTheWholeDescriptor(t *testing.T) {
	t.Parallel()
	set := scoped(t,
		"scope: {entries: [a]}",
		"scope: {entries: [a, b]}",
		"scope: {entries: [b, a]}",
		"scope: {entries: [{key: a, value: x}]}",
		"scope: {entries: [{key: a, value: [x, 'yy*']}]}",
		"scope: {entries: [{key: a, except: [x, 'yy*']}]}",
		"scope: {entries: [{key: a, value: '*', except: '*z'}]}",
		"scope: {entries: [a, {key: b, value: '1'}]}",
		"scope: {descriptors: {a: x}}",
		"scope: {domain: d}",
		"scope: {domain: d, entries: [a]}",
	)
	for _, c := range []struct{ domain, entries, want string }{
		{"", "a=x", "0 3 4 6 8"},
		{"", "a=w", "0 5 6"},
		{"", "a=yy", "0 4 6"},
		{"", "a=yyz", "0 4 6"},
		{"", "a=", "0 5 6"},
		{"", "a=x b=2", "1 8"},
		{"", "a=w b=1", "1 7"},
		{"", "b=1 a=x", "2 8"},
		{"", "a=x a=w", "8"},
		{"", "a=w a=x", ""},
		{"", "b=1", ""},
		{"", "a=w b=1 c=1", ""},
		{"", strings.Repeat("a=w ", 9), ""},
		{"d", "a=x", "0 3 4 6 8 9 10"},
		{"d", "c=x", "9"},
		{"D", "c=x", ""},
	} {
		if got := matched(set, Request{Domain: c.domain, Entries: descriptor(c.entries)}); got != c.want {
			t.Errorf("domain %q, %s: got %q, want %q", c.domain, c.entries, got, c.want)
		}
	}
}

// The index finds what a look at every rule finds.
func TestEntriesAreIndexedExactly(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	var scopes []string
	one := func() string {
		name, value := fmt.Sprintf("k%d", random.IntN(3)), fmt.Sprintf("v%d", random.IntN(3))
		rest := []string{"", ", value: " + value, ", value: [" + value + ", 'v*']", ", except: " + value}
		return "{key: " + name + rest[random.IntN(len(rest))] + "}"
	}
	for range 200 {
		var list []string
		for range 1 + random.IntN(3) {
			list = append(list, one())
		}
		scopes = append(scopes, "scope: {entries: ["+strings.Join(list, ", ")+"]}")
	}
	set := scoped(t, scopes...)
	found := 0
	for range 2000 {
		var req Request
		for range random.IntN(4) {
			req.Entries = append(req.Entries, Entry{fmt.Sprintf("k%d", random.IntN(4)), fmt.Sprintf("v%d", random.IntN(4))})
		}
		var want []string
		for i, r := range set.Rules {
			if r.Scope.hasEntries(req.Entries) {
				want = append(want, strconv.Itoa(i))
			}
		}
		found += len(want)
		if got := matched(set, req); got != strings.Join(want, " ") {
			t.Fatalf("%v: got %q, want %q", req.Entries, got, want)
		}
	}
	if found < 1000 {
		t.Errorf("only %d rules matched: the test looks at too little", found)
	}
}

func TestEntriesMakeKeys(t *testing.T) {
	t.Parallel()
	set := parsed(t, "rules: [{id: a, limit: 1, window: 1s, keyBy: [descriptor:a, descriptor:b], missing: shared}]")
	for entries, want := range map[string]string{"a=1 b=2": "1|2", "b=2 a=1": "1|2", "a=1 a=2": "1|", "a=": "|", "": "|"} {
		if got, status := set.Rules[0].AppendKey(nil, &Request{Entries: descriptor(entries)}); string(got) != want || status != KeyReady {
			t.Errorf("%s: got %q, %v, want %q", entries, got, status, want)
		}
	}
}

func TestEntriesComeBackFromTheDocument(t *testing.T) {
	t.Parallel()
	set := scoped(t, "scope: {domain: edge, entries: [a, {key: b, value: [x, 'y*'], except: 'yz'}]}")
	again := parsed(t, string(set.Marshal()))
	if !slices.EqualFunc(set.Rules[0].Scope.Entries, again.Rules[0].Scope.Entries, func(a, b EntryScope) bool { return a.same(&b) }) ||
		again.Rules[0].Scope.Domain != "edge" {
		t.Errorf("got %s, which is not what was written", again.Marshal())
	}
}

func TestFindingEntriesDoesNotAllocate(t *testing.T) {
	set := scoped(t, "scope: {domain: d, entries: [{key: a, value: x}, b]}", "scope: {entries: [{key: a, except: x}, b]}")
	req, buf := Request{Domain: "d", Entries: descriptor("a=x b=1")}, make([]Match, 0, 4)
	if n := testing.AllocsPerRun(100, func() { buf = set.Match(&req, buf) }); n > 0 || len(buf) != 1 {
		t.Errorf("%v allocations for %d matches, want none for one", n, len(buf))
	}
}
