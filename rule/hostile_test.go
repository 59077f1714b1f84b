package rule

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// Documents that were made to take a process down are refused: by a bound, and not by the memory or the stack running out.
func TestHostileDocuments(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", 4000)
	for name, c := range map[string]struct{ src, message string }{
		"too long":              {"rules: [] #" + strings.Repeat("x", MaxDocument), "at most 33554432 fit"},
		"a billion laughs":      {laughs(60), "rules[0]"},
		"too many nodes":        {"rules: [" + strings.Repeat("a,", maxMarks) + "]", "at most 2097152 are read"},
		"too many map keys":     {strings.Repeat("a: 1\n", maxMarks), "are read"},
		"deep lists":            {strings.Repeat("[", 1<<20), "depth"},
		"deep maps":             {strings.Repeat("{a: ", 1<<19), "depth"},
		"deep blocks":           {strings.Repeat("- ", 1<<20), "depth"},
		"one rule, many times":  {"rules:\n- &r {id: a, limit: 1, window: 1s}\n" + strings.Repeat("- *r\n", 9000), "the id \"a\" is taken"},
		"aliases of overrides":  {aliased("overrides: *o", manyOverrides(20, long)), "too large once its aliases"},
		"aliases of a long key": {aliased("overrides: [{key: *o, limit: 1}]", "description: &o "+long), "once written out"},
		"errors of aliases":     {aliased("overrides: *o", strings.ReplaceAll(manyOverrides(20, "k"), "limit", "limt")), "more errors"},
		"merges of merges":      {merges(40), "too deep"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			errs := refused(t, c.src)
			if all := errs.Error(); !strings.Contains(all, c.message) {
				t.Errorf("got %.500s\nwant %q", all, c.message)
			}
		})
	}
}

// aliased is a document of as many rules as fit, each with an alias of what the first one has as its description.
func aliased(use, anchor string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "rules:\n- {id: first, limit: 1, window: 1s, keyBy: user, %s}\n", anchor)
	for i := range MaxRules - 1 {
		fmt.Fprintf(&b, "- {id: r%d, limit: 1, window: 1s, keyBy: user, %s}\n", i, use)
	}
	return b.String()
}

// manyOverrides is an anchored list of overrides with long keys.
func manyOverrides(n int, key string) string {
	var b strings.Builder
	b.WriteString("overrides: &o [")
	for i := range n {
		fmt.Fprintf(&b, "{key: %s%d, limit: 1}, ", key, i)
	}
	return b.String() + "]"
}

// laughs is a document whose aliases, written out, would double a list ten times over and over.
func laughs(depth int) string {
	var b strings.Builder
	b.WriteString("a0: &a0 {id: x}\n")
	for i := range depth - 1 {
		fmt.Fprintf(&b, "a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), i)
	}
	return b.String() + fmt.Sprintf("rules: *a%d\n", depth-1)
}

// merges is a document whose maps each merge another one, twice.
func merges(depth int) string {
	var b strings.Builder
	b.WriteString("a0: &a0 {id: x}\n")
	for i := range depth - 1 {
		fmt.Fprintf(&b, "a%d: &a%d {<<: [*a%d, *a%d]}\n", i+1, i+1, i, i)
	}
	return b.String() + fmt.Sprintf("rules: [*a%d]\n", depth-1)
}

// FuzzParse holds that Parse gives a set or errors with places, and that what it accepts is written and read as the same set.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "rules: []", "{}", "rules:\n  - {id: a, limit: 5, window: 1m}\n",
		`{"version":3,"rules":[{"id":"a","limit":5,"window":"1m","version":2,"scope":{"paths":["/v1/{x}/**"]},"keyBy":["user","ip"]}]}`,
		"rules:\n- &a {id: a, limit: 1, window: 1s}\n- {<<: *a, id: b, overrides: [{key: x, limit: 2}], keyBy: user}\n",
		"rules: [{id: a, block: true, keyBy: header:x, normalize: [trim, nfc, casefold], overrides: [{key: \"\\x7f\\u2028\\ufeff\\x85\", limit: 1, window: 1s}]}]\n",
		"rules: [{id: a, limit: 1, window: 1.5s, scope: {headers: {a: 1}, descriptors: {\"<<\": ~}, hosts: '*.a'}, cost: 'header:x', fallback: {limit: 1, windowSec: 1}}]",
		"headers: none\nrules: [{id: a, algorithm: fixed_window, limit: 1, window: 1mo, timeZone: Asia/Tokyo, scope: //a/../b}, {id: b, block: true, scope: /**}]",
		"identity: {apikey: [], user: {header: a}}\nrules: []\n---\n", "rules: [\x00]", "\ufeffrules: []", "rules:\r- a\r\n\u2028- b", "? [a]\n: {b: c}", "!!binary aGk=", "rules: !x [*y]",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		set, err := Parse("f", src)
		if (set == nil) == (err == nil) {
			t.Fatalf("set %v, error %v", set != nil, err)
		}
		if err != nil {
			if errs, ok := errors.AsType[Errors](err); !ok || len(errs) == 0 || strings.ContainsAny(errs.Error(), "\x1b\x00\r") {
				t.Errorf("%d errors, that print as %q", len(errs), errs)
			}
			return
		}
		if again, warnings, err := Review("f", src); again == nil || err != nil {
			t.Fatalf("Parse takes what Review refuses: %v", err)
		} else {
			for _, w := range warnings {
				if strings.ContainsAny(w.String(), "\x1b\x00\r") || w.Fix == "" || w.Line == 0 {
					t.Errorf("a warning prints as %q", w)
				}
			}
		}
		text := set.Marshal()
		back, err := Parse("g", text)
		if err != nil {
			t.Fatalf("%s\nis written as %s\n%v", src, text, err)
		}
		if !reflect.DeepEqual(back, set) {
			t.Errorf("%s\nis written as %s\nand that as %s", src, text, back.Marshal())
		}
	})
}
