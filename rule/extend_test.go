package rule

import (
	"bytes"
	"strings"
	"testing"
)

// A document with what belongs to it gives the set that all of it in one document would, ordered by id.
func TestExtend(t *testing.T) {
	const (
		known = `{id: a, scope: /a, limit: 1, window: 1s}, {id: c, scope: /c, limit: 1, window: 1s}`
		fresh = `{id: b, scope: /b, limit: 1, window: 1s}, {id: d, limit: 1, window: 1s}`
		rest  = ", version: 7, switches: {rules: {a: off, b: off}}, classes: [{class: critical, scope: /a}]}"
	)
	one := parsed(t, "{rules: ["+known+","+fresh+"]"+rest)
	set, err := Extend("part", []byte("{rules: ["+fresh+"]"+rest), parsed(t, "rules: ["+known+"]").Rules)
	if err != nil {
		t.Fatal(err)
	}
	ordered := parsed(t, "{rules: ["+`{id: a, scope: /a, limit: 1, window: 1s}, {id: b, scope: /b, limit: 1, window: 1s},
		{id: c, scope: /c, limit: 1, window: 1s}, {id: d, limit: 1, window: 1s}`+"]"+rest)
	if !bytes.Equal(set.Marshal(), ordered.Marshal()) {
		t.Errorf("it is\n%s\nwant\n%s", set.Marshal(), ordered.Marshal())
	}
	for _, path := range []string{"/a", "/b", "/c", "/d"} {
		if got, want := len(set.Match(&Request{Path: path}, nil)), len(one.Match(&Request{Path: path}, nil)); got != want {
			t.Errorf("%s matches %d rules, want %d", path, got, want)
		}
	}
	if set.Rule("d") == nil || set.Rule("a") == nil {
		t.Error("a rule is not found by its id")
	}
}

func TestExtendRefusesWhatIsNoSet(t *testing.T) {
	known := manyRules(t, MaxRules, "/v1/things%d").Rules
	for _, c := range []struct {
		doc, want string
		known     []*Rule
	}{
		{`rules: [{id: ` + known[0].ID + `, limit: 1, window: 1s}]`, "is taken by a rule that was read before", known[:1]},
		{`rules: [{id: b, limit: 1, window: 1s}]`, "has 10001 rules", known},
		{`{rules: [], switches: {rules: {b: off}}}`, `there is no rule "b"`, known[:1]},
	} {
		if set, err := Extend("part", []byte(c.doc), c.known); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\nmakes %v, %v, want an error with %q", c.doc, set, err, c.want)
		}
	}
}
