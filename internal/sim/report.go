package sim

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"
)

// Report is what came of several runs.
type Report struct {
	Seed    uint64    `json:"seed"`
	Millis  int64     `json:"wallMs"`
	Results []*Result `json:"results"`
	Picture []byte    `json:"-"` // SVG, if one was to be drawn
}

// Missed returns how many results miss a bar.
func (r *Report) Missed() (n int) {
	for _, one := range r.Results {
		if len(one.Misses) > 0 {
			n++
		}
	}

	return n
}

// JSON writes the report as JSON. The error is the writer's.
func (r *Report) JSON(w io.Writer) error {
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")

	return out.Encode(r)
}

// Text writes the report as a table, and below it what was missed. The error is the writer's.
func (r *Report) Text(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)

	fmt.Fprintln(t, "load\talgorithm\trequests\tover\tadmitted\tasks\tcalls\twaited\tp99\tunfair\tstranded\tlocal\t\t")

	for _, one := range r.Results {
		one.row(t)
	}

	if err := t.Flush(); err != nil {
		return err
	}

	for _, one := range r.Results {
		for _, m := range one.Misses {
			fmt.Fprintf(w, "MISS %s, %s: %v\n", one.Load, one.Algorithm, m)
		}
	}

	_, err := fmt.Fprintf(w, "%d of %d runs miss a bar; seed %d, %.1f s\n", r.Missed(), len(r.Results), r.Seed, float64(r.Millis)/1000)

	return err
}

// row writes one result as a line of the table.
func (r *Result) row(w io.Writer) {
	verdict := "ok"
	if len(r.Misses) > 0 {
		verdict = "MISS"
	}

	over := strconv.FormatInt(r.Overshoot, 10)
	if r.Allowed > 0 {
		over += fmt.Sprintf("/%d", r.Allowed)
	}

	fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%.4f\t%.4f\t%.4f\t%.2f%%\t%v\t%.1f%%\t%d\t%d\t%s\t\n",
		r.Load, r.Algorithm, r.Requests, over, r.Admitted, r.Asks, r.Messages, 100*r.Waited,
		(time.Duration(r.P99) * time.Microsecond).Round(10*time.Microsecond), r.Unfair, r.Stranded, r.Local, verdict)
}
