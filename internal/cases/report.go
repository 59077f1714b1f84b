package cases

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"text/tabwriter"
)

// Report is the results of one or more files.
type Report struct {
	Passed  int       `json:"passed"`
	Failed  int       `json:"failed"`
	Results []*Result `json:"results"`
}

// RunAll runs the tests of files whose names match only, nil for all, and
// stops at the first that cannot be played.
func RunAll(ctx context.Context, files []*File, only *regexp.Regexp) (*Report, error) {
	report := &Report{Results: []*Result{}}

	for _, f := range files {
		for _, t := range f.Tests {
			if only != nil && !only.MatchString(t.Name) {
				continue
			}

			result, err := t.Run(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", f.Name, t.Line, err)
			}

			result.File = f.Name
			report.Results = append(report.Results, result)

			if result.Passed {
				report.Passed++
			} else {
				report.Failed++
			}
		}
	}

	return report, nil
}

// JSON writes the report as one JSON object.
func (r *Report) JSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")

	return encoder.Encode(r)
}

// Text writes the report as a table, with what failed below each test, and
// with every step if verbose.
func (r *Report) Text(w io.Writer, verbose bool) error {
	// The table is laid out first: what stands between its lines has a width of its own.
	var rows bytes.Buffer

	table := tabwriter.NewWriter(&rows, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "RESULT\tSTEPS\tREQUESTS\tTIME\tTEST")

	for _, result := range r.Results {
		verdict := "ok"
		if !result.Passed {
			verdict = "FAIL"
		}

		fmt.Fprintf(table, "%s\t%d\t%d\t%s\t%s\n", verdict, len(result.Steps), result.Requests, span(result.Seconds), oneLine(result.Name))
	}

	if err := table.Flush(); err != nil {
		return err
	}

	lines := bytes.SplitAfter(rows.Bytes(), []byte("\n"))

	var out bytes.Buffer

	out.Write(lines[0])

	for i, result := range r.Results {
		out.Write(lines[i+1])
		result.details(&out, verbose)
	}

	fmt.Fprintf(&out, "%d passed, %d failed\n", r.Passed, r.Failed)

	_, err := w.Write(out.Bytes())

	return err
}

func (r *Result) details(w io.Writer, verbose bool) {
	if verbose {
		for _, s := range r.Steps {
			fmt.Fprintf(w, "      %s:%d: at %s: %s\n", r.File, s.Line, span(s.At), s)
		}
	}

	for _, f := range r.Failures {
		fmt.Fprintf(w, "      %s:%d: %s\n", r.File, f.Line, f)
	}
}

// String is what came, and what the last answer said.
func (s StepResult) String() string {
	text := s.Letters
	if text == "" || s.Allowed+s.Denied > 1 {
		text = fmt.Sprintf("%s (%d allowed, %d denied)", text, s.Allowed, s.Denied)
	}

	if s.Rule == "" {
		return text + "; no rule matched"
	}

	text += fmt.Sprintf("; rule %s, limit %d, remaining %d, reset %d", s.Rule, s.Limit, s.Remaining, s.Reset)
	if s.Reason != "" {
		text += ", " + s.Reason
	}

	if s.Delay != "" {
		text += ", held for " + s.Delay
	}

	if s.RetryAfter > 0 {
		text += ", retryAfter " + strconv.FormatInt(s.RetryAfter, 10)
	}

	return text
}

// oneLine is a name without what would break the table.
func oneLine(name string) string {
	for _, r := range name {
		if !strconv.IsPrint(r) {
			return strconv.Quote(name)
		}
	}

	return name
}
