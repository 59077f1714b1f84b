package demo

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"
)

// Duel is what became of a scenario. It is the JSON document of -o json.
type Duel struct {
	Scenario string     `json:"scenario"`
	Held     bool       `json:"held"` // no claim was missed
	Seed     uint64     `json:"seed"`
	Seconds  float64    `json:"seconds"`     // of traffic
	From     float64    `json:"judgedFrom"`  // s since the start
	Rules    string     `json:"rules"`       // of the side with Leaseway
	Without  SideResult `json:"without"`     // Leaseway
	With     SideResult `json:"with"`        // Leaseway
	InFlight int64      `json:"inFlight"`    // at the end, with Leaseway
	Late     int64      `json:"late"`        // requests that waited for the coordinator in vain
	LateMs   float64    `json:"sentLateP99"` // ms behind the schedule

	Claims   []Verdict `json:"claims"`
	Warnings []string  `json:"warnings,omitempty"`
}

// SideResult is what the callers of one API met.
type SideResult struct {
	Crowds []CrowdResult `json:"crowds"`
}

// CrowdResult is what callers met who do the same.
type CrowdResult struct {
	Crowd    string  `json:"crowd"`
	Innocent bool    `json:"innocent"`
	Requests int64   `json:"requests"`
	Served   int64   `json:"served"`
	Refused  int64   `json:"refused"` // 429 or 503
	Failed   int64   `json:"failed"`  // the caller gave up, or any other status
	P50Ms    float64 `json:"p50Ms"`   // of all that were not refused: who gave up has waited, too
	P99Ms    float64 `json:"p99Ms"`
}

// share returns which share of 1 was served.
func (c *CrowdResult) share() float64 { return float64(c.Served) / float64(max(1, c.Requests)) }

// Verdict is one claim, and whether it held.
type Verdict struct {
	Claim string `json:"claim"`
	Held  bool   `json:"held"`
	Found string `json:"found"`
}

// What is claimed of every scenario.
const (
	timesLower  = 4.0  // the p99 of the innocent
	servedShare = 0.99 // of the innocent
)

// judge adds up what happened, and holds it against what is claimed.
func (d *duel) judge(ctx context.Context) (*Duel, error) {
	left, err := d.empty(ctx)
	if err != nil {
		return nil, err
	}

	r := &Duel{
		Scenario: d.scenario.name, Seed: d.cfg.Seed, Seconds: d.cfg.Duration.Seconds(), From: settled.Seconds(),
		Rules: d.scenario.rules, InFlight: left.InFlight, Late: left.Late,
		Without: d.sides[without].result(d.scenario.crowds, settled), With: d.sides[with].result(d.scenario.crowds, settled),
	}

	late := make([]time.Duration, 0, len(d.sides[with].met))
	for i := range d.sides[with].met {
		late = append(late, d.sides[with].met[i].late)
	}

	slices.Sort(late)
	r.LateMs = millis(late, 99) //nolint:mnd // the percentile

	if r.LateMs > float64(lateMost.Milliseconds()) {
		r.Warnings = append(r.Warnings, fmt.Sprintf(
			"This machine was too busy: 1 request in 100 was sent more than %.0f ms late.", r.LateMs))
	}

	if r.Late > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d requests waited %v for the coordinator in vain, and passed or were decided by one "+
			"server's share.", r.Late, scenarioWithin))
	}

	for i := range r.With.Crowds {
		if r.With.Crowds[i].Innocent {
			r.claim(&r.Without.Crowds[i], &r.With.Crowds[i])
		}
	}

	r.Claims = append(r.Claims, Verdict{
		Claim: "nothing is in flight when all answers are in", Held: r.InFlight == 0, Found: fmt.Sprintf("%d in flight", r.InFlight),
	})
	r.Held = !slices.ContainsFunc(r.Claims, func(v Verdict) bool { return !v.Held })

	return r, nil
}

// claim says what is claimed of a crowd that does nothing wrong.
func (r *Duel) claim(was, is *CrowdResult) {
	r.Claims = append(r.Claims,
		Verdict{
			Claim: fmt.Sprintf("%s: their p99 is at least %.0f times lower with Leaseway", is.Crowd, timesLower),
			Held:  is.P99Ms > 0 && was.P99Ms >= timesLower*is.P99Ms,
			Found: fmt.Sprintf("%s without, %s with: %.1f times lower",
				short(was.P99Ms*1e3), short(is.P99Ms*1e3), was.P99Ms/max(is.P99Ms, 1e-3)),
		},
		Verdict{
			Claim: fmt.Sprintf("%s: at least %.0f %% of their requests are served with Leaseway, and more than without",
				is.Crowd, 100*servedShare),
			Held:  is.share() >= servedShare && is.share() > was.share(),
			Found: fmt.Sprintf("%.1f %% without, %.1f %% with", 100*was.share(), 100*is.share()),
		})
}

// Write writes r as text of at most width columns, where width is sensible. Errors are w's to keep.
func (r *Duel) Write(w io.Writer, width int) {
	to := page{w, min(max(width, narrowest), widest)}

	fmt.Fprintln(w)
	to.linef("The rules of the side with Leaseway:")
	fmt.Fprintf(w, "\n%s\n", indented(r.Rules))
	to.linef("What callers met from %.0f s on. served, refused: per cent of the requests; refused is 429 or 503, with the time to come "+
		"back. p50, p99: until the answer, or until the caller gave up, of all that were not refused.", r.From)

	for _, s := range []struct {
		title string
		side  *SideResult
	}{{"WITHOUT Leaseway", &r.Without}, {"WITH Leaseway", &r.With}} {
		fmt.Fprintln(w)
		fmt.Fprintln(w, s.title)
		writeRows(w, s.side.rows(r.Seconds-r.From), to.width)
	}

	fmt.Fprintln(w)

	for _, v := range r.Claims {
		mark := "held"
		if !v.Held {
			mark = "MISSED"
		}

		to.linef("%s: %s. %s.", mark, v.Claim, capital(v.Found))
	}

	for _, text := range r.Warnings {
		to.linef("Beware: %s", text)
	}
}

func (s *SideResult) rows(seconds float64) [][]string {
	rows := make([][]string, 0, 1+len(s.Crowds))
	rows = append(rows, []string{"callers", "requests/s", "served", "refused", "gave up", "p50", "p99"})

	for i := range s.Crowds {
		c := &s.Crowds[i]
		p50, p99 := "-", "-"

		if c.Served+c.Failed > 0 {
			p50, p99 = short(c.P50Ms*1e3), short(c.P99Ms*1e3)
		}

		rows = append(rows, []string{
			c.Crowd, fmt.Sprintf("%.0f", float64(c.Requests)/seconds), percent(c.Served, c.Requests), percent(c.Refused, c.Requests),
			percent(c.Failed, c.Requests), p50, p99,
		})
	}

	return rows
}
