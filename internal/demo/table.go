package demo

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// title says which phase it is, and what happens in it.
func (p *PhaseResult) title() string {
	switch p.Phase {
	case Before:
		if p.redis {
			return "BEFORE: all coordinators and Redis servers run"
		}

		return "BEFORE: the coordinator runs"
	case Outage:
		return "OUTAGE: the coordinator is dead"
	case Recovery:
		return "RECOVERY: the coordinator is back, and the servers find out"
	case Failover:
		return "FAILOVER: a Redis master is dead, and its replica takes over"
	case Switch:
		return "SWITCH: one of the coordinators is dead, and its servers turn to others"
	default:
		if p.redis {
			return "AFTER: with one Redis server and one coordinator less"
		}

		return "AFTER: as before"
	}
}

const legend = "How to read this. limit: tokens a second. wanted: requests sent. api-1 to api-3: admitted by each server; all: by " +
	"all of them, which the limit is for. ideal: all, in percent of what one bucket in one place would have admitted, which " +
	"sees every request at once. bound: the fullest that any stretch of time was, in percent of burst + rate × time; in the " +
	"outage, what was admitted in percent of the share that is allowed without a coordinator; in a failover, in percent of burst " +
	"and share. denied: answered 429. asks: " +
	"messages about this caller to the coordinator, per 100 requests. Decisions are measured in the API server, from the " +
	"request's arrival at the middleware to its answer."

// UsualWidth is the width of text whose reader is not known, columns.
const UsualWidth = 80

const (
	narrowest, widest = 60, 120 // columns that text is fitted to
	shortestName      = 8       // that a caller's is cut down to
)

// page is where results are written, and how wide it is.
type page struct {
	w     io.Writer
	width int
}

func (p page) linef(format string, args ...any) {
	for _, line := range wrapped(fmt.Sprintf(format, args...), p.width) {
		fmt.Fprintln(p.w, line)
	}
}

// Write writes r as text of at most width columns, where width is sensible. Errors are w's to keep.
func (r *Result) Write(w io.Writer, width int) {
	to := page{w, min(max(width, narrowest), widest)}

	fmt.Fprintln(w)
	to.linef(legend)

	for i := range r.Phases {
		p := &r.Phases[i]
		p.write(to)
		fmt.Fprintln(w)

		if !p.Judged {
			to.linef("Stopped too early to judge: %.1f s of this phase are too few to tell.", p.Seconds)
		}

		r.writeClaims(to, p.Phase)
	}

	g := r.Traffic

	fmt.Fprintln(w)
	to.linef("%s requests in %.1f s, %.0f/s, each sent %.1f ms late at most in 99 of 100 cases; seed %d.",
		number(g.Requests), r.Seconds, g.PerSecond, g.LateP99Ms, r.Seed)

	for _, text := range r.Warnings {
		to.linef("Beware: %s", text)
	}

	to.linef("%s", r.summary())
}

// summary is the last word.
func (r *Result) summary() string {
	missed := 0

	for _, c := range r.Claims {
		if !c.Held {
			missed++
		}
	}

	early := ""
	if r.Stopped {
		early = "It was stopped early: what came until then was judged. "
	}

	switch {
	case len(r.Claims) == 0:
		return "It was stopped too early to judge any promise."
	case r.Held:
		return fmt.Sprintf("%sEvery promise was kept: %d of %[2]d.", early, len(r.Claims))
	default:
		return fmt.Sprintf("%sNOT every promise was kept: %d of %d were missed, see above.", early, missed, len(r.Claims))
	}
}

func (r *Result) writeClaims(to page, p Phase) {
	const (
		mark   = "  kept    "
		missed = "  MISSED  "
		indent = "          "
		hang   = 2 // what wrapped adds
	)

	write := func(first, rest, text string) {
		for i, line := range wrapped(text, to.width-len(first)) {
			if i > 0 {
				first = rest[hang:]
			}

			fmt.Fprintf(to.w, "%s%s\n", first, line)
		}
	}

	for _, c := range r.Claims {
		if c.Phase != p {
			continue
		}

		first := mark
		if !c.Held {
			first = missed
		}

		write(first, indent, capital(c.Claim)+".")
		write(indent, indent, capital(c.Found)+".")

		for _, m := range c.Missed {
			write(indent, indent, "missed by "+m)
		}
	}
}

func (p *PhaseResult) write(to page) {
	fmt.Fprintln(to.w)
	to.linef("%s (%.1f s)", p.title(), p.Seconds)
	to.linef("%s requests: %s admitted, %s denied with 429, %s failed.",
		number(p.Requests), number(p.Admitted), number(p.Denied), number(p.Failed))

	if p.redis {
		to.linef("Calls to the coordinators per 100 requests: %.1f. Functions that Redis ran for them: %.0f/s, %.1f per 100 requests.",
			p.CallsPer100(), float64(p.Runs)/max(p.Seconds, 1e-6), per100(p.Runs, p.Requests))
	} else {
		to.linef("Calls to the coordinator per 100 requests: %.1f.", p.CallsPer100())
	}

	to.linef("Decisions: p50 %s, p99 %s, at most %s.",
		short(p.Decision.P50Micros), short(p.Decision.P99Micros), short(p.Decision.MaxMicros))
	fmt.Fprintln(to.w)

	rows := make([][]string, 0, len(p.Callers)+2)
	rows = append(rows, []string{
		"caller", "limit", "wanted", apiName(0), apiName(1), apiName(2), "all", "ideal", "bound", "denied", "asks",
	})

	for i := range p.Callers {
		rows = append(rows, p.Callers[i].row())
	}

	if p.Others.Demand > 0 {
		rows = append(rows, p.Others.row())
	}

	if to.width < UsualWidth {
		withoutServers(rows, 3)
	}

	writeRows(to.w, rows, to.width)
}

// withoutServers leaves out the columns of the single servers, which begin at first.
func withoutServers(rows [][]string, first int) {
	for i := range rows {
		rows[i] = slices.Delete(rows[i], first, first+servers)
	}
}

func (l *Line) row() []string {
	limit, bound := "", ""
	if l.Limit > 0 {
		limit = strconv.FormatFloat(l.Limit, 'f', -1, 64)
	}

	switch {
	case l.Share > 0 && l.Fullest > 0: // with Redis: beside the burst
		bound = percent(l.Fullest, l.Burst+l.Share)
	case l.Share > 0:
		bound = percent(l.Alone, l.Share)
	case l.Burst > 0:
		bound = percent(l.Fullest, l.Burst)
	}

	return []string{
		l.Caller, limit, number(l.Demand), number(l.Each[0]), number(l.Each[1]), number(l.Each[2]), number(l.Admitted),
		percent(l.Admitted, l.Ideal), bound, number(l.Denied), fmt.Sprintf("%.1f", l.AsksPer100()),
	}
}

// writeRows aligns the first column to the left and the others to the right, in at most width columns: with two spaces
// between if they fit, else one, and then with shorter names.
func writeRows(w io.Writer, rows [][]string, width int) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}

	const margin = 2

	gap, room := 2, width-margin
	for _, n := range widths {
		room -= n
	}

	if room < gap*(len(widths)-1) {
		gap = 1
		widths[0] = max(min(widths[0], shortestName), widths[0]+min(0, room-(len(widths)-1)))
	}

	for _, row := range rows {
		name := shortened(row[0], widths[0])

		var line strings.Builder

		line.WriteString(strings.Repeat(" ", margin) + name + strings.Repeat(" ", widths[0]-utf8.RuneCountInString(name)))

		for i, cell := range row[1:] {
			line.WriteString(strings.Repeat(" ", gap+widths[i+1]-utf8.RuneCountInString(cell)) + cell)
		}

		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

// shortened cuts the middle out of name if it has more than n runes: callers often differ at the end.
func shortened(name string, n int) string {
	runes := []rune(name)
	if len(runes) <= n {
		return name
	}

	head := n / 2

	return string(runes[:head]) + "…" + string(runes[len(runes)-(n-head-1):])
}

// number writes n with a comma between thousands.
func number(n int64) string {
	s := strconv.FormatInt(n, 10)

	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}

	return s
}

// percent leaves out the sign, which the head of a column stands for.
func percent(n, of int64) string {
	if of == 0 {
		return "-"
	}

	return fmt.Sprintf("%.1f", per100(n, of))
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

// indented moves every line of text to the right.
func indented(text string) string {
	var b strings.Builder

	for line := range strings.Lines(text) {
		b.WriteString("  " + line)
	}

	return b.String()
}
