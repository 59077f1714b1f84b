package demo

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"time"
)

const (
	plainEvery = 3 * time.Second
	plainNames = 3
)

// Plain is a Watcher for what is no terminal: a line for what happens, and one every few seconds.
type Plain struct {
	mu sync.Mutex
	w  io.Writer
}

// NewPlain returns a Watcher that writes to w.
func NewPlain(w io.Writer) *Plain { return &Plain{w: w} }

// Say writes line.
func (p *Plain) Say(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()

	for _, part := range wrapped(line, UsualWidth) {
		fmt.Fprintln(p.w, part)
	}
}

// Follow writes a line every few seconds.
func (p *Plain) Follow(ctx context.Context, l *Live) error {
	tick := time.NewTicker(plainEvery)
	defer tick.Stop()

	last := l.snapshot()

	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}

		now := l.snapshot()
		p.Say(l.line(last, now))
		last = now
	}
}

// ofLimit sets an admitted rate beside the limit. It may be above it for a moment, out of what was saved up: the burst.
func ofLimit(got, limit float64) string {
	if above(got, limit) {
		return fmt.Sprintf("%.0f/s (%g and a burst)", got, limit)
	}

	return fmt.Sprintf("%.0f of %g/s", got, limit)
}

// above reports whether got, as it is shown, is more than limit.
func above(got, limit float64) bool { return math.Round(got) > limit }

// line says what went on between two snapshots.
func (l *Live) line(from, to snapshot) string {
	seconds := to.at.Sub(from.at).Seconds()

	var b strings.Builder

	fmt.Fprintf(&b, "%.0f s, %s: %.0f requests/s;", to.elapsed.Seconds(), to.phase, float64(to.sent-from.sent)/seconds)

	for _, i := range l.busiest(from, to, plainNames) {
		got := float64(to.counts[i].all()-from.counts[i].all()) / seconds
		fmt.Fprintf(&b, " %s %s,", l.callers[i].key, ofLimit(got, l.callers[i].limit))
	}

	fmt.Fprintf(&b, " %.1f calls per 100; p99 %s", per100(to.calls-from.calls, to.sent-from.sent), short(micros(to.p99)))

	if to.failed > 0 {
		fmt.Fprintf(&b, "; %d FAILED", to.failed)
	}

	return b.String()
}
