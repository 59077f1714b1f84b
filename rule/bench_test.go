package rule

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// manyRules is a set of n rules, two of which match a GET of /v1/search/items: one by its path, one by a subtree.
func manyRules(tb testing.TB, n int, scope string) *Set {
	tb.Helper()
	var b strings.Builder
	b.WriteString("rules:\n")
	for i := range n - 2 {
		fmt.Fprintf(&b, "  - {id: r%d, limit: 100, window: 1m, keyBy: apikey, scope: "+scope+"}\n", i, i)
	}
	b.WriteString("  - {id: one, limit: 100, window: 1m, keyBy: [apikey, endpoint], scope: {paths: /v1/search/items, methods: [GET, HEAD]}}\n")
	b.WriteString("  - {id: two, limit: 100, window: 1m, keyBy: ip, scope: /v1/search/**}\n")
	return parsed(tb, b.String())
}

func benchRequest() *Request {
	return &Request{
		Method: "GET", Path: "/v1/search/items", Host: "api.example.com", APIKey: "key-of-a-customer", IP: netip.MustParseAddr("2001:db8::1"),
		Headers: map[string][]string{"X-Plan": {"free"}}, Descriptors: map[string]string{"tenant": "acme"},
	}
}

func BenchmarkMatch(b *testing.B) {
	for _, kind := range []struct{ name, scope string }{
		{"paths", "/v1/things%d"}, {"free", "'/v1/{name}/things%d'"}, {"descriptors", "{descriptors: {tenant: t%d}}"},
		{"hosts", "{hosts: h%d.example.com}"}, {"methods", "{methods: M%d}"},
	} {
		for _, n := range []int{10, 1000} {
			b.Run(fmt.Sprintf("%s/%d", kind.name, n), func(b *testing.B) {
				set, req := manyRules(b, n, kind.scope), benchRequest()
				buf := make([]Match, 0, 8)
				b.ReportAllocs()
				for b.Loop() {
					buf = set.Match(req, buf)
				}
				if len(buf) != 2 {
					b.Fatalf("%d rules match, want 2", len(buf))
				}
			})
		}
	}
}

func BenchmarkAppendKey(b *testing.B) {
	set, req := manyRules(b, 2, ""), benchRequest()
	for _, r := range set.Rules {
		b.Run(r.ID, func(b *testing.B) {
			buf := make([]byte, 0, 128)
			b.ReportAllocs()
			for b.Loop() {
				buf, _ = r.AppendKey(buf[:0], req)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		set := manyRules(b, n, "/v1/things%d")
		src := set.Marshal()
		b.Run(fmt.Sprintf("parse/%d", n), func(b *testing.B) {
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				if _, err := Parse("bench", src); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("next/%d", n), func(b *testing.B) {
			for b.Loop() {
				set = set.Next(set, set.Version+1)
			}
		})
	}
}
