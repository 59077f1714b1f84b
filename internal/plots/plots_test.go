package plots

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"testing"

	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the generated files")

// The lines of docs/choosing.md between which the table stands.
const (
	begin = "<!-- worst: begin, written by make generate -->\n"
	end   = "<!-- worst: end -->\n"
)

func TestGeneratedFilesAreCurrent(t *testing.T) {
	const page = "../../docs/choosing.md"

	want := map[string][]byte{}
	for name, svg := range Pictures() {
		want["../../docs/plots/"+name] = svg
	}

	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}

	head, rest, ok := bytes.Cut(text, []byte(begin))
	_, tail, found := bytes.Cut(rest, []byte(end))

	if !ok || !found {
		t.Fatalf("%s has no lines %q and %q to write the table between", page, begin, end)
	}

	want[page] = bytes.Join([][]byte{head, []byte(begin), Table(), []byte(end), tail}, nil)

	for path, content := range want {
		if *update {
			if err := os.WriteFile(path, content, 0o644); err != nil {
				t.Fatal(err)
			}
		}

		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s is out of date (%v): run make generate and commit it", path, err)
		}
	}
}

// Worked out by hand, for 60 a minute.
func TestWorst(t *testing.T) {
	t.Parallel()

	for i, want := range []struct {
		name                      string
		moment, minute, ten, hour int64
	}{
		// The burst and what refills: in [0, 60 s) the tokens of 1 s to 59 s.
		{tokenBucket, 60, 60 + 59, 60 + 599, 60 + 3599},
		// Twice around an edge; a stretch of n minutes touches n + 1 windows.
		{fixedWindow, 120, 120, 660, 3660},
		// The last token of the previous window weighs until this one ends: 59 in each.
		{slidingWindow, 60, 60 + 59, 60 + 10*59, 60 + 60*59},
		{slidingLog, 60, 60, 600, 3600},
		// One each second, whatever comes.
		{leakyBucket, 1, 60, 600, 3600},
	} {
		a := algorithms()[i]
		got := []int64{worst(a, moment), worst(a, minute), worst(a, 10*minute), worst(a, 60*minute)}

		if a.name != want.name || fmt.Sprint(got) != fmt.Sprint([]int64{want.moment, want.minute, want.ten, want.hour}) {
			t.Errorf("%s: %v, want %+v", a.name, got, want)
		}
	}
}

// Callers of any pattern get no more than the table says, and some get as much.
func TestNoOneGetsMoreThanTheWorst(t *testing.T) {
	t.Parallel()

	for _, a := range algorithms() {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()

			lengths := []int64{moment, second, minute, 10 * minute}
			most := make([]int64, len(lengths))

			for i, length := range lengths {
				most[i] = worst(a, length)
			}

			rapid.Check(t, func(t *rapid.T) {
				var (
					c   = a.open(limit)
					now = rapid.Int64Range(0, minute).Draw(t, "start")
					got []event
				)

				for range rapid.IntRange(1, 60).Draw(t, "steps") {
					pause := rapid.SampledFrom([]int64{0, 1, 1_000, second, 7 * second, 30 * second, minute, minute - now%minute, minute - now%minute - 1})
					now += pause.Draw(t, "pause")

					for range min(c.left(now), rapid.Int64Range(0, limit).Draw(t, "requests")) {
						got = append(got, take(c, now))
					}
				}

				for i, length := range lengths {
					if n := densest(got, length); n > most[i] {
						t.Fatalf("%d within %d µs, the table says %d", n, length, most[i])
					}
				}
			})
		})
	}
}
