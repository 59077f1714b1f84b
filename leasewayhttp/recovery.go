package leasewayhttp

import (
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// logEvery is how long the log stays quiet after a panic: a panic for each request must not become a flood of stacks.
const logEvery = time.Minute

// recovery counts the panics on the way to a decision, and logs one now and then.
type recovery struct {
	logger *slog.Logger // nil logs nothing
	count  atomic.Int64
	logged atomic.Int64 // when, in µs since the Unix epoch
}

// recover must be deferred itself, since only a deferred function can stop a panic.
func (p *recovery) recover(r *http.Request) {
	cause := recover()
	if cause == nil {
		return
	}
	count := p.count.Add(1)
	now, last := time.Now().UnixMicro(), p.logged.Load()
	if p.logger == nil || last != 0 && now-last < logEvery.Microseconds() || !p.logged.CompareAndSwap(last, now) {
		return
	}
	// Neither path nor header fields: they may hold what a rule calls secret.
	p.logger.ErrorContext(r.Context(), "leasewayhttp: recovered a panic while deciding a request, which was served",
		slog.Any("panic", cause), slog.Int64("panics", count), slog.String("stack", string(debug.Stack())))
}
