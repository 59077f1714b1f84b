package server

import (
	"net/http"
	"sync/atomic"
	"time"
)

// readiness says whether the server should be sent requests, and what its
// answers lack. It is asked, never told, but for draining.
type readiness struct {
	draining atomic.Bool
	rules    func() bool   // there are rules to decide by; nil: always
	degraded func() bool   // no coordinator answers; nil: never
	store    func() string // what is wrong with the store; "" for nothing
	feed     func() string // what is worse about where the rules come from; "" for nothing, nil: never
}

// reasons are why the server is not ready, none when it is, and what is worse than it should be though it is.
func (r *readiness) reasons() (not, worse []string) {
	if r.draining.Load() {
		not = append(not, "draining: the server is stopping")
	}

	if r.rules != nil && !r.rules() {
		not = append(not, "no coordinator has sent any rules yet: everything is allowed until one does")
	}

	if fault := r.store(); fault != "" {
		not = append(not, "store unavailable: "+fault)
	}

	if r.degraded != nil && r.degraded() && len(not) == 0 {
		worse = append(worse, "no coordinator answers: decisions follow each rule's onUnavailable")
	}

	if r.feed != nil {
		if fault := r.feed(); fault != "" {
			worse = append(worse, fault)
		}
	}

	return not, worse
}

// serveReady is GET /readyz: 200, or 503 with the reasons. A server that decides
// without its coordinator is ready, and says that it is degraded.
func (r *readiness) serveReady(w http.ResponseWriter, _ *http.Request) {
	not, worse := r.reasons()
	answer := struct {
		Ready    bool     `json:"ready"`
		Reasons  []string `json:"reasons"`
		Degraded []string `json:"degraded"`
	}{Ready: len(not) == 0, Reasons: append([]string{}, not...), Degraded: append([]string{}, worse...)}

	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")

	if !answer.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}

	writeJSON(w, answer)
}

// serveHealth is GET /healthz: the process lives. A restart would not mend anything that readiness complains of.
func serveHealth(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("ok\n"))
}

// storeWatch tells from the coordinator's counts whether the store answers: it does not when asks went unanswered and none
// was answered since. It forgets after a while without asks, so that a store is not held broken for want of traffic. Where nobody
// asks, the note of who lives tells, which the store gets every few seconds.
type storeWatch struct {
	counts func() (answered, unanswered int64, unbeaten bool)

	last atomic.Pointer[storeCounts]
}

type storeCounts struct {
	answered, unanswered int64
	broken               bool
	at                   time.Time
}

// forgetAfter is how long a store without asks stays as it was last seen.
const forgetAfter = 10 * time.Second

// fault is what is wrong at now; "" for nothing.
func (s *storeWatch) fault(now time.Time) string {
	answered, unanswered, unbeaten := s.counts()
	next := storeCounts{answered: answered, unanswered: unanswered, at: now}

	if last := s.last.Load(); last != nil {
		next.broken = last.broken
		unbeaten = unbeaten && next.answered == last.answered // or else it is a part of the store

		switch {
		case next.answered > last.answered:
			next.broken = false
		case next.unanswered > last.unanswered:
			next.broken = true
		case now.Sub(last.at) > forgetAfter:
			next.broken = false
		default:
			next.at = last.at
		}
	}

	s.last.Store(&next)

	if next.broken {
		return "the coordinator's last asks were not answered"
	}

	if unbeaten {
		return "it did not take the coordinator's last note of who lives"
	}

	return ""
}
