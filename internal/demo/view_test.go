package demo

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
)

func TestNumbersForPeople(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000"} {
		if got := number(n); got != want {
			t.Errorf("%d is written %s, want %s", n, got, want)
		}
	}

	for micros, want := range map[float64]string{0.4: "0.4 µs", 12.3: "12 µs", 1234: "1.2 ms", 2_500_000: "2.5 s"} {
		if got := short(micros); got != want {
			t.Errorf("%v µs are written %s, want %s", micros, got, want)
		}
	}
}

func TestChildLog(t *testing.T) {
	l := &childLog{ready: make(chan struct{})}

	// In pieces, as a pipe gives it.
	for _, part := range []string{"plain text\n{\"msg\":\"rules read\"}\n{\"level\":\"INFO\",\"msg\":\"liste", "ning\",\"http\":\"127.0.0.1:1\",", "\"grpc\":\"127.0.0.1:2\"}\nlast"} {
		if _, err := io.WriteString(l, part); err != nil {
			t.Fatal(err)
		}
	}

	select {
	case <-l.ready:
	default:
		t.Fatal("it serves, and that was not noticed")
	}

	if l.addresses["http"] != "127.0.0.1:1" || l.addresses["grpc"] != "127.0.0.1:2" || !strings.HasSuffix(l.lastWords(), "\nlast") {
		t.Errorf("addresses %v, last words %q", l.addresses, l.lastWords())
	}

	// Whatever it writes, little of it is kept.
	if _, err := io.WriteString(l, strings.Repeat("x", 1<<20)+strings.Repeat("\n", 100)); err != nil || len(l.lastWords()) > 2*keptLines*longLine {
		t.Errorf("%v, %d bytes kept", err, len(l.lastWords()))
	}
}

// shownTwice is a model that saw ada admitted 100 times on two servers and denied 40 times within a second.
func shownTwice(t *testing.T) *model {
	t.Helper()

	l := newLive([]caller{{key: "ada", limit: 100, bucket: bucket(t, 100, 100)}, {key: "bob", limit: 50, bucket: bucket(t, 50, 50)}}, time.Minute)
	m := &model{terminal: NewTerminal(nil, io.Discard), live: l, width: 80, snapshots: []snapshot{l.snapshot()}}

	for i := range 140 {
		e := event{status: 200, server: uint8(i % 2), nanos: 3000}
		if i >= 100 {
			e.status = 429
		}

		l.count(e)
	}

	l.enter(Outage, true)

	to := l.snapshot()
	to.at = m.snapshots[0].at.Add(time.Second)
	m.snapshots = append(m.snapshots, to)

	return m
}

func TestViewShowsRates(t *testing.T) {
	m := shownTwice(t)
	m.terminal.show(true)
	m.terminal.Say("something happened that takes more than the width of one line of the terminal to tell")

	text := m.View().Content
	for _, want := range []string{
		"outage, " + red + "coordinator KILLED", "140 requests/s", "p50 3.0 µs",
		"ada         100     50     50      0    100        40  " + strings.Repeat("█", 12),
		"bob          50      0      0      0      0         0  " + strings.Repeat("░", 12),
		"something happened that takes more than the width of one line of the terminal to\n  tell",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the view does not show %q:\n%s", want, text)
		}
	}

	for line := range strings.SplitSeq(text, "\n") {
		if n := utf8.RuneCountInString(strings.NewReplacer(bold, "", red, "", plain, "").Replace(line)); n > m.width {
			t.Errorf("%d columns on a terminal of %d: %s", n, m.width, line)
		}
	}

	m.height = 5
	if lines := strings.Split(m.View().Content, "\n"); len(lines) >= m.height {
		t.Errorf("%d lines on a terminal of %d", len(lines), m.height)
	}
}

// The newest is what must be seen.
func TestViewKeepsTheNewestOnASmallTerminal(t *testing.T) {
	m := shownTwice(t)
	m.terminal.show(true)
	m.terminal.Say("the first")
	m.terminal.Say("the second")

	m.height = strings.Count(m.View().Content, "\n") + 1

	if text := m.View().Content; strings.Contains(text, "the first") || !strings.Contains(text, "the second") {
		t.Errorf("on a terminal with a line too few:\n%s", text)
	}
}

// A burst is within the limit, and must not look as if it were not.
func TestABurstIsCalledSo(t *testing.T) {
	m := shownTwice(t)
	m.live.callers[0].limit = 80

	for _, text := range []string{m.View().Content, m.live.line(m.snapshots[0], m.snapshots[1])} {
		if !strings.Contains(text, "█  burst") && !strings.Contains(text, "ada 100/s (80 and a burst)") {
			t.Errorf("100/s of 80/s are not explained:\n%s", text)
		}
	}
}

func TestTablesFitTheirWidth(t *testing.T) {
	r := staged(t, func(*stage) {})
	r.Phases[0].Callers[0].Caller = "2001:db8:1234:5678::/64"
	r.Phases[0].Callers[0].Demand = 1_234_567

	for _, width := range []int{narrowest, UsualWidth, widest} {
		var text strings.Builder

		r.Write(&text, width)

		for line := range strings.SplitSeq(text.String(), "\n") {
			if n := utf8.RuneCountInString(line); n > width {
				t.Errorf("%d columns of %d: %s", n, width, line)
			}
		}
	}

	if got := shortened("2001:db8:1234:5678::/64", 12); got != "2001:d…::/64" {
		t.Errorf("shortened to %q", got)
	}
}

func TestPlainLineShowsRates(t *testing.T) {
	m := shownTwice(t)

	line := m.live.line(m.snapshots[0], m.snapshots[1])
	for _, want := range []string{"outage", "140 requests/s; ada 100 of 100/s, bob 0 of 50/s", "p99 3.0 µs"} {
		if !strings.Contains(line, want) {
			t.Errorf("%q does not say %q", line, want)
		}
	}
}

func TestPlainFollowsUntilTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder

		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()

		if err := NewPlain(&text).Follow(ctx, newLive([]caller{{key: "ada"}}, time.Minute)); err != nil {
			t.Fatal(err)
		}

		if n := strings.Count(text.String(), "\n"); n != 3 {
			t.Errorf("%d lines in 10 s, want 3:\n%s", n, text.String())
		}
	})
}

func TestKeysStopTheView(t *testing.T) {
	for key, want := range map[tea.KeyPressMsg]error{
		{Code: 'q', Text: "q"}: ErrStopped, {Code: 'c', Mod: tea.ModCtrl}: ErrInterrupted, {Code: 'x', Text: "x"}: nil,
	} {
		m := shownTwice(t)
		if _, cmd := m.Update(key); !errors.Is(m.stopped, want) || (cmd != nil) != (want != nil) {
			t.Errorf("%v: %v, want %v", key, m.stopped, want)
		}
	}
}

// The whole view, over a pipe: q is a stop, the end of the demo is none.
func TestTerminalFollows(t *testing.T) {
	for _, stops := range []bool{true, false} {
		keys, typed := io.Pipe()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		terminal := NewTerminal(keys, io.Discard)
		done := make(chan error, 1)

		go func() { done <- terminal.Follow(ctx, newLive([]caller{{key: "ada", limit: 1}}, time.Minute)) }()

		if stops {
			_, _ = io.WriteString(typed, "q")
		} else {
			cancel()
		}

		err := <-done
		cancel()

		_ = typed.Close()

		if errors.Is(err, ErrStopped) != stops {
			t.Errorf("q typed: %v, and it returned %v", stops, err)
		}
	}
}
