package check

import (
	"strings"
	"time"

	"github.com/leaseway/leaseway/rule"
)

// RuleAnswer says whether one rule applies to a request, and why not, or whose limit holds.
type RuleAnswer struct {
	ID      string `doc:"The rule's id."                                                        json:"id"`
	Mode    string `doc:"enforce, shadow or off; a shadow rule refuses nothing."                json:"mode"`
	Applies bool   `doc:"Whether the request is subject to the rule."                           json:"applies"`
	Part    string `doc:"The first part of the rule that differs, such as paths or keyBy user." json:"part,omitempty"`
	Want    string `doc:"What the rule asks for in that part."                                  json:"want,omitempty"`
	Got     string `doc:"What the request has there; missing for what it lacks."                json:"got,omitempty"`

	Key      string `doc:"Whose budget is spent; of a secret key a hint."         json:"key,omitempty"`
	Limit    int64  `doc:"Tokens a window, or requests in flight, for this key."  json:"limit,omitempty"`
	Window   string `doc:"The window, such as 1m; none for what is in flight."    json:"window,omitempty"`
	Capacity int64  `doc:"Tokens at most: the burst, or a window's limit."        json:"capacity,omitempty"`
	Worst    int64  `doc:"Tokens at most in any stretch as long as the window."   json:"worst,omitempty"`
	Override bool   `doc:"Whether an override gives this key a limit of its own." json:"override,omitempty"`
	Cost     int64  `doc:"Tokens that the request takes."                         json:"cost,omitempty"`

	Rollout string `doc:"The share of keys that have the rule as written, if not all." json:"rollout,omitempty"`
	Version string `doc:"What this key has then: new, or before."                      json:"version,omitempty"`
}

// Explained is an answer with what each rule has to do with it.
type Explained struct {
	Answer

	ClassBy string       `doc:"What gives the class, such as method or classes[1]; only if asked to explain." json:"classBy,omitempty"`
	Rules   []RuleAnswer `doc:"Every rule in force, in order; only if asked to explain."                      json:"rules,omitempty"`
}

// Explain adds to an answer what every rule in force has to do with a request of these attributes, and what gives its
// class. It charges nothing. The error is a *FieldError.
func (d *Door) Explain(answer Answer, attributes Attributes, cost *int64) (*Explained, error) {
	req, err := attributes.Request()
	if err != nil {
		return nil, err
	}

	if err := setCost(&req, cost); err != nil {
		return nil, err
	}

	set := d.limiter.Rules()
	out := &Explained{Answer: answer, Rules: ruleAnswers(set.Explain(&req), &req)}
	d.switchedOff(out.Rules)

	_, out.ClassBy = set.ExplainClass(&req)

	return out, nil
}

// switchedOff says of rules that would apply whether a kill switch keeps them from it.
func (d *Door) switchedOff(answers []RuleAnswer) {
	for i := range answers {
		if off := d.limiter.RuleSwitch(answers[i].ID); off.Off && answers[i].Applies {
			answers[i] = RuleAnswer{ID: answers[i].ID, Mode: answers[i].Mode, Part: "switches", Want: "on", Got: off.String()}
		}
	}
}

// ruleAnswers writes down the explanations of a request.
func ruleAnswers(explained []rule.Explanation, req *rule.Request) []RuleAnswer {
	answers := make([]RuleAnswer, len(explained))

	for i := range explained {
		e := &explained[i]
		answers[i] = RuleAnswer{
			ID: e.Rule.ID, Mode: e.Rule.Mode.String(), Applies: e.Applies,
			Part: e.Part, Want: e.Want, Got: e.Got, Key: e.Key,
		}
		answers[i].rolledOut(e)

		if e.Applies && e.Part == "" && !e.Version.Block {
			answers[i].Limit, answers[i].Capacity, answers[i].Override = e.Quota.Limit, e.Quota.Burst, e.Quota.Overridden
			answers[i].Window, answers[i].Worst = window(e), worst(e)

			if !req.Peek {
				answers[i].Cost = e.Rule.CostOf(req)
			}
		}
	}

	return answers
}

// rolledOut says which version of the rule the key has, while not all have the same.
func (a *RuleAnswer) rolledOut(e *rule.Explanation) {
	if e.Rule.Withheld == 0 {
		return
	}

	a.Rollout = e.Rule.Rollout() + "%"

	switch e.Version {
	case nil:
	case e.Rule:
		a.Version = "new"
	default:
		a.Version, a.Mode = "before", e.Version.Mode.String()
	}
}

// worst is the most that is admitted in any stretch as long as the window, over all servers, by the table of docs/rules.md.
// It surprises those who take a limit for a bound.
func worst(e *rule.Explanation) int64 {
	switch q := e.Quota; e.Version.Algorithm {
	case rule.TokenBucket:
		return q.Burst + q.Limit
	case rule.FixedWindow:
		return 2 * q.Limit // around an edge
	case rule.SlidingWindow:
		return 2*q.Limit - 1 // after a window that was used up at its end
	case rule.SlidingLog:
		return q.Limit
	case rule.LeakyBucket:
		return q.Limit + 1 // as they are served
	default:
		return 0 // what is in flight has no window
	}
}

// window writes the window of an explained rule.
func window(e *rule.Explanation) string {
	switch e.Version.Calendar {
	case rule.CalendarDay:
		return "1d"
	case rule.CalendarMonth:
		return "1mo"
	case rule.CalendarNone:
	}

	if e.Quota.Window == 0 {
		return "" // what is in flight has none
	}

	return shortSpan(e.Quota.Window)
}

// shortSpan writes a span of time without the units that are zero: 1m, not 1m0s.
func shortSpan(d time.Duration) string {
	text := d.String()
	if short, ok := strings.CutSuffix(text, "m0s"); ok {
		text = short + "m"
	}

	if short, ok := strings.CutSuffix(text, "h0m"); ok {
		text = short + "h"
	}

	return text
}
