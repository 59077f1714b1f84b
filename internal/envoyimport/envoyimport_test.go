package envoyimport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/leaseway/leaseway/rule"
)

// rulesOf imports a document that can be used.
func rulesOf(tb testing.TB, src string) *rule.Set {
	tb.Helper()

	document, _, err := Import("ratelimit.yaml", []byte(src))
	if err != nil {
		tb.Fatalf("%v\n%s", err, src)
	}

	set, err := rule.Parse("rules", document)
	if err != nil {
		tb.Fatalf("%v\n%s", err, document)
	}

	return set
}

// twin is how envoyproxy/ratelimit finds a limit, as its README says it: the name of the limit, "" for none.
func twin(level []*descriptor, entries []rule.Entry) string {
	for i, e := range entries {
		var next *descriptor

		find := func(agrees func(d *descriptor) bool) {
			for _, d := range level {
				if next == nil && d.key == e.Key && agrees(d) {
					next = d
				}
			}
		}

		find(func(d *descriptor) bool { return d.value != "" && d.value == e.Value })
		find(func(d *descriptor) bool {
			return d.wild() && strings.HasPrefix(e.Value, strings.TrimSuffix(d.value, "*"))
		})
		find(func(d *descriptor) bool { return d.value == "" })

		if next == nil {
			return ""
		}

		if i == len(entries)-1 {
			if next.limit == nil || next.limit.unlimited {
				return ""
			}

			return next.limit.name
		}

		level = next.children
	}

	return ""
}

// tree writes a random level of descriptors, each limit with a name of its own.
func tree(random *rand.Rand, b *strings.Builder, depth int, names *int) {
	indent := strings.Repeat("  ", depth)
	seen := map[string]bool{}

	for range 1 + random.IntN(4) {
		key, value := string('a'+rune(random.IntN(2))), []string{"", "x", "xy", "x*", "xy*", "*", "z"}[random.IntN(7)]
		if seen[key+" "+value] {
			continue
		}

		seen[key+" "+value] = true

		fmt.Fprintf(b, "%s- key: %s%d\n", indent, key, depth)

		if value != "" {
			fmt.Fprintf(b, "%s  value: %q\n", indent, value)
		}

		switch random.IntN(4) {
		case 0:
		case 1:
			fmt.Fprintf(b, "%s  rate_limit: {unlimited: true}\n", indent)
		default:
			*names++
			fmt.Fprintf(b, "%s  rate_limit: {name: n%d, requests_per_unit: %d, unit: Hour}\n", indent, *names, random.IntN(3))
		}

		if depth < 3 && random.IntN(2) == 0 {
			fmt.Fprintf(b, "%s  descriptors:\n", indent)
			tree(random, b, depth+1, names)
		}
	}
}

// Whatever the document, the rule that applies to a descriptor is that of the limit which would be found there, and no other.
func TestTheSameLimitIsFound(t *testing.T) {
	t.Parallel()

	random := rand.New(rand.NewPCG(3, 4))
	found := 0

	for range 300 {
		var b strings.Builder

		names := 0

		b.WriteString("domain: d\ndescriptors:\n")
		tree(random, &b, 1, &names)

		set := rulesOf(t, b.String())
		_, level := (&reader{names: map[string]int{}}).document([]byte(b.String()))

		for range 100 {
			req := rule.Request{Domain: "d"}
			for depth := range 1 + random.IntN(3) {
				req.Entries = append(req.Entries, rule.Entry{
					Key: fmt.Sprintf("%c%d", 'a'+rune(random.IntN(2)), depth+1), Value: []string{"", "x", "xy", "xyz", "z", "w"}[random.IntN(6)],
				})
			}

			var got []string
			for _, m := range set.Match(&req, nil) {
				got = append(got, m.Rule.ID)
			}

			want := twin(level, req.Entries)
			if want != "" {
				found++
			}

			if strings.Join(got, " ") != want {
				t.Fatalf("%v: got the rules %v, want %q\n%s", req.Entries, got, want, b.String())
			}
		}
	}

	if found < 1000 {
		t.Errorf("only %d limits were found: the test looks at too little", found)
	}
}

func TestBudgetsAreTheSame(t *testing.T) {
	t.Parallel()

	set := rulesOf(t, `
domain: d
descriptors:
  - {key: fixed, value: v, rate_limit: {unit: second, requests_per_unit: 1}}
  - {key: each, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: wild, value: 'w*', rate_limit: {unit: month, requests_per_unit: 1}}
  - {key: one, value: 'w*', share_threshold: true, rate_limit: {unit: year, requests_per_unit: 4294967295}}
  - key: top
    value: 'w*'
    share_threshold: true
    descriptors: [{key: in, rate_limit: {unit: hour, requests_per_unit: 2}}]
  - {key: none, rate_limit: {unit: week, requests_per_unit: 0}}
  - {key: dark, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 7}}
`)

	for id, want := range map[string]string{
		"d_fixed_v": "global 1s 1 enforce", "d_each": "descriptor:each 1m0s 1 enforce", "d_wild_w-": "descriptor:wild 720h0m0s 1 enforce",
		"d_one_w-": "global 8760h0m0s 4294967295 enforce", "d_top_w-_in": "descriptor:in 1h0m0s 2 enforce", "d_none": "global 0s 0 enforce", "d_dark": "descriptor:dark 24h0m0s 7 shadow",
	} {
		r := set.Rule(id)
		if r == nil {
			t.Errorf("there is no rule %s: %s", id, set.Marshal())

			continue
		}

		if got := fmt.Sprintf("%v %v %d %v", r.KeyBy[0], r.Window, r.Limit, r.Mode); got != want {
			t.Errorf("%s: got %s, want %s", id, got, want)
		}

		if r.Block != (id == "d_none") {
			t.Errorf("%s: block is %v", id, r.Block)
		}
	}
}

// A domain without limits is a domain: what requests bring along is limited there.
func TestADomainWithoutLimitsIsKnown(t *testing.T) {
	t.Parallel()

	for _, src := range []string{"domain: d", "domain: d\ndescriptors: [{key: k, rate_limit: {unlimited: true}}]"} {
		set := rulesOf(t, src)
		req := rule.Request{Domain: "d", Entries: []rule.Entry{{Key: "k"}}}

		if !set.HasDomain("d") || len(set.Match(&req, nil)) > 0 {
			t.Errorf("%q became %s", src, set.Marshal())
		}
	}
}

// Who reads the rules alone would miss what is not limited.
func TestUnlimitedIsNamedInTheNotes(t *testing.T) {
	t.Parallel()

	_, notes, err := Import("f", []byte("domain: d\ndescriptors:\n- key: k\n  rate_limit:\n    unlimited: true\n"))
	if err != nil || len(notes) != 1 || notes[0].Line != 5 || !strings.HasPrefix(notes[0].Message, "unlimited makes no rule") {
		t.Errorf("notes %+v, error %v", notes, err)
	}
}

func TestWhatCannotBeUsed(t *testing.T) {
	t.Parallel()

	const head = "domain: d\ndescriptors:\n- key: k\n  "

	for name, c := range map[string]struct {
		src, want string
	}{
		"empty":               {"", "f:1: the document is empty"},
		"no domain":           {"descriptors: []", "f:1: the document has no domain"},
		"no map":              {"[]", "f:1: the document is no map"},
		"no YAML":             {"a: [", "; correct the YAML around this line"},
		"no number":           {head + "rate_limit: {unit: day}", "f:4: rate_limit has no requests_per_unit"},
		"a negative number":   {head + "rate_limit: {unit: day, requests_per_unit: -1}", "f:4: requests_per_unit is no whole number"},
		"shadow in the limit": {head + "rate_limit: {unit: day, requests_per_unit: 1, shadow_mode: true}", "f:4: shadow_mode is not a key of rate_limit; it belongs beside"},
		"shadow of nothing":   {head + "shadow_mode: true", "f:4: shadow_mode is beside no rate_limit"},
		"no YAML, further on": {head + "a: b: c", "f:4: mapping values are not allowed in this context; correct the YAML"},
		"a list for a text":   {"domain: [d]", "f:1: a text is expected here; write one value"},
		"shadow at the top":   {"domain: d\nshadow_mode: true", "f:2: shadow_mode is not a key of the document; it belongs beside"},
		"replaces of nobody":  {head + "rate_limit: {unit: day, requests_per_unit: 1, replaces: [{name: who}]}", `f:4: replaces names "who"`},
		"replaces itself":     {head + "rate_limit: {unit: day, requests_per_unit: 1, name: k, replaces: [{name: k}]}", "the limit itself"},
		"a key twice":         {head + "key: l", "f:4: key is there twice, first at line 3"},
		"a limit twice":       {head + "rate_limit: {unit: day, unit: hour, requests_per_unit: 1}", "f:4: unit is there twice"},
		"a descriptor twice":  {head + "value: v\n- key: k\n  value: v", "f:5: the descriptor k v is there twice, first at line 3"},
		"a second document":   {"domain: d\n---\ndomain: e", "f:2: a second document starts here"},
		"an unknown unit":     {head + "rate_limit: {unit: fortnight, requests_per_unit: 1}", `f:4: "fortnight" is no unit`},
		"no unit":             {head + "rate_limit: {requests_per_unit: 1}", `f:4: "" is no unit`},
		"unlimited by day":    {head + "rate_limit: {unlimited: true, unit: day}", "f:4: an unlimited rate_limit has no unit"},
		"an unknown key":      {head + "limit: 1", "f:4: limit is not a key of a descriptor; its keys are key, value, rate_limit, descriptors"},
		"a slip of the pen":   {head + "rate_limt: {unit: day, requests_per_unit: 1}", "f:4: rate_limt is not a key of a descriptor; did you mean rate_limit?"},
		"a slip in the limit": {head + "rate_limit: {unit: day, request_per_unit: 1}", "f:4: request_per_unit is not a key of rate_limit; did you mean requests_per_unit?"},
		"a slip at the top":   {"domian: d", "f:1: domian is not a key of the document; did you mean domain?"},
		"a limit beside":      {head + "unit: day", "f:4: unit is not a key of a descriptor; it belongs into rate_limit"},
		"no key":              {"domain: d\ndescriptors:\n- value: v", "f:3: a descriptor has no key"},
		"a wild key":          {"domain: d\ndescriptors:\n- key: k*", "f:3: a key that ends in *"},
		"shared by none":      {head + "value: 'v*'\n  share_threshold: true", "share_threshold is beside no rate_limit and above none"},
		"shared by one":       {head + "value: v\n  share_threshold: true\n  rate_limit: {unit: day, requests_per_unit: 1}", "share_threshold is for values that end in *"},
		"a second value":      {head + "descriptors:\n  - key: k\n    rate_limit: {unit: day, requests_per_unit: 1}", "the key k is there twice on the way down"},
		"aliases":             {"domain: &a d\ndescriptors: *a", "f:2: aliases are not read here"},
		"too many":            {"domain: d\ndescriptors:" + strings.Repeat("\n- {key: k}", 1) + strings.Repeat("\n- {key: l, value: v}", rule.MaxRules), "more than 10000 descriptors"},
		"too deep":            {"domain: d\n" + nested(9), "nested deeper than 8"},
	} {
		_, _, err := Import("f", []byte(c.src))

		if errs, ok := errors.AsType[*DocumentError](err); !ok || !strings.Contains(errs.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// nested is descriptors in descriptors.
func nested(depth int) string {
	var b strings.Builder
	for i := range depth {
		fmt.Fprintf(&b, "%sdescriptors:\n%[1]s- key: k%d\n", strings.Repeat("  ", i), i)
	}

	return b.String()
}

func TestWhatHasNoCounterpartIsNamed(t *testing.T) {
	t.Parallel()

	document, notes, err := Import("dir/f.yaml", []byte(`domain: d
descriptors:
  - key: a
    detailed_metric: true
    rate_limit:
      name: a limit
      unit: day
      requests_per_unit: 1
      replaces:
        - name: b
  - key: b
    quota_mode: true
    metadata: {x: y}
    rate_limit: {name: b, unit: day, requests_per_unit: 1}
`))
	if err != nil {
		t.Fatal(err)
	}

	for i, want := range []string{"4: detailed_metric", "10: replaces has no counterpart: b applies", "13: metadata", "11: quota_mode", "6: the name \"a limit\""} {
		if i >= len(notes) || !strings.HasPrefix(fmt.Sprintf("%d: %s", notes[i].Line, notes[i].Message), want) {
			t.Errorf("note %d: got %v, want %q", i, notes, want)

			break
		}
	}

	if !strings.Contains(string(document), "# Line 10: replaces has no counterpart") || strings.Contains(string(document), "dir/") {
		t.Errorf("the document does not say what it lacks:\n%s", document)
	}
}

// Any text is imported, to rules that can be read, or refused.
func FuzzImport(f *testing.F) {
	f.Add([]byte("domain: d\ndescriptors:\n- {key: k, value: 'v*', rate_limit: {unit: day, requests_per_unit: 1}}"))
	f.Add([]byte("domain: d\ndescriptors: [{key: a, descriptors: [{key: b, rate_limit: {unlimited: true}}]}]"))

	f.Fuzz(func(t *testing.T, src []byte) {
		document, _, err := Import("f", src)
		if err != nil {
			return
		}

		if _, err := rule.Parse("rules", document); err != nil {
			t.Errorf("%q: %v\n%s", src, err, document)
		}
	})
}
