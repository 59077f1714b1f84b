package leasewayhttp

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// meter is a Limiter that is to be told how busy its process is, for the worker shedder.
type meter interface {
	Measures() bool
	Begin(waited time.Duration)
	End()
}

// serve calls the next handler, and tells the limiter for how long that takes if it wants to know. A worker is free again
// when its handler returns, be it by a panic.
func (m *Middleware) serve(next http.Handler, w http.ResponseWriter, r *http.Request) {
	if m.meter != nil && m.meter.Measures() {
		m.meter.Begin(m.waited(r, time.Now()))
		defer m.meter.End()
	}
	next.ServeHTTP(w, r)
}

// fieldStart is in which proxies say when a request came to them.
const fieldStart = "X-Request-Start"

// maxWait bounds what is believed of a wait: more is a clock that goes wrong, or a field that means something else.
const maxWait = time.Hour

// waited is how long a request waited before it came here, by what a trusted proxy says of its beginning; 0 when that is not
// known. There are three ways to write it: t= and seconds (nginx's $msec), milliseconds, or t= and microseconds.
func (m *Middleware) waited(r *http.Request, now time.Time) time.Duration {
	text := first(r.Header, fieldStart)
	if text == "" {
		return 0
	}
	if peer, ok := parseHop(r.RemoteAddr); !ok || !isTrusted(m.config.trusted, peer) {
		return 0
	}
	number, err := strconv.ParseFloat(strings.TrimPrefix(text, "t="), 64)
	if err != nil {
		return 0
	}
	// In this century seconds have 10 digits, milliseconds 13 and microseconds 16.
	switch {
	case number > 1e14:
		number /= 1e6
	case number > 1e11:
		number /= 1e3
	}
	wait := float64(now.UnixMicro())/1e6 - number
	if !(wait > 0 && wait < maxWait.Seconds()) {
		return 0
	}
	return time.Duration(wait * float64(time.Second))
}
