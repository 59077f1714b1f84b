package cases

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// letters are those of the steps, in order of time.
func letters(r *Result) string {
	var all []string
	for _, s := range r.Steps {
		all = append(all, s.Letters)
	}

	return strings.Join(all, " ")
}

const oneOfTen = "rules: [{id: r, limit: 1, window: 10s}]\ntests:\n  - name: n\n"

func TestACallTakesTheLatency(t *testing.T) {
	t.Parallel()

	for _, row := range []struct {
		what, src, want string
		seconds         float64
	}{
		{
			"servers call at the same time",
			"    holders: 2\n    latency: 10ms\n    steps: [{at: 0s, holder: 0}, {at: 0s, holder: 1}]", "A D", 0.010,
		},
		{
			"of calls that arrive together the one sent first goes first",
			"    holders: 2\n    latency: 10ms\n    steps: [{at: 0s, holder: 1}, {at: 0s, holder: 0}]", "A D", 0.010,
		},
		{
			"a call that was sent later arrives later",
			"    holders: 2\n    latency: 10ms\n    steps: [{at: 1ms, holder: 1}, {at: 0s, holder: 0}]", "A D", 0.011,
		},
		{
			"a request waits while its server waits, and then knows what the answer said",
			"    latency: 10ms\n    steps: [{at: 0s}, {at: 9ms}]", "A D", 0.020,
		},
		{
			"the store decides after half of it: a token counts from then",
			"    latency: 10ms\n    steps: [{at: 0s}, {at: 10s}]", "A A", 10.010,
		},
		{
			"without latency no time goes by",
			"    holders: 2\n    steps: [{at: 0s, holder: 0}, {at: 0s, holder: 1}]", "A D", 0,
		},
	} {
		result := run(t, oneOfTen+row.src)
		if got := letters(result); got != row.want || result.Seconds != row.seconds {
			t.Errorf("%s: got %s in %v s, want %s in %v s", row.what, got, result.Seconds, row.want, row.seconds)
		}
	}
}

// bucket is a central token bucket, in units of which limit make a token: exact, and as dumb as can be.
type bucket struct {
	limit, window, burst, level, last int64
}

func (b *bucket) take(now, n int64) bool {
	b.level = min(b.burst*b.window, b.level+(now-b.last)*b.limit)
	b.last = now

	if b.level < n*b.window {
		return false
	}

	b.level -= n * b.window

	return true
}

// One server, leases or not, answers as a central counter would. A token takes
// whole microseconds here: a server tells the store in those when it spent.
func TestALoneServerIsACentralCounter(t *testing.T) {
	t.Parallel()

	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.SampledFrom([]int64{1, 2, 5, 8, 10, 40, 100, 500, 1_000}).Draw(t, "limit")
		window := rapid.SampledFrom([]int64{1_000, 10_000, 1_000_000, 60_000_000}).Draw(t, "window")
		burst := rapid.Int64Range(1, 3*limit).Draw(t, "burst")
		twin := &bucket{limit: limit, window: window, burst: burst, level: burst * window}

		var src, want strings.Builder

		fmt.Fprintf(&src, "rules: [{id: r, limit: %d, window: %dus, burst: %d}]\ntests:\n  - name: n\n    steps:\n", limit, window, burst)

		at := int64(0)

		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			at += rapid.SampledFrom([]int64{0, 1, 999, 50_000, 700_000, 5_000_000, 90_000_000}).Draw(t, "gap")
			send := rapid.Int64Range(1, 90).Draw(t, "send")
			every := rapid.SampledFrom([]int64{0, 1, 130, 1_000, 33_333, 1_000_001}).Draw(t, "every")
			cost := rapid.SampledFrom([]int64{1, 1, 1, 2, 7}).Draw(t, "cost")

			fmt.Fprintf(&src, "      - {at: %dus, send: %d, every: %dus, cost: %d}\n", at, send, every, cost)
			want.WriteByte(' ')

			for range send {
				if twin.take(at, cost) {
					want.WriteByte('A')
				} else {
					want.WriteByte('D')
				}

				at += every
			}
		}

		file, err := Parse("c.yaml", []byte(src.String()), nil)
		if err != nil {
			t.Fatal(err)
		}

		result, err := file.Tests[0].Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}

		if got := " " + letters(result); got != want.String() {
			t.Fatalf("%s\ngot  %s\nwant %s", src.String(), got, want.String())
		}
	})
}

// Many servers, near or far, admit no more than one bucket, over any time.
func TestManyServersKeepOneLimit(t *testing.T) {
	t.Parallel()

	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(1, 2_000).Draw(t, "limit")
		burst := rapid.Int64Range(1, limit).Draw(t, "burst")
		holders := rapid.IntRange(1, 5).Draw(t, "holders")
		latency := rapid.SampledFrom([]int64{0, 1, 500, 3_000, 40_000}).Draw(t, "latency")

		var src strings.Builder

		fmt.Fprintf(&src, "rules: [{id: r, limit: %d, window: 1s, burst: %d}]\n", limit, burst)
		fmt.Fprintf(&src, "tests:\n  - name: n\n    holders: %d\n    latency: %dus\n    steps:\n", holders, latency)

		for range rapid.IntRange(1, 10).Draw(t, "steps") {
			fmt.Fprintf(&src, "      - {at: %dms, send: %d, every: %dus, holder: %d}\n",
				rapid.IntRange(0, 3_000).Draw(t, "at"), rapid.IntRange(1, 300).Draw(t, "send"),
				rapid.IntRange(0, 5_000).Draw(t, "every"), rapid.IntRange(0, holders-1).Draw(t, "holder"))
		}

		file, err := Parse("c.yaml", []byte(src.String()), nil)
		if err != nil {
			t.Fatal(err)
		}

		result, err := file.Tests[0].Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}

		admitted := int64(0)
		for _, s := range result.Steps {
			admitted += s.Allowed
		}

		if most := burst + int64(result.Seconds*float64(limit)+1e-6); admitted > most {
			t.Fatalf("%s\nadmitted %d, where %d are the most", src.String(), admitted, most)
		}
	})
}
