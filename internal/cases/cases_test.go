package cases

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Every file in testdata must hold: they are the arithmetic, the odd values, the
// clocks, the keys and the fleets that people had trouble with.
func TestFilesHold(t *testing.T) {
	t.Parallel()

	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("only %d files, %v: a moved directory would pass unseen", len(files), err)
	}

	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			mustHold(t, path)
		})
	}
}

// The example of the format, where the repository is checked out beside it.
func TestExamplesHold(t *testing.T) {
	t.Parallel()

	const path = "../../../shared/cases/examples.yaml"
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		t.Skip("there are no shared cases beside the repository")
	}

	mustHold(t, path)
}

func mustHold(t *testing.T, path string) {
	t.Helper()

	file, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}

	for _, test := range file.Tests {
		result, err := test.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}

		for _, f := range result.Failures {
			t.Errorf("%s:%d: %s: %s", path, f.Line, test.Name, f)
		}
	}
}

func parsed(t *testing.T, src string) *File {
	t.Helper()

	file, err := Parse("cases.yaml", []byte(src), nil)
	if err != nil {
		t.Fatal(err)
	}

	return file
}

func run(t *testing.T, src string) *Result {
	t.Helper()

	result, err := parsed(t, src).Tests[0].Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	return result
}

// A test that cannot fail would be the worst of all.
func TestFailuresSayWhatWasExpectedAndWhatCame(t *testing.T) {
	t.Parallel()

	result := run(t, `
rules: [{id: r, keyBy: user, limit: 2, window: 10s}]
tests:
  - name: wrong in every way
    steps:
      - {at: 0s, send: 3, user: a, expect: ADA}
      - {at: 1s, send: 2, user: a, expect: {allowed: 2, denied: 0, rule: s, limit: 3, remaining: 1, retryAfter: 9, reset: 7, reason: blocked, shadowDenied: s, delay: 1s}}
      - {at: 2s, send: 5, user: b, tolerance: 1, expect: {allowed: 4, denied: 1}}
      - {at: 2s, send: 5, user: c, tolerance: 1, expect: {allowed: 3, denied: 2}}
      - {at: 2s, send: 4, user: d, tolerance: 2, expect: DDDD}
      - {at: 2s, send: 4, user: e, tolerance: 1, expect: DDDD}
`)

	var got []string
	for _, f := range result.Failures {
		got = append(got, f.String())
	}

	want := []string{
		"at 0s: answers, from request 2 on: expected ADA, got AAD",
		"at 1s: allowed: expected 2, got 0",
		"at 1s: denied: expected 0, got 2",
		"at 1s: rule: expected s, got r",
		"at 1s: reason: expected blocked, got over_limit",
		"at 1s: shadowDenied: expected s, got none",
		"at 1s: limit: expected 3, got 2",
		"at 1s: remaining: expected 1, got 0",
		"at 1s: retryAfter: expected 9, got 4",
		"at 1s: reset: expected 7, got 9",
		"at 1s: delay: expected 1s, got 0s",
		"at 2s: allowed: expected 4 (give or take 1), got 2",
		"at 2s: denied: expected 1 (give or take 1), got 3",
		"at 2s: answers, from request 1 on: expected DDDD, got AADD",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}

	if result.Passed || result.Requests != 23 {
		t.Errorf("got passed %v, %d requests", result.Passed, result.Requests)
	}
}

func TestCanceledRunsSaySo(t *testing.T) {
	t.Parallel()

	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	_, err := parsed(t, `{rules: [{id: r, limit: 1, window: 1s}], tests: [{name: n, steps: [{at: 0s, expect: A}]}]}`).Tests[0].Run(ctx)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestReportsShowTimesAsWritten(t *testing.T) {
	t.Parallel()

	result := run(t, `{rules: [{id: r, limit: 1, window: 1s}], tests: [{name: "a\tb", steps: [{at: 2.01s, expect: D}]}]}`)
	report := Report{Failed: 1, Results: []*Result{result}}

	var out strings.Builder
	if err := report.Text(&out, true); err != nil {
		t.Fatal(err)
	}

	want := `RESULT  STEPS  REQUESTS  TIME   TEST
FAIL    1      1         2.01s  "a\tb"
      :1: at 2.01s: A; rule r, limit 1, remaining 0, reset 1
      :1: at 2.01s: answer: expected D, got A
0 passed, 1 failed
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
