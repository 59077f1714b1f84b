package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// The lines of the page between which the tables stand.
const (
	begin = "<!-- measured: begin, written by make bench -->\n"
	end   = "<!-- measured: end -->\n"
)

// machine is where and when it was measured.
type machine struct {
	processor string
	cpus      int
	load      string // the load average before the first measurement; "" where the system does not say
	loadAfter string // the same after the last
	date      string
}

func thisMachine(now time.Time) machine {
	m := machine{processor: runtime.GOARCH, cpus: runtime.NumCPU(), date: now.UTC().Format(time.DateOnly)}

	// Linux alone has this and the load average; elsewhere the page says less.
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, rest, ok := strings.Cut(string(text), "model name"); ok {
			name, _, _ := strings.Cut(rest, "\n")
			m.processor = strings.Trim(name, "\t :")
		}
	}

	m.load = loadAverage()

	return m
}

func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}

	load, _, _ := strings.Cut(string(text), " ")

	return load
}

// render writes the tables, and above them what they were measured on.
func render(results []result, m machine, rounds int) string {
	var b strings.Builder

	fmt.Fprintf(&b, "\nMeasured on %s by `make bench`: %d rounds, %s, %s/%s, %d processors (%s)", m.date, rounds,
		runtime.Version(), runtime.GOOS, runtime.GOARCH, m.cpus, m.processor)

	if m.load != "" {
		fmt.Fprintf(&b, ", load average %s before the first round and %s after the last", m.load, m.loadAfter)
	}

	b.WriteString(".\n")

	for _, r := range results {
		r.render(&b)
	}

	b.WriteByte('\n')

	return b.String()
}

func (r result) render(b *strings.Builder) {
	fmt.Fprintf(b, "\n### %s\n\n%s\n\n|", r.contest.title, r.contest.about)

	for _, n := range r.contest.cpus {
		fmt.Fprintf(b, " | ns, %s", cpus(n))
	}

	b.WriteString(" | allocations |\n|---|")
	b.WriteString(strings.Repeat("---:|", len(r.contest.cpus)+1))
	b.WriteByte('\n')

	for j := range r.rows {
		row := &r.rows[j]
		name := row.entrant.name
		if row.entrant.side == ours {
			name = "**" + name + "**"
		}

		fmt.Fprintf(b, "| %s |", name)

		for i := range r.contest.cpus {
			fmt.Fprintf(b, " %.*f |", decimals(row.median(i)), row.median(i))
		}

		fmt.Fprintf(b, " %d |\n", row.allocs)
	}

	r.compare(b)
}

// compare says how each of ours stands against the best of the others.
func (r result) compare(b *strings.Builder) {
	for i, n := range r.contest.cpus {
		best, ok := r.best(i)
		if !ok {
			return
		}

		var parts []string

		for j := range r.rows {
			if row := &r.rows[j]; row.entrant.side == ours {
				parts = append(parts, fmt.Sprintf("%s **%.2f**", row.entrant.name, ratio(row, best, i)))
			}
		}

		if i == 0 {
			fmt.Fprintf(b, "\nIn parts of the fastest other, of which %.1f is the goal:\n\n", r.contest.goal)
		}

		fmt.Fprintf(b, "- %s, %s: %s\n", cpus(n), best.entrant.name, strings.Join(parts, "; "))
	}
}

func cpus(n int) string {
	if n == 1 {
		return "1 processor"
	}

	return fmt.Sprintf("%d processors", n)
}

// decimals keeps three digits, as many as repeat.
func decimals(nanos float64) int {
	if nanos < 10 {
		return 1
	}

	return 0
}

// replace puts text between the two lines of the page.
func replace(page, text string) error {
	old, err := os.ReadFile(page) //nolint:gosec // the page is the user's to name
	if err != nil {
		return err
	}

	head, rest, ok := strings.Cut(string(old), begin)
	if !ok {
		return fmt.Errorf("%s has no line %q to write the tables behind", page, strings.TrimSpace(begin))
	}

	_, tail, ok := strings.Cut(rest, end)
	if !ok {
		return fmt.Errorf("%s has no line %q to write the tables before", page, strings.TrimSpace(end))
	}

	return os.WriteFile(page, []byte(head+begin+text+end+tail), 0o644) //nolint:gosec // a page that everyone may read
}
