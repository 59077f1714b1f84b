package cases

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/leaseway/leaseway"
)

// Result is what came of a test.
type Result struct {
	Name     string       `json:"name"`
	File     string       `json:"file"`
	Line     int          `json:"line"`
	Passed   bool         `json:"passed"`
	Requests int          `json:"requests"`
	Seconds  float64      `json:"seconds"` // of virtual time
	Failures []Failure    `json:"failures,omitempty"`
	Steps    []StepResult `json:"steps"`
}

// StepResult is what came of a step that sends.
type StepResult struct {
	Line    int     `json:"line"`
	At      float64 `json:"at"` // seconds from the start
	Letters string  `json:"letters,omitempty"`
	Allowed int64   `json:"allowed"`
	Denied  int64   `json:"denied"`

	// Of the last request's answer.
	Rule       string `json:"rule,omitempty"`
	Reason     string `json:"reason,omitempty"`
	Class      string `json:"class,omitempty"`
	Limit      int64  `json:"limit"`
	Remaining  int64  `json:"remaining"`
	RetryAfter int64  `json:"retryAfter"`
	Reset      int64  `json:"reset"`
	Delay      string `json:"delay,omitempty"` // for which a leaky bucket holds the request
}

// Failure is one thing that a step expected and did not get.
type Failure struct {
	Line int     `json:"line"`
	At   float64 `json:"at"` // seconds from the start
	What string  `json:"what"`
	Want string  `json:"want"`
	Got  string  `json:"got"`
}

// String is the failure as people read it.
func (f Failure) String() string {
	return fmt.Sprintf("at %s: %s: expected %s, got %s", span(f.At), f.What, f.Want, f.Got)
}

// shownLetters is up to how many requests the letters of a step are kept for a report.
const shownLetters = 100

// judge compares what came with what each step expects. The test ended at end.
func (t *Test) judge(played []*outcome, end int64) *Result {
	r := &Result{Name: t.Name, Line: t.Line, Seconds: seconds(end), Steps: []StepResult{}}

	for _, o := range played {
		if o.step.Rules != nil || o.step.Load != nil {
			continue
		}

		r.Requests += o.step.Requests

		s := o.result()
		r.Steps = append(r.Steps, s)

		if o.step.Expect == nil {
			continue
		}

		j := judgement{outcome: o, step: &s}
		j.all()
		r.Failures = append(r.Failures, j.failures...)
	}

	r.Passed = len(r.Failures) == 0

	return r
}

func (o *outcome) result() StepResult {
	s := StepResult{
		Line: o.step.Line, At: seconds(o.step.At),
		Allowed: int64(bytes.Count(o.letters, []byte{allowed})),
		Rule:    o.last.Rule, Reason: o.last.Reason.String(), Class: o.last.Class.String(),
		Limit: o.last.Limit, Remaining: o.last.Remaining,
		RetryAfter: retryAfter(&o.last), Reset: wholeSeconds(o.last.Reset),
	}
	if o.last.Delay > 0 {
		s.Delay = o.last.Delay.String()
	}

	s.Denied = int64(o.step.Requests) - s.Allowed

	if o.step.Requests <= shownLetters {
		s.Letters = string(o.letters)
	}

	return s
}

// judgement is the comparison of one step.
type judgement struct {
	*outcome

	step     *StepResult
	failures []Failure
}

func (j *judgement) all() {
	x := j.outcome.step.Expect

	if x.Letters != "" {
		j.letters(x)
	}

	j.count("allowed", x.Allowed, j.step.Allowed)
	j.count("denied", x.Denied, j.step.Denied)
	j.text("rule", x.Rule, j.step.Rule)
	j.text("reason", x.Reason, j.step.Reason)
	j.text("shadowDenied", x.ShadowDenied, j.last.ShadowDenied)
	j.text("shadowShed", x.ShadowShed, j.last.ShadowShed.String())
	j.text("class", x.Class, j.step.Class)
	j.number("limit", x.Limit, j.step.Limit)
	j.number("remaining", x.Remaining, j.step.Remaining)
	j.number("retryAfter", x.RetryAfter, j.step.RetryAfter)
	j.number("reset", x.Reset, j.step.Reset)

	if x.Delay != nil && *x.Delay != j.last.Delay.Microseconds() {
		j.fail("delay", (time.Duration(*x.Delay) * time.Microsecond).String(), j.last.Delay.String())
	}
}

// letters compares request by request; a tolerance lets that many differ.
func (j *judgement) letters(x *Expect) {
	wrong, first := int64(0), 0

	for i := range x.Letters {
		if x.Letters[i] != j.outcome.letters[i] {
			if wrong == 0 {
				first = i
			}

			wrong++
		}
	}

	if wrong <= x.Tolerance {
		return
	}

	what := "answer"
	if j.outcome.step.Requests > 1 {
		what = fmt.Sprintf("answers, from request %d on", first+1)
	}

	from := max(0, first-shownLetters/2)
	j.fail(what, around(x.Letters, from), around(string(j.outcome.letters), from))
}

// around cuts letters to what a line can carry.
func around(letters string, from int) string {
	to := min(len(letters), from+shownLetters)

	shown := letters[from:to]
	if from > 0 {
		shown = "…" + shown
	}

	if to < len(letters) {
		shown += "…"
	}

	return shown
}

func (j *judgement) count(what string, want *int64, got int64) {
	if want == nil {
		return
	}

	loose := j.outcome.step.Expect.Tolerance
	if off := got - *want; off > loose || off < -loose {
		expected := strconv.FormatInt(*want, 10)
		if loose > 0 {
			expected += fmt.Sprintf(" (give or take %d)", loose)
		}

		j.fail(what, expected, strconv.FormatInt(got, 10))
	}
}

func (j *judgement) number(what string, want *int64, got int64) {
	if want != nil && *want != got {
		j.fail(what, strconv.FormatInt(*want, 10), strconv.FormatInt(got, 10))
	}
}

func (j *judgement) text(what string, want *string, got string) {
	if want != nil && *want != got {
		j.fail(what, orNone(*want), orNone(got))
	}
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}

	return s
}

func (j *judgement) fail(what, want, got string) {
	j.failures = append(j.failures, Failure{Line: j.step.Line, At: j.step.At, What: what, Want: want, Got: got})
}

// retryAfter is the wait that an answer names, before jitter: whole seconds, at
// least 1; 0 when waiting does not help.
func retryAfter(d *leaseway.Decision) int64 {
	if d.Allowed {
		return 0
	}

	return wholeSeconds(d.RetryAfter)
}

// wholeSeconds rounds up, so that nobody comes back too early.
func wholeSeconds(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}

	return int64((d-1)/time.Second) + 1
}

func seconds(micros int64) float64 { return float64(micros) / 1e6 }

// span writes seconds as a span of time.
func span(s float64) string { return (time.Duration(math.Round(s*1e6)) * time.Microsecond).String() }
