// Package mishap survives bugs of ours: whoever recovers a panic has it counted here, and said in the log now and then, since
// a panic for each request must not become a flood of stacks. What runs in the background is begun again.
//
// Above it are the table, the SDK and the doors, which decide what a request gets that met a bug.
package mishap

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// quiet is how long the log stays silent after a panic.
const quiet = time.Minute

// pause is how long what runs in the background stays down after a panic.
const pause = time.Second

// Log counts panics that were recovered. It is safe for concurrent use.
type Log struct {
	Logger *slog.Logger // nil logs nothing; set before the first use

	count atomic.Int64
	said  atomic.Int64 // when, µs since the Unix epoch
}

// Count returns how many panics there were.
func (l *Log) Count() int64 { return l.count.Load() }

// Note counts a panic that was just recovered, and logs it with its stack unless one was logged within the last minute.
// what says what went on without it, in a few words.
func (l *Log) Note(what string, cause any) {
	count := l.count.Add(1)
	now, last := time.Now().UnixMicro(), l.said.Load()
	if l.Logger == nil || last != 0 && now-last < quiet.Microseconds() && now >= last || !l.said.CompareAndSwap(last, now) {
		return
	}
	// Nothing of the request: it may hold what a rule calls secret.
	l.Logger.Error("recovered a panic; please report it", slog.String("while", what), slog.Any("panic", cause),
		slog.Int64("panics", count), slog.String("stack", string(debug.Stack())))
}

// Guard recovers a panic of do and notes it; it reports whether there was none.
func (l *Log) Guard(what string, do func()) (whole bool) {
	defer func() {
		if p := recover(); p != nil {
			l.Note(what, p)
		}
	}()
	do()
	return true
}

// Keep runs do until it returns or ctx ends. After a panic it is begun again a second later.
func (l *Log) Keep(ctx context.Context, what string, do func(ctx context.Context)) {
	for !l.Guard(what, func() { do(ctx) }) {
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}
