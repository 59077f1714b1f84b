package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/rule"
)

// Load is a fleet, what callers want of it, what goes wrong, and what must hold all the same.
type Load struct {
	Name    string
	About   string
	Lasts   time.Duration
	Holders int
	Rules   []string // each what a rule document says of it, but for id, key and algorithm

	demand       demand
	only         []rate.Algorithm // nil: all that can be leased
	coordinators int              // 0: 1
	clocks       time.Duration    // by which the servers' clocks differ at most
	drift        int64            // by which they are too fast or slow at most, millionths
	acts         []act
	bars         bars
}

// act is something that happens to the fleet, once or again and again.
type act struct {
	at, every time.Duration // every 0: once
	until     time.Duration // when it happens for the last time, at the latest; 0: until the end
	do        func(f *fleet)
}

// schedule has an act happen in its time.
func (f *fleet) schedule(a *act) {
	until := f.end - 1
	if a.until > 0 {
		until = start + a.until.Microseconds()
	}

	var again func()

	again = func() {
		a.do(f)

		if a.every > 0 && f.now+a.every.Microseconds() <= until {
			f.after(a.every.Microseconds(), nil, again)
		}
	}

	f.after(a.at.Microseconds(), nil, again)
}

// leased are the algorithms whose tokens can be had in advance.
func leased() []rate.Algorithm {
	return []rate.Algorithm{rate.TokenBucket, rate.FixedWindow, rate.SlidingWindow}
}

// hot reports whether one server gets most requests, the same all the time.
func (l *Load) hot() bool { return l.demand.hot > 0 && l.demand.hops == 0 }

// Algorithms returns those that the load is run with.
func (l *Load) Algorithms() []rate.Algorithm {
	if l.only != nil {
		return l.only
	}

	return leased()
}

// rules returns the load's rule set under one algorithm.
func (l *Load) rules(algorithm rate.Algorithm) (*rule.Set, error) {
	return parse(l.Rules, algorithm)
}

func parse(rules []string, algorithm rate.Algorithm) (*rule.Set, error) {
	var doc strings.Builder

	doc.WriteString("rules:\n")

	for i, text := range rules {
		fmt.Fprintf(&doc, "  - {id: rule-%d, keyBy: user, algorithm: %v, %s}\n", i, rule.Algorithm(algorithm), text)
	}

	return rule.Parse("load", []byte(doc.String()))
}
