package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Benchmark runs every entrant of every contest, on as many processors as -cpu says.
func Benchmark(b *testing.B) {
	for _, c := range contests() {
		for _, e := range c.entrants {
			b.Run(c.title+"/"+e.name, func(b *testing.B) {
				o, err := e.open()
				if err != nil {
					b.Fatal(err)
				}

				if o.close != nil {
					b.Cleanup(o.close)
				}

				b.ResetTimer()
				o.bench(b)
			})
		}
	}
}

// A comparison is only fair if all decide alike: nothing is refused of what is
// endless, everything but the first of what is exhausted, and keys do not share.
func TestDecidersAgree(t *testing.T) {
	t.Parallel()

	for _, d := range deciders() {
		for _, c := range []struct {
			quota quota
			want  int
		}{{endless(), 100}, {exhausted(), 1}} {
			l, err := d.make(c.quota)
			if err != nil {
				t.Fatal(err)
			}

			for _, key := range []string{"a", "b"} {
				got := 0

				for range 100 {
					if l.take(key) {
						got++
					}
				}

				if got != c.want {
					t.Errorf("%s: %d of 100 passed under %v, want %d", d.name, got, c.quota, c.want)
				}
			}

			if l.close != nil {
				l.close()
			}
		}
	}
}

// A middleware that sets no field, or limits nothing, would win.
func TestMiddlewaresLimit(t *testing.T) {
	t.Parallel()

	for _, m := range wrappers() {
		w, done, err := m.make(exhausted())
		if err != nil {
			t.Fatal(err)
		}

		h := w(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))

		for _, key := range []string{"a", "b"} {
			for i, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
				r := httptest.NewRequest(http.MethodGet, "/v1/search", http.NoBody)
				r.Header.Set(keyField, key)

				out := httptest.NewRecorder()
				h.ServeHTTP(out, r)

				if m.side == floor {
					want = http.StatusOK
				}

				if out.Code != want {
					t.Errorf("%s: request %d of key %s got %d, want %d", m.name, i+1, key, out.Code, want)
				}

				for _, field := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} {
					if m.side != floor && out.Header().Get(field) == "" {
						t.Errorf("%s: no %s", m.name, field)
					}
				}
			}
		}

		if done != nil {
			done()
		}
	}
}

func TestReportQuotesMediansAndRatios(t *testing.T) {
	t.Parallel()

	r := result{
		contest: contest{title: "T", about: "A.", cpus: []int{1}, goal: 0.5},
		rows: []row{
			{entrant: entrant{name: "we", side: ours}, nanos: [][]float64{{10, 30, 20}}},
			{entrant: entrant{name: "fast", side: peer}, nanos: [][]float64{{40, 40, 20}}, allocs: 2},
			{entrant: entrant{name: "slow", side: peer}, nanos: [][]float64{{90, 90, 90}}},
			{entrant: entrant{name: "none", side: floor}, nanos: [][]float64{{1, 2, 3}}},
		},
	}

	got := render([]result{r}, machine{processor: "P", cpus: 2, load: "0.10", loadAfter: "1.10", date: "2026-01-02"}, 3)
	for _, want := range []string{
		"2026-01-02", "3 rounds", "(P)", "load average 0.10 before the first round and 1.10 after",
		"| **we** | 20 | 0 |", "| fast | 40 | 2 |", "| slow | 90 | 0 |", "| none | 2.0 | 0 |",
		// Round by round 0.25, 0.75 and 1, and not 20 of 40.
		"1 processor, fast: we **0.75**",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
}

func TestReplaceKeepsTheRestOfThePage(t *testing.T) {
	t.Parallel()

	page := filepath.Join(t.TempDir(), "page.md")

	for _, c := range []struct{ old, want string }{
		{"a\n" + begin + "old\n" + end + "z\n", "a\n" + begin + "new\n" + end + "z\n"},
		{"a\n" + begin + "no end\n", ""},
		{"no lines\n", ""},
	} {
		if err := os.WriteFile(page, []byte(c.old), 0o600); err != nil {
			t.Fatal(err)
		}

		err := replace(page, "new\n")

		text, readErr := os.ReadFile(page)
		if readErr != nil {
			t.Fatal(readErr)
		}

		switch {
		case c.want == "" && (err == nil || string(text) != c.old):
			t.Errorf("%q: became %q without an error", c.old, text)
		case c.want != "" && (err != nil || string(text) != c.want):
			t.Errorf("%q: became %q, %v", c.old, text, err)
		}
	}
}
