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
	viewEvery  = 200 * time.Millisecond
	viewOver   = 5  // refreshes that a rate is taken over
	viewRows   = 10 // callers
	viewLines  = 5  // of what was said
	barWidth   = 20
	usualWidth = 100 // of a terminal that does not say
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
		fmt.Fprintln(t.out, line)

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
			fmt.Fprintln(t.out, line)
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

	program := tea.NewProgram(&model{terminal: t, live: l, width: usualWidth},
		tea.WithInput(t.in), tea.WithOutput(t.out), tea.WithoutSignalHandler())

	stop := context.AfterFunc(ctx, program.Quit)
	defer stop()

	last, err := program.Run()
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("draw on the terminal: %w (with output to a file or a pipe it is plain text)", err)
	}

	if m, ok := last.(*model); ok && m.quit {
		return ErrStopped
	}

	return nil
}

// model is the state of the view, as bubbletea wants it.
type model struct {
	terminal      *Terminal
	live          *Live
	width, height int
	snapshots     []snapshot // the last few, the oldest first
	quit          bool
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
		if key := msg.String(); key == "q" || key == "ctrl+c" {
			m.quit = true

			return m, tea.Quit
		}
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

	state := "coordinator up"
	if to.down {
		state = red + "coordinator KILLED" + plain
	}

	left := max(0, m.live.whole-to.elapsed)
	lines := []string{
		bold + "Leaseway: three API servers share their callers' limits" + plain,
		fmt.Sprintf("%s, %s; %.0f s left. %.0f requests/s, %.1f calls to the coordinator per 100. Decisions: p50 %s, p99 %s.",
			to.phase, state, left.Seconds(), float64(to.sent-from.sent)/seconds,
			per100(to.calls-from.calls, to.sent-from.sent), short(micros(to.p50)), short(micros(to.p99))),
	}

	if to.failed > 0 {
		lines = append(lines, fmt.Sprintf("%s%d requests failed%s", red, to.failed, plain))
	}

	lines = append(lines, "")
	lines = append(lines, m.table(from, to, seconds)...)
	lines = append(lines, "", "admitted/s by each server and by all; the bar is full where a caller gets its limit. q stops.", "")

	for _, said := range m.terminal.lines() {
		lines = append(lines, wrapped(said, m.width)...)
	}

	if m.height > 0 {
		lines = lines[:min(len(lines), m.height-1)]
	}

	return strings.Join(lines, "\n")
}

// table has a row for each of the busiest callers.
func (m *model) table(from, to snapshot, seconds float64) []string {
	rows := make([][]string, 0, viewRows+1)
	rows = append(rows, []string{"caller", "limit/s", apiName(0), apiName(1), apiName(2), "all/s", "denied/s", ""})
	perSecond := func(n int64) string { return fmt.Sprintf("%.0f", float64(n)/seconds) }

	for _, i := range m.live.busiest(snapshot{counts: make([]count, len(to.counts))}, to, viewRows) {
		c, was, now := m.live.callers[i], from.counts[i], to.counts[i]
		all := now.all() - was.all()
		rows = append(rows, []string{
			c.key, fmt.Sprintf("%g", c.limit),
			perSecond(now.admitted[0] - was.admitted[0]),
			perSecond(now.admitted[1] - was.admitted[1]),
			perSecond(now.admitted[2] - was.admitted[2]),
			perSecond(all), perSecond(now.denied - was.denied), bar(float64(all) / seconds / c.limit),
		})
	}

	var b strings.Builder

	writeRows(&b, rows)

	return strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
}

// bar draws a part of one.
func bar(part float64) string {
	full := min(barWidth, int(part*barWidth+0.5))

	return strings.Repeat("█", full) + strings.Repeat("░", barWidth-full)
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
