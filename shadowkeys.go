package leaseway

import (
	"slices"
	"sync"

	"github.com/leaseway/leaseway/internal/heavy"
	"github.com/leaseway/leaseway/rule"
)

// ShadowKey is somebody whom a rule or a shedder in shadow mode would have refused.
type ShadowKey struct {
	Rule    string       // "" for a shedder
	Shedder rule.Limiter // LimiterWorker or LimiterFleet, where Rule is ""
	// Key is whose budget the rule would have found used up; of a shedder, the caller's API key, user or address. API keys, and the
	// keys of rules that say secret, are shown as a hint, by which their owner can tell them.
	Key     string
	Refused int64 // how often, since the start: never too low
	Over    int64 // by how much Refused may be too high, since there were too many keys to count each
}

const (
	// shadowKeys is how many keys are counted of a rule.
	shadowKeys = 100
	// shadowRules bounds of how many rules they are.
	shadowRules = 1000
)

// shadowed counts who would have been refused. It is written to when that
// happens, and not by any other request.
type shadowed struct {
	mu sync.Mutex
	of map[watcher]*heavy.Keys
}

// watcher is what would have refused somebody.
type watcher struct {
	rule    string
	shedder rule.Limiter
}

func (s *shadowed) note(by watcher, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()

	keys := s.of[by]
	if keys == nil {
		if len(s.of) >= shadowRules {
			return
		}

		if s.of == nil {
			s.of = map[watcher]*heavy.Keys{}
		}

		keys = heavy.New(shadowKeys)
		s.of[by] = keys
	}

	keys.Add(rule.Compact(key))
}

// shed notes that a shedder would have refused a request, unless that only looks.
func (s *shadowed) shed(by rule.Limiter, req *rule.Request) {
	if !req.Peek {
		s.note(watcher{shedder: by}, callerOf(req))
	}
}

// watched turns d, as a rule in shadow mode decided it, into the answer of one that
// refuses nothing, and reports whether it would have refused.
func (d *Decision) watched(id string) bool {
	would := !d.Allowed

	*d = Decision{Allowed: true, charges: d.charges}
	if would {
		d.ShadowDenied = id
	}

	return would
}

// ShadowKeys returns whom rules and shedders in shadow mode would have refused,
// of each the top ones, 100 at most, who would have been refused most often
// first. Shedders come last. Rules that are not in force any more have none.
func (l *Limiter) ShadowKeys(top int) []ShadowKey {
	l.shadowed.mu.Lock()
	defer l.shadowed.mu.Unlock()

	var all []ShadowKey

	add := func(by watcher, show func(key string) string) {
		if keys := l.shadowed.of[by]; keys != nil {
			for _, c := range keys.Top(top) {
				all = append(all, ShadowKey{Rule: by.rule, Shedder: by.shedder, Key: show(c.Key), Refused: c.N, Over: c.Over})
			}
		}
	}

	for _, r := range l.table.Set().Rules {
		add(watcher{rule: r.ID}, hinted(r).ShowKey)
	}

	for _, shedder := range []rule.Limiter{rule.LimiterWorker, rule.LimiterFleet} {
		add(watcher{shedder: shedder}, func(key string) string { return key })
	}

	return all
}

// hinted returns r as one whose keys are not shown if they are credentials.
func hinted(r *rule.Rule) *rule.Rule {
	if slices.ContainsFunc(r.KeyBy, func(part rule.KeyPart) bool { return part.Kind == rule.KeyAPIKey }) {
		return &rule.Rule{Secret: true}
	}

	return r
}

// callerOf names who sent a request, where no rule says by what: API keys as hints.
func callerOf(req *rule.Request) string {
	switch {
	case req.APIKey != "":
		return (&rule.Rule{Secret: true}).ShowKey(req.APIKey)
	case req.User != "":
		return req.User
	case req.IP.IsValid():
		return req.IP.Unmap().String()
	default:
		return "" // nobody can tell
	}
}
