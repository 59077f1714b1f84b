package demo

import "time"

// The plan: when the coordinator is killed and when it is started again, as parts of the whole.
const (
	killAt    = 0.4
	restartAt = 0.6
	burstAt   = 0.25 // of each phase: when the payroll run begins
)

// part returns that part of d.
func part(d time.Duration, p float64) time.Duration { return time.Duration(float64(d) * p) }

// inBurst reports whether the payroll run is on at t of a demo that takes whole.
func inBurst(whole, t time.Duration) bool {
	from, to := time.Duration(0), part(whole, killAt)

	switch {
	case t >= part(whole, restartAt):
		from, to = part(whole, restartAt), whole
	case t >= to:
		from, to = to, part(whole, restartAt)
	}

	return t >= from+part(to-from, burstAt)
}

// marks are instants in µs since the Unix epoch; 0 if it did not come to that. When the counts are in Redis, kill is that of
// a master, up that of one of the coordinators, and recovered two lease TTLs after it.
type marks struct {
	start     int64 // the first request may be sent
	kill      int64 // SIGKILL is sent to the coordinator
	killed    int64 // it is gone, and what the servers had in hand is known
	healed    int64 // with Redis: all keys are leased again
	up        int64 // it serves again
	recovered int64 // every server has heard of it, and two lease TTLs are over
	end       int64 // the last request was answered
}

// Phase is a stretch of the demo that is reported by itself.
type Phase string

// The phases, in order.
const (
	Before   Phase = "before"   // the coordinator runs
	Outage   Phase = "outage"   // it is killed
	Recovery Phase = "recovery" // it runs again, and the servers find out
	After    Phase = "after"    // as before
)

// The phases when the counts are in Redis, between Before and After.
const (
	Failover Phase = "failover" // a master is killed, and its replica takes over
	Switch   Phase = "switch"   // one of three coordinators is killed
)

// span is the stretch of time from (inclusive) to (exclusive), µs since the Unix epoch.
type span struct {
	phase    Phase
	from, to int64
}

// judgedFrom is how long a phase must last to be judged if it was cut short, s: in less, the start is most of what is seen, and who
// stops a demo early wants no verdict.
const judgedFrom = strictFrom

// spans returns the phases that came to be, in order.
func (m marks) spans(redis bool) []span {
	second, third := Outage, Recovery
	if redis {
		second, third = Failover, Switch
	}

	var all []span

	at := m.start

	for _, p := range []struct {
		phase Phase
		to    int64
	}{{Before, m.kill}, {second, m.up}, {third, m.recovered}, {After, m.end}} {
		to := p.to
		if to == 0 {
			to = m.end // it was stopped in this phase
		}

		to = max(to, at) // or before its first request was due

		all = append(all, span{p.phase, at, to})
		at = to

		if p.to == 0 {
			break
		}
	}

	return all
}

// seconds returns the length of s.
func (s span) seconds() float64 { return float64(s.to-s.from) / 1e6 }

// out returns how long a master was missing, µs: until all keys were leased again, or the end if that is not known.
func (m marks) out() int64 {
	for _, until := range []int64{m.healed, m.up, m.end} {
		if until != 0 {
			return until - m.kill
		}
	}

	return 0
}
