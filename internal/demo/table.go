package demo

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// The title and the meaning of each phase.
func (p Phase) title() string {
	switch p {
	case Before:
		return "BEFORE: the coordinator runs"
	case Outage:
		return "OUTAGE: the coordinator is dead"
	case Recovery:
		return "RECOVERY: the coordinator is back, and the servers find out"
	default:
		return "AFTER: as before"
	}
}

const legend = `How to read this. wanted: requests sent. api-1 … api-3: admitted by each server; admitted: by all, which the limit is for.
of ideal: compared with one bucket in one place that sees every request at once. of bound: the fullest that any stretch of
time was, compared with burst + rate × time; in the outage, admitted compared with the share that is allowed without a
coordinator. asks: messages about this caller to the coordinator. Decisions are measured in the API server, from the
request's arrival at the middleware to its answer.
`

// claimWidth is where the text of a claim is broken.
const claimWidth = 110

// Write writes r as text.
func (r *Result) Write(w io.Writer) {
	fmt.Fprintf(w, "\n%s", legend)

	for i := range r.Phases {
		r.Phases[i].write(w)
		r.writeClaims(w, r.Phases[i].Phase)
	}

	g := r.Traffic
	fmt.Fprintf(w, "\n%s requests in %.1f s, %.0f/s, each sent %.1f ms late at most in 99 of 100 cases; seed %d.\n",
		number(g.Requests), r.Seconds, g.PerSecond, g.LateP99Ms, r.Seed)

	for _, text := range r.Warnings {
		fmt.Fprintln(w, "Beware:", text)
	}

	if r.Stopped {
		fmt.Fprintln(w, "It was stopped early: what came until then was judged.")
	}

	if r.Held {
		fmt.Fprintf(w, "Every promise was kept: %d of %d.\n", len(r.Claims), len(r.Claims))

		return
	}

	missed := 0

	for _, c := range r.Claims {
		if !c.Held {
			missed++
		}
	}

	fmt.Fprintf(w, "NOT every promise was kept: %d of %d were missed, see above.\n", missed, len(r.Claims))
}

func (r *Result) writeClaims(w io.Writer, p Phase) {
	fmt.Fprintln(w)

	for _, c := range r.Claims {
		if c.Phase != p {
			continue
		}

		mark := "  kept    "
		if !c.Held {
			mark = "  MISSED  "
		}

		for i, line := range wrapped(capital(c.Claim)+".", claimWidth) {
			if i > 0 {
				mark = "        " // wrapped adds two more
			}

			fmt.Fprintf(w, "%s%s\n", mark, line)
		}

		fmt.Fprintf(w, "          %s.\n", capital(c.Found))

		for _, m := range c.Missed {
			fmt.Fprintf(w, "          missed by %s\n", m)
		}
	}
}

func (p *PhaseResult) write(w io.Writer) {
	fmt.Fprintf(w, "\n%s (%.1f s)\n", p.Phase.title(), p.Seconds)
	fmt.Fprintf(w, "%s requests: %s admitted, %s denied with 429, %s failed.\n",
		number(p.Requests), number(p.Admitted), number(p.Denied), number(p.Failed))
	fmt.Fprintf(w, "Decisions: p50 %s, p99 %s, at most %s. Calls to the coordinator per 100 requests: %.1f.\n\n",
		short(p.Decision.P50Micros), short(p.Decision.P99Micros), short(p.Decision.MaxMicros), p.CallsPer100())

	rows := make([][]string, 0, len(p.Callers)+2)
	rows = append(rows, []string{
		"caller", "limit/s", "burst", "wanted", apiName(0), apiName(1), apiName(2), "admitted",
		"of ideal", "of bound", "denied", "asks/100", "",
	})

	for i := range p.Callers {
		rows = append(rows, p.Callers[i].row())
	}

	if p.Others.Demand > 0 {
		rows = append(rows, p.Others.row())
	}

	writeRows(w, rows)
}

func (l *Line) row() []string {
	limit, burst, bound := "", "", ""
	if l.Limit > 0 {
		limit, burst = strconv.FormatFloat(l.Limit, 'f', -1, 64), number(l.Burst)
	}

	switch {
	case l.Share > 0:
		bound = percent(l.Alone, l.Share)
	case l.Burst > 0:
		bound = percent(l.Fullest, l.Burst)
	}

	return []string{
		l.Caller, limit, burst, number(l.Demand), number(l.Each[0]), number(l.Each[1]), number(l.Each[2]), number(l.Admitted),
		percent(l.Admitted, l.Ideal), bound, number(l.Denied), fmt.Sprintf("%.1f", l.AsksPer100()), l.Note,
	}
}

// writeRows aligns the first and the last column to the left, and what is between to the right.
func writeRows(w io.Writer, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}

	for _, row := range rows {
		var b strings.Builder

		for i, cell := range row {
			space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))

			switch i {
			case 0:
				b.WriteString("  " + cell + space)
			case len(row) - 1:
				b.WriteString("  " + cell)
			default:
				b.WriteString("  " + space + cell)
			}
		}

		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}
}

// number writes n with a comma between thousands.
func number(n int64) string {
	s := strconv.FormatInt(n, 10)

	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}

	return s
}

func percent(n, of int64) string {
	if of == 0 {
		return "-"
	}

	return fmt.Sprintf("%.1f %%", per100(n, of))
}

// short writes a time in microseconds as a person would.
func short(micros float64) string {
	d := time.Duration(micros * 1e3)

	switch {
	case d < 10*time.Microsecond:
		return fmt.Sprintf("%.1f µs", micros)
	case d < time.Millisecond:
		return fmt.Sprintf("%.0f µs", micros)
	case d < time.Second:
		return fmt.Sprintf("%.1f ms", micros/1e3)
	default:
		return fmt.Sprintf("%.1f s", micros/1e6)
	}
}

// capital begins s, which is a clause, as a sentence.
func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
