package rule

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A scope that covers another one matches whatever that one matches.
func TestCoversNeverSaysTooMuch(t *testing.T) {
	t.Parallel()
	covered := 0
	rapid.Check(t, func(t *rapid.T) {
		set, err := Parse("drawn", []byte(fmt.Sprintf("rules:\n- {id: a, block: true, %s}\n- {id: b, block: true, %s}\n", drawScope(t, "a"), drawScope(t, "b"))))
		if err != nil {
			t.Fatal(err)
		}
		if !set.Rules[0].Scope.covers(&set.Rules[1].Scope) {
			return
		}
		covered++
		pick := func(label string, of ...string) string { return rapid.SampledFrom(of).Draw(t, label) }
		for range 20 {
			req := &Request{
				Method: pick("method", "GET", "post", "PURGE"), Host: pick("host", "example.com", "a.example.com", "b.a.example.com"),
				Path:    "/" + strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "A", "b", ""}), 0, 3).Draw(t, "path"), "/"),
				Headers: map[string][]string{"X-A": {pick("first", "1", "2"), pick("second", "1", "2")}},
			}
			matched := map[string]bool{}
			for _, m := range set.Match(req, nil) {
				matched[m.Rule.ID] = true
			}
			if matched["b"] && !matched["a"] {
				t.Fatalf("%+v is in the scope of b, but not of a, which covers it: %s", req, set.Marshal())
			}
		}
	})
	if covered == 0 {
		t.Error("no scope covered another one")
	}
}

// drawScope draws a scope from few words, so that one often covers another.
func drawScope(t *rapid.T, name string) string {
	list := func(label string, of ...string) string {
		if !rapid.Bool().Draw(t, name+" has "+label) {
			return ""
		}
		items := rapid.SliceOfNDistinct(rapid.SampledFrom(of), 1, 2, rapid.ID).Draw(t, name+" "+label)
		return label + ": ['" + strings.Join(items, "', '") + "'], "
	}
	scope := list("paths", "/a", "/A", "/a/", "/{x}", "/a/**", "/**", "/a/{y}", "/{x}/b", "/a/b", "/") +
		list("methods", "GET", "POST", "PURGE") + list("hosts", "example.com", "*.example.com", "a.example.com", "*.a.example.com")
	if rapid.Bool().Draw(t, name+" has headers") {
		scope += "headers: {X-A: " + rapid.SampledFrom([]string{"1", "2", "[1, 2]"}).Draw(t, name+" values") + "}"
	}
	text := "pathCase: " + rapid.SampledFrom(pathCaseWords()).Draw(t, name+" case") + ", trailingSlash: " + rapid.SampledFrom(trailingSlashWords()).Draw(t, name+" slash")
	if scope != "" {
		text += ", scope: {" + strings.TrimSuffix(scope, ", ") + "}"
	}
	return text
}
