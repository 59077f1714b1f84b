package rule

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Switch is a kill switch. The zero Switch is on: what it is for decides as ever.
type Switch struct {
	// Off says that what the switch is for decides nothing: requests pass it, and are charged nothing.
	Off bool
	// Until is when it is on again by itself, whoever forgets it; zero for never. Each holder goes by its own clock.
	Until time.Time
	// Reason is for people.
	Reason string
}

// OffAt says whether the switch is off at a moment.
func (s Switch) OffAt(now time.Time) bool { return s.Off && (s.Until.IsZero() || now.Before(s.Until)) }

// String is "on", or "off" with the end and the reason.
func (s Switch) String() string {
	if !s.Off {
		return "on"
	}
	text := "off"
	if !s.Until.IsZero() {
		text += " until " + s.Until.Format(time.RFC3339)
	}
	if s.Reason != "" {
		text += ": " + s.Reason
	}
	return text
}

// longer is the one of two switches that is off for longer.
func (s Switch) longer(than Switch) Switch {
	switch {
	case !s.Off, than.Off && than.Until.IsZero():
		return than
	case !than.Off, s.Until.IsZero(), s.Until.After(than.Until):
		return s
	}
	return than
}

// Limiter is a kind of limiter, all of which one switch turns off.
type Limiter uint8

const (
	// LimiterRate is every rule but those of concurrency.
	LimiterRate Limiter = iota
	// LimiterConcurrency is every rule that limits what is in flight.
	LimiterConcurrency
	// LimiterFleet is the fleet shedder.
	LimiterFleet
	// LimiterWorker is the worker shedder.
	LimiterWorker
	limiters
)

// String is the kind as the document writes it.
func (l Limiter) String() string { return word(limiterWords(), int(l)) }

func limiterWords() []string { return []string{"rate", "concurrency", "fleet", "worker"} }

// Limiter is the kind that the rule is of.
func (r *Rule) Limiter() Limiter {
	if r.Algorithm.String() == LimiterConcurrency.String() {
		return LimiterConcurrency
	}
	return LimiterRate
}

// Switches are the kill switches of a document, or of a process.
type Switches struct {
	// All is for everything that Leaseway decides.
	All Switch
	// Limiters are for kinds of limiters.
	Limiters [limiters]Switch
	// Rules are for single rules, by id.
	Rules map[string]Switch
}

// OfRule is the switch that is off for longest of those that a rule goes by.
func (s *Switches) OfRule(r *Rule) Switch {
	return s.Rules[r.ID].longer(s.OfLimiter(r.Limiter()))
}

// OfLimiter is the switch that is off for longer of those that a kind of limiter goes by.
func (s *Switches) OfLimiter(kind Limiter) Switch { return s.Limiters[kind].longer(s.All) }

// With has every switch of s and of other; where both are off, for the longer of the two times.
func (s *Switches) With(other *Switches) Switches {
	both := Switches{All: s.All.longer(other.All), Rules: maps.Clone(s.Rules)}
	for kind := range both.Limiters {
		both.Limiters[kind] = s.Limiters[kind].longer(other.Limiters[kind])
	}
	for id, own := range other.Rules {
		if both.Rules == nil {
			both.Rules = make(map[string]Switch, len(other.Rules))
		}
		both.Rules[id] = own.longer(both.Rules[id])
	}
	return both
}

// KillError is what ParseSwitches says of a text that names nothing to switch off.
type KillError struct{ Text string }

// Error says what may be written instead; of an id alone, how the rule of that id is written.
func (e *KillError) Error() string {
	id := "ID"
	if isID(e.Text) && nearest(e.Text, []string{"all", "rule", "limiter"}) == "" {
		id = e.Text
	}
	return fmt.Sprintf("%q is nothing that can be switched off: write all, rule:%s, or limiter: and one of %s",
		e.Text, id, strings.Join(limiterWords(), ", "))
}

// isID says whether text could be the id of a rule.
func isID(text string) bool {
	return text != "" && len(text) <= maxID && strings.Trim(text, idBytes) == ""
}

// ParseSwitches reads what is to be off: any of "all", "rule:ID" and "limiter:KIND", as flags and the environment say it. The
// error is a *KillError.
func ParseSwitches(off ...string) (Switches, error) {
	var s Switches
	for _, text := range off {
		text = strings.TrimSpace(text)
		id, isRule := strings.CutPrefix(text, "rule:")
		kind, isKind := strings.CutPrefix(text, "limiter:")
		at := slices.Index(limiterWords(), kind)
		switch {
		case text == "all":
			s.All.Off = true
		case isRule && isID(id):
			if s.Rules == nil {
				s.Rules = make(map[string]Switch)
			}
			s.Rules[id] = Switch{Off: true}
		case isKind && at >= 0:
			s.Limiters[at].Off = true
		default:
			return Switches{}, &KillError{Text: shorten(text)}
		}
	}
	return s, nil
}
