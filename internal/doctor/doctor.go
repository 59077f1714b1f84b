// Package doctor looks whether a Redis, and the coordinators before it, are as
// they should be for limits to hold, and says what to do where they are not.
//
//	redis.Survey ─────▶ judge ─┐
//	rpc.Greet, rules ─▶ judge ─┴─▶ findings: ok, warn or bad, each with what to do
//
// It changes nothing. What it judges are facts that others gather, so that each
// judgement is a function of them. Its neighbours are store/redis and rpc, which
// gather, and cli, which prints.
package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// State says how a finding is meant. The set is closed.
type State string

// The states.
const (
	// OK is as it should be.
	OK State = "ok"
	// Warn works, and may lose counts or time one day.
	Warn State = "warn"
	// Bad keeps limits from being decided, or from holding.
	Bad State = "bad"
)

// A Finding is what one check came to.
type Finding struct {
	State State  `json:"state"`
	Check string `json:"check"`           // what was looked at: one of a closed set of words
	Where string `json:"where,omitempty"` // the server it is about, if it is one
	Says  string `json:"says"`
	Fix   string `json:"fix,omitempty"` // what to do; never empty unless the state is OK
}

// The checks.
const (
	checkConnection  = "connection"
	checkEncryption  = "encryption"
	checkVersion     = "version"
	checkCluster     = "cluster"
	checkSentinels   = "sentinels"
	checkMemory      = "memory"
	checkClock       = "clock"
	checkFunctions   = "functions"
	checkLatency     = "latency"
	checkReplicas    = "replicas"
	checkPersistence = "persistence"
	checkData        = "data"
	checkCoordinator = "coordinator"
	checkStore       = "store"
	checkSignature   = "signature"
	checkRules       = "rules"
)

// Worst returns the worst state among findings, OK if there are none.
func Worst(findings []Finding) State {
	rank := func(s State) int { return slices.Index([]State{OK, Warn, Bad}, s) }
	worst := OK

	for i := range findings {
		if rank(findings[i].State) > rank(worst) {
			worst = findings[i].State
		}
	}

	return worst
}

// report collects the findings of one check: those that are not OK each, or one that all is.
type report struct {
	check string
	list  []Finding
}

func (r *report) add(state State, where, says, fix string) {
	r.list = append(r.list, Finding{State: state, Check: r.check, Where: where, Says: says, Fix: fix})
}

// or returns what was found, or else that all is well.
func (r *report) or(format string, values ...any) []Finding {
	if len(r.list) == 0 {
		r.add(OK, "", fmt.Sprintf(format, values...), "")
	}

	return r.list
}

// several is a number with its noun.
func several(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}

	return fmt.Sprintf("%d %ss", n, noun)
}

// distinct are the different texts of a list, in order, with commas.
func distinct(list []string) string {
	list = slices.Clone(list)
	slices.Sort(list)

	return strings.Join(slices.Compact(list), ", ")
}
