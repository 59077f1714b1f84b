package main

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// Benchmark runs every entrant of every timed contest, on as many processors as -cpu says.
func Benchmark(b *testing.B) {
	for _, c := range contests(fleetTime) {
		for _, e := range c.entrants {
			if e.open == nil {
				continue
			}

			b.Run(c.name+"/"+e.name, func(b *testing.B) {
				o, err := e.open()
				if err != nil {
					b.Fatal(err)
				}

				if o.close != nil {
					b.Cleanup(o.close)
				}

				b.ReportAllocs()
				b.SetParallelism(1)
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					for work := o.worker(); pb.Next(); {
						work(1)
					}
				})
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

				for _, field := range []string{"Limit", "Remaining", "Reset"} {
					if m.side != floor && out.Header().Get("X-RateLimit-"+field) == "" && out.Header().Get("RateLimit-"+field) == "" {
						t.Errorf("%s: no X-RateLimit-%s nor RateLimit-%s", m.name, field, field)
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
		contest: contest{title: "T", about: "A.", columns: []string{"ns, 1 processor"}, allocs: true, goal: 0.5},
		rows: []row{
			{entrant: entrant{name: "we", side: ours}, values: [][]float64{{10, 30, 20}}},
			{entrant: entrant{name: "fast", side: peer}, values: [][]float64{{40, 40, 20}}, allocs: 2},
			{entrant: entrant{name: "slow", side: peer}, values: [][]float64{{90, 90, 90}}},
			{entrant: entrant{name: "none", side: floor}, values: [][]float64{{1, 2, 3}}},
		},
	}

	got := sections([]result{r}, machine{processor: "P", cpus: 2, load: "0.10", loadAfter: "1.10", date: "2026-01-02"}, 3)["T"]
	for _, want := range []string{
		"2026-01-02", "3 rounds", "(P)", "load average 0.10 before all tables and 1.10 after",
		"| **we** | 20 | 0 |", "| fast | 40 | 2 |", "| slow | 90 | 0 |", "| none | 2.00 | 0 |",
		// Round by round 0.25, 0.75 and 1, and not 20 of 40.
		"1 processor, fast: we **0.75**",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
}

// Measuring one table must not lose the others, nor what people wrote around them.
func TestPageKeepsWhatWasNotMeasured(t *testing.T) {
	t.Parallel()

	titles := []string{"A", "B", "C"}
	old := "top\n" + begin + "\nwritten by an older version\n\n### B\n\nold b\n\n### A\n\nold a\n\n### Gone\n\nold\n\n" + end + "bottom\n"

	got, err := page(old, titles, map[string]string{"B": "new b\n", "C": "new c\n"})
	if want := "top\n" + begin + "\n### A\n\nold a\n\n### B\n\nnew b\n\n### C\n\nnew c\n\n" + end + "bottom\n"; err != nil || got != want {
		t.Errorf("the page became %q, %v; want %q", got, err, want)
	}

	again, err := page(got, titles, map[string]string{"B": "new b\n", "C": "new c\n"})
	if err != nil || again != got {
		t.Errorf("written twice the page became %q, %v", again, err)
	}

	for _, bad := range []string{"no lines\n", begin + "no end\n"} {
		if _, err := page(bad, titles, nil); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestChooseTables(t *testing.T) {
	t.Parallel()

	all := []contest{
		{name: "a", entrants: []entrant{{}}}, {name: "b", entrants: []entrant{{}}}, {name: "c", needs: "a c"},
	}

	for _, c := range []struct {
		list string
		want []string // nil for an error
	}{
		{"", []string{"a", "b"}},
		{"b, a", []string{"b", "a"}},
		{"d", nil},
		{"c", nil},
	} {
		got, err := choose(slices.Clone(all), c.list)
		if (err != nil) != (c.want == nil) || err == nil && !slices.Equal(names(got), c.want) {
			t.Errorf("%q: %v, %v; want %v", c.list, names(got), err, c.want)
		}
	}
}
