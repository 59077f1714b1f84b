package demo

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

const (
	plainEvery = 3 * time.Second
	plainNames = 4
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

	fmt.Fprintln(p.w, line)
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

// line says what went on between two snapshots.
func (l *Live) line(from, to snapshot) string {
	seconds := to.at.Sub(from.at).Seconds()

	var b strings.Builder

	fmt.Fprintf(&b, "%5.1f s  %-8s  %5.0f requests/s;", to.elapsed.Seconds(), to.phase, float64(to.sent-from.sent)/seconds)

	for _, i := range l.busiest(from, to, plainNames) {
		got := float64(to.counts[i].all()-from.counts[i].all()) / seconds
		fmt.Fprintf(&b, " %s %.0f of %g/s,", l.callers[i].key, got, l.callers[i].limit)
	}

	fmt.Fprintf(&b, " %.1f calls per 100; decisions p50 %s, p99 %s", per100(to.calls-from.calls, to.sent-from.sent),
		short(micros(to.p50)), short(micros(to.p99)))

	if to.failed > 0 {
		fmt.Fprintf(&b, "; %d FAILED", to.failed)
	}

	return b.String()
}
