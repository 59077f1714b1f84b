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

// sections renders each result as a section of the page, by its heading.
func sections(results []result, m machine, rounds int) map[string]string {
	all := make(map[string]string, len(results))

	for _, r := range results {
		if c := &r.contest; c.rounds == 0 || c.rounds > rounds {
			c.rounds = rounds
		}

		var b strings.Builder

		r.render(&b)
		fmt.Fprintf(&b, "\n%s; %s\n", m, count(r.contest.rounds, "round"))
		all[r.contest.title] = b.String()
	}

	return all
}

func (m machine) String() string {
	text := fmt.Sprintf("Measured on %s: %s, %s/%s, %s (%s)", m.date, runtime.Version(), runtime.GOOS, runtime.GOARCH,
		count(m.cpus, "processor"), m.processor)
	if m.load != "" {
		text += fmt.Sprintf(", load average %s before all tables and %s after", m.load, m.loadAfter)
	}

	return text
}

func count(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}

	return fmt.Sprintf("%d %ss", n, of)
}

func (r *result) render(b *strings.Builder) {
	fmt.Fprintf(b, "%s\n\n|", r.contest.about)

	for _, column := range r.contest.columns {
		fmt.Fprintf(b, " | %s", column)
	}

	extra := 0
	if r.contest.allocs {
		b.WriteString(" | allocations")

		extra = 1
	}

	b.WriteString(" |\n|---|")
	b.WriteString(strings.Repeat("---:|", len(r.contest.columns)+extra))
	b.WriteByte('\n')

	for j := range r.rows {
		row := &r.rows[j]

		name := row.entrant.name
		if row.entrant.side == ours {
			name = "**" + name + "**"
		}

		fmt.Fprintf(b, "| %s |", name)

		for i := range r.contest.columns {
			fmt.Fprintf(b, " %.*f |", decimals(row.median(i)), row.median(i))
		}

		if r.contest.allocs {
			fmt.Fprintf(b, " %d |", row.allocs)
		}

		b.WriteByte('\n')
	}

	if r.contest.goal > 0 {
		r.compare(b)
	}
}

// compare says how each of ours stands against the best of the others.
func (r *result) compare(b *strings.Builder) {
	against := r.contest.against
	if against == "" {
		against = "the fastest other"
	}

	fmt.Fprintf(b, "\nIn parts of %s, of which %.3g is the goal:\n\n", against, r.contest.goal)

	for i, column := range r.contest.columns {
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

		_, of, _ := strings.Cut(column, ", ")
		fmt.Fprintf(b, "- %s, %s: %s\n", of, best.entrant.name, strings.Join(parts, "; "))
	}
}

// decimals keeps three digits, as many as repeat.
func decimals(value float64) int {
	switch {
	case value < 3:
		return 2
	case value < 10:
		return 1
	default:
		return 0
	}
}

// page puts new sections in the place of those that the text between the two lines of a page has, in the order of titles.
// Sections that were not measured this time stay, and say themselves when they were.
func page(old string, titles []string, fresh map[string]string) (string, error) {
	head, rest, ok := strings.Cut(old, begin)
	if !ok {
		return "", fmt.Errorf("it has no line %q to write the tables behind", strings.TrimSpace(begin))
	}

	measured, tail, ok := strings.Cut(rest, end)
	if !ok {
		return "", fmt.Errorf("it has no line %q to write the tables before", strings.TrimSpace(end))
	}

	kept := map[string]string{}

	for _, section := range strings.Split(measured, heading)[1:] {
		title, body, _ := strings.Cut(section, "\n")
		kept[title] = strings.Trim(body, "\n") + "\n"
	}

	return head + begin + join(titles, kept, fresh) + end + tail, nil
}

const heading = "\n### "

// join writes the sections in order, the first of all that has one.
func join(titles []string, kept, fresh map[string]string) string {
	var b strings.Builder

	for _, title := range titles {
		body, ok := fresh[title]
		if !ok {
			body, ok = kept[title]
		}

		if ok {
			b.WriteString(heading + title + "\n\n" + body)
		}
	}

	b.WriteByte('\n')

	return b.String()
}

// rewrite brings a page up to date.
func rewrite(path string, titles []string, fresh map[string]string) error {
	old, err := os.ReadFile(path) //nolint:gosec // the page is the user's to name
	if err != nil {
		return err
	}

	text, err := page(string(old), titles, fresh)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}

	return os.WriteFile(path, []byte(text), 0o644) //nolint:gosec // a page that everyone may read
}
