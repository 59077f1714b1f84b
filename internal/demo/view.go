package demo

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
)

const (
	viewEvery = 200 * time.Millisecond
	viewOver  = 5  // refreshes that a rate is taken over
	viewRows  = 10 // callers
	viewLines = 5  // sentences of what was said
	barMost   = 20 // columns
	barLeast  = 4  // in less there is none
)

// Terminal is a Watcher for a terminal: a view that is drawn anew a few times a second. Ctrl-C and q stop the demo.
type Terminal struct {
	in  io.Reader
	out io.Writer

	mu     sync.Mutex
	on     bool
	said   []string
	unseen []string // said while the view was on
}

// NewTerminal returns a Watcher that reads keys from in and draws to out, which are both a terminal.
func NewTerminal(in io.Reader, out io.Writer) *Terminal { return &Terminal{in: in, out: out} }

// Say writes line, in the view once there is one.
func (t *Terminal) Say(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()

	if !t.on {
		for _, part := range wrapped(line, UsualWidth) {
			fmt.Fprintln(t.out, part)
		}

		return
	}

	t.said = append(t.said, line)
	t.unseen = append(t.unseen, line)
}

func (t *Terminal) show(on bool) {
	t.mu.Lock()
	defer t.mu.Unlock()

	t.on = on

	if !on {
		// The view is gone; what happened stays above the results.
		for _, line := range t.unseen {
			for _, part := range wrapped(line, UsualWidth) {
				fmt.Fprintln(t.out, part)
			}
		}

		t.unseen = nil
	}
}

func (t *Terminal) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()

	return append([]string(nil), t.said[max(0, len(t.said)-viewLines):]...)
}

// Follow draws until ctx ends.
func (t *Terminal) Follow(ctx context.Context, l *Live) error {
	t.show(true)
	defer t.show(false)

	program := tea.NewProgram(&model{terminal: t, live: l, width: UsualWidth},
		tea.WithInput(t.in), tea.WithOutput(t.out), tea.WithoutSignalHandler())

	stop := context.AfterFunc(ctx, program.Quit)
	defer stop()

	last, err := program.Run()
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("draw on the terminal: %w (with output to a file or a pipe it is plain text)", err)
	}

	m, ok := last.(*model)
	if !ok {
		return nil
	}

	return m.stopped
}

// model is the state of the view, as bubbletea wants it.
type model struct {
	terminal      *Terminal
	live          *Live
	width, height int
	snapshots     []snapshot // the last few, the oldest first
	stopped       error      // by which key
}

type tick time.Time

func nextTick() tea.Cmd { return tea.Tick(viewEvery, func(t time.Time) tea.Msg { return tick(t) }) }

// Init starts the refreshes.
func (m *model) Init() tea.Cmd {
	m.snapshots = []snapshot{m.live.snapshot()}

	return nextTick()
}

// Update takes in a key, a size or a tick.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.KeyPressMsg:
		switch msg.String() {
		case "q":
			m.stopped = ErrStopped
		case "ctrl+c":
			m.stopped = ErrInterrupted
		default:
			return m, nil
		}

		return m, tea.Quit
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tick:
		m.snapshots = append(m.snapshots, m.live.snapshot())
		m.snapshots = m.snapshots[max(0, len(m.snapshots)-viewOver-1):]

		return m, nextTick()
	}

	return m, nil
}

// View draws the state. It has a screen of its own, so that the results stand alone afterwards.
func (m *model) View() tea.View {
	v := tea.NewView(m.text())
	v.AltScreen = true

	return v
}

const (
	bold  = "\x1b[1m"
	red   = "\x1b[31;1m"
	plain = "\x1b[0m"
)

func (m *model) text() string {
	from, to := m.snapshots[0], m.snapshots[len(m.snapshots)-1]
	seconds := max(to.at.Sub(from.at).Seconds(), viewEvery.Seconds())

	up, down := "coordinator up", "coordinator KILLED"
	if m.live.redis {
		up, down = "Redis up", "a Redis master KILLED"
	}

	state := up
	if to.down {
		state = red + down + plain
	}

	left := max(0, m.live.whole-to.elapsed)
	lines := []string{
		bold + "Leaseway: three API servers share their callers' limits" + plain,
		fmt.Sprintf("%s, %s; %.0f s left; q stops", to.phase, state, left.Seconds()),
	}
	lines = append(lines, wrapped(fmt.Sprintf("%.0f requests/s, %.1f calls per 100; decisions: p50 %s, p99 %s",
		float64(to.sent-from.sent)/seconds, per100(to.calls-from.calls, to.sent-from.sent),
		short(micros(to.p50)), short(micros(to.p99))), m.width)...)

	if to.failed > 0 {
		lines = append(lines, fmt.Sprintf("%s%d requests failed%s", red, to.failed, plain))
	}

	lines = append(lines, "")
	lines = append(lines, m.table(from, to, seconds)...)
	lines = append(lines, "")
	lines = append(lines, wrapped("calls: to the coordinator, per 100 requests. Admitted/s by each server and by "+
		"all. burst: more than the limit for a moment, out of what the caller had saved up", m.width)...)
	lines = append(lines, "")

	var said []string
	for _, text := range m.terminal.lines() {
		said = append(said, wrapped(text, m.width)...)
	}

	if m.height > 0 {
		lines = lines[:min(len(lines), m.height-1)]
		said = said[max(0, len(said)-(m.height-1-len(lines))):] // the newest
	}

	return strings.Join(append(lines, said...), "\n")
}

// table has a row for each of the busiest callers.
func (m *model) table(from, to snapshot, seconds float64) []string {
	rows := make([][]string, 0, viewRows+1)
	rows = append(rows, []string{"caller", "limit/s", apiName(0), apiName(1), apiName(2), "all/s", "denied/s"})
	rates := make([]float64, 1, viewRows+1) // admitted/s by all
	limits := make([]float64, 1, viewRows+1)
	perSecond := func(n int64) string { return fmt.Sprintf("%.0f", float64(n)/seconds) }

	for _, i := range m.live.busiest(snapshot{counts: make([]count, len(to.counts))}, to, viewRows) {
		c, was, now := m.live.callers[i], from.counts[i], to.counts[i]
		all := now.all() - was.all()
		rows = append(rows, []string{
			c.key, fmt.Sprintf("%g", c.limit),
			perSecond(now.admitted[0] - was.admitted[0]),
			perSecond(now.admitted[1] - was.admitted[1]),
			perSecond(now.admitted[2] - was.admitted[2]),
			perSecond(all), perSecond(now.denied - was.denied),
		})
		rates, limits = append(rates, float64(all)/seconds), append(limits, c.limit)
	}

	var b strings.Builder

	if m.width < narrowest {
		withoutServers(rows, 2)
	}

	writeRows(&b, rows, m.width)

	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")

	const burst = "  burst"

	width := min(barMost, m.width-len("  ")-len(burst)-utf8.RuneCountInString(lines[0]))
	for i := 1; i < len(lines) && width >= barLeast; i++ {
		lines[i] += "  " + bar(rates[i]/limits[i], width)

		if above(rates[i], limits[i]) {
			lines[i] += burst
		}
	}

	return lines
}

// bar draws a part of one.
func bar(part float64, width int) string {
	full := min(width, int(part*float64(width)+0.5))

	return strings.Repeat("█", full) + strings.Repeat("░", width-full)
}

// wrapped breaks text into lines of at most width, between words.
func wrapped(text string, width int) []string {
	var lines []string

	line := ""

	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
			lines = append(lines, line)
			line = "  " + word
		default:
			line += " " + word
		}
	}

	return append(lines, line)
}
