package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/leaseway/leaseway/internal/check"
	"github.com/leaseway/leaseway/rule"
)

// writeAnswer prints an answer, and returns an error for a refusal.
func writeAnswer(w io.Writer, a *check.Explained, asJSON bool) error {
	var err error

	if asJSON {
		encoder := json.NewEncoder(w)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(a)
	} else {
		err = writeExplanation(w, a)
	}

	if err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}

	if !a.Allowed {
		return &failure{errors.New("the request is denied")}
	}

	return nil
}

// writeExplanation prints the outcome, and below it what each rule has to do with it.
func writeExplanation(w io.Writer, a *check.Explained) error {
	fmt.Fprintln(w, outcome(a))

	if a.Degraded {
		fmt.Fprintln(w, "decided without the coordinator, which did not answer in time: by what the rule says of that (onUnavailable)")
	}

	if a.Class != "" {
		fmt.Fprintln(w, classOf(a))
	}

	if len(a.Rules) == 0 {
		return nil
	}

	fmt.Fprintln(w)

	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "RULE\tAPPLIES\tKEY\tLIMIT\tAT WORST\tWHY")

	for i := range a.Rules {
		r := &a.Rules[i]

		applies := "no"
		if r.Applies {
			applies = "yes"
		}

		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n",
			r.ID, applies, orDash(visible(r.Key)), orDash(limitOf(r)), orDash(worstOf(r)), whyOf(r))
	}

	return table.Flush()
}

// outcome is the decision as a sentence.
func outcome(a *check.Explained) string {
	left := fmt.Sprintf("%d of %d tokens left", a.Remaining, a.Limit)
	if boundsInFlight(a) {
		left = fmt.Sprintf("%d of %d more may be in flight", a.Remaining, a.Limit)
	}

	if a.ResetSec > 0 {
		left += ", all of them again in " + seconds(a.ResetSec)
	}

	switch {
	case a.Allowed && a.Rule == "" && a.Reason == "":
		return "allowed: no rule limits it"
	case a.Allowed:
		return fmt.Sprintf("allowed: rule %s has the least left, %s", a.Rule, left)
	case a.Rule == "" && a.RetryAfterSec > 0:
		return fmt.Sprintf("denied (%s): the server is busy; to try again in %s", a.Reason, seconds(a.RetryAfterSec))
	case a.RetryAfterSec > 0:
		return fmt.Sprintf("denied by rule %s (%s): %s; to try again in %s", a.Rule, a.Reason, left, seconds(a.RetryAfterSec))
	default:
		return fmt.Sprintf("denied by rule %s (%s): waiting does not help", a.Rule, a.Reason)
	}
}

// boundsInFlight reports whether the rule that the answer speaks of has no window.
func boundsInFlight(a *check.Explained) bool {
	return slices.ContainsFunc(a.Rules, func(r check.RuleAnswer) bool { return r.ID == a.Rule && r.Limit > 0 && r.Window == "" })
}

// classOf says how much the request matters, and by what.
func classOf(a *check.Explained) string {
	switch by := a.ClassBy; by {
	case "":
		return "class " + a.Class
	case "method", "request":
		return "class " + a.Class + ", by the " + by
	default:
		return "class " + a.Class + ", by " + by
	}
}

func seconds(n int64) string { return (time.Duration(n) * time.Second).String() }

func limitOf(r *check.RuleAnswer) string {
	if r.Limit == 0 {
		return ""
	}

	text := fmt.Sprintf("%d per %s", r.Limit, r.Window)
	if r.Window == "" {
		text = fmt.Sprintf("%d in flight", r.Limit)
	}

	if r.Capacity != r.Limit {
		text += fmt.Sprintf(", burst %d", r.Capacity)
	}

	if r.Cost > 1 {
		text += fmt.Sprintf(", costs %d", r.Cost)
	}

	return text
}

// worstOf is the most that the rule admits in any stretch as long as its window, which can be more than the limit.
func worstOf(r *check.RuleAnswer) string {
	if r.Worst == 0 {
		return ""
	}

	return fmt.Sprintf("%d in %s", r.Worst, r.Window)
}

// whyOf says why the rule applies or not, and whose limit it is.
func whyOf(r *check.RuleAnswer) string {
	got := strconv.Quote(r.Got)
	if r.Got == "" {
		got = "nothing"
	}

	switch {
	case r.Applies && r.Part != "":
		return "the request has no value for " + r.Part + ", and the rule refuses such"
	case r.Part == "rollout":
		return "the rule applies to " + r.Rollout + " of the keys, and not to this one"
	case r.Part == "switches":
		return "switched " + visible(r.Got)
	case r.Part == "mode":
		return "the rule is off"
	case !r.Applies:
		return fmt.Sprintf("%s: wants %s, and the request has %s", r.Part, visible(r.Want), got)
	case r.Limit == 0:
		return "it blocks every request" + rolloutNote(r)
	case r.Override:
		return "an override for this key" + rolloutNote(r) + shadowNote(r)
	default:
		return "the rule's own limit" + rolloutNote(r) + shadowNote(r)
	}
}

// rolloutNote says which version of the rule the key has.
func rolloutNote(r *check.RuleAnswer) string {
	switch r.Version {
	case "new":
		return ", as for " + r.Rollout + " of the keys"
	case "before":
		return ", as before: " + r.Rollout + " of the keys have the new one"
	default:
		return ""
	}
}

func shadowNote(r *check.RuleAnswer) string {
	if r.Mode == rule.Shadow.String() {
		return "; a shadow rule refuses nothing"
	}

	return ""
}

// visible is text without what could speak to the terminal.
func visible(text string) string {
	for _, r := range text {
		if !strconv.IsPrint(r) {
			return strconv.Quote(text)
		}
	}

	return text
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}

	return text
}
