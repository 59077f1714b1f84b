package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/rule"
)

// enforcing says whether more may be refused after a change than before it, at once and for every key.
func enforcing(before, after *rule.Rule, changes []Change) bool {
	refuses := after.Mode == rule.Enforce || after.Before != nil && after.Before.Mode == rule.Enforce
	if !refuses || len(changes) == 0 {
		return false
	}

	// What a rollout holds back, or goes on with, are the fields that two versions may have apart.
	held := []string{
		"description", "rollout", "before",
		limitField, "window", "timeZone", "burst", "block", "mode", "lease", "slack", "onUnavailable", "fallback",
	}
	spared := spares(before, after)
	if after.Withheld > 0 && spared && (before == nil || within(changes, held)) {
		return false
	}

	// Only words, or a rollout that goes on to its end.
	going := []string{"description", "rollout", "before"}
	if before != nil && before.Mode == after.Mode {
		return !spared || !within(changes, going)
	}

	return true
}

// spares says whether the keys that a rollout holds back are refused nothing, or have what the rule was: its version before, or
// the one before that. Any other `+"`before`"+` would be as new to them as the rule itself, and reach them at once.
func spares(before, after *rule.Rule) bool {
	kept := after.Before
	if kept == nil || kept.Mode != rule.Enforce {
		return true
	}

	return before != nil && (alike(kept, before) || before.Before != nil && alike(kept, before.Before))
}

// alike says whether two versions of a rule do the same to the keys that have them.
func alike(a, b *rule.Rule) bool {
	var texts [2][]byte

	for i, r := range [...]*rule.Rule{a, b} {
		bare := *r
		bare.Description, bare.Withheld, bare.Before = "", 0, nil

		if a.Fallback == nil || b.Fallback == nil { // which a version before cannot be without where its rule has one
			bare.Fallback = nil
		}

		text, err := documentOf(&bare)
		if err != nil {
			return false
		}

		texts[i] = text
	}

	return bytes.Equal(texts[0], texts[1])
}

// within says whether nothing but these fields changes.
func within(changes []Change, fields []string) bool {
	return !slices.ContainsFunc(changes, func(c Change) bool { return !slices.Contains(fields, c.Field) })
}

// keepBefore writes into the document of a rule that is rolled out what the keys keep that the rollout has not reached, where
// its owner did not.
func keepBefore(before, after *rule.Rule, body []byte) ([]byte, error) {
	old := before
	if before.Withheld > 0 {
		old = before.Before
	}

	if old == nil || after.Before != nil || after.Withheld == 0 {
		return body, nil
	}

	kept, err := keptOf(old, after)
	if err != nil {
		return nil, err
	}

	if len(kept) == 0 {
		return body, nil
	}

	text, err := json.Marshal(kept)
	if err != nil {
		return nil, err
	}

	end := bytes.LastIndexByte(body, '}')

	return slices.Concat(body[:end], []byte(`,"before":`), text, body[end:]), nil
}

// keepingBefore is a rule with what keepBefore adds to it: after itself where that is nothing.
func keepingBefore(before, after *rule.Rule) (*rule.Rule, error) {
	if before == nil || after.Before != nil || after.Withheld == 0 {
		return after, nil
	}

	doc, err := documentOf(after)
	if err != nil {
		return nil, err
	}

	body, err := keepBefore(before, after, doc)
	if err != nil {
		return nil, err
	}

	kept, _, err := parseRule(after.ID, body)

	return kept, err
}

// endedPlan takes away the plan of a rule whose rollout is another after a write: or the plan would go on from a step of its own,
// and take the rule from keys that have it. A new rule has no part in the plan of one that is gone.
func endedPlan(state *rulestore.State, before, after *rule.Rule) []rulestore.SettingChange {
	if before != nil && before.Withheld == after.Withheld || planOf(state, after.ID) == nil {
		return nil
	}

	return []rulestore.SettingChange{{Name: PlanSetting(after.ID)}}
}

// keptOf is what differs in old from after, of all that two versions of a rule may have apart.
func keptOf(old, after *rule.Rule) (map[string]any, error) {
	kept := map[string]any{}

	if old.Mode != after.Mode {
		kept["mode"] = old.Mode.String()
	}

	if old.OnUnavailable != after.OnUnavailable {
		kept["onUnavailable"] = old.OnUnavailable.String()
	}

	if old.Slack != after.Slack {
		kept["slack"] = old.Slack
	}

	if old.LeaseTTL != after.LeaseTTL {
		kept["lease"] = map[string]string{"ttl": fmt.Sprintf("%dms", old.LeaseTTL.Milliseconds())}
	}

	doc, err := documentOf(old)
	if err != nil {
		return nil, err
	}

	fields := fieldsOf(doc)
	asWritten := func(names ...string) {
		for _, name := range names {
			if text, has := fields[name]; has {
				kept[name] = text
			}
		}
	}

	if old.Fallback != nil && (after.Fallback == nil || *old.Fallback != *after.Fallback) {
		asWritten("fallback")
	}

	switch {
	case old.Block == after.Block && old.Limit == after.Limit && old.Burst == after.Burst && old.Window == after.Window &&
		old.Calendar == after.Calendar:
	case old.Block:
		kept["block"] = true
	default:
		kept[limitField] = old.Limit
		if after.Algorithm.HasBurst() {
			kept["burst"] = old.Burst
		}

		asWritten("window", "timeZone")
	}

	return kept, nil
}

// percent is a percentage as the document has it: from 0 to 100, with two decimals at most.
func percent(number float64) (json.Number, bool) {
	text := strconv.FormatFloat(number, 'f', -1, 64)
	_, decimals, _ := strings.Cut(text, ".")

	return json.Number(text), number >= 0 && number <= 100 && len(decimals) <= 2
}

// notEnforced refuses an enforcing change where the setting requireRollout asks for a rollout.
func notEnforced(state *rulestore.State, force bool, reason string) *Problem {
	required := isOn(state.Settings[requireRollout])
	if !required || force && reason != "" {
		return nil
	}

	return refuse(http.StatusConflict, "the setting requireRollout is on, and this would be enforced for every key at once: "+
		"write rollout below 100 and raise it later, or mode: shadow first; or send force=true&reason=WHY").
		at("body.rollout", "enforced for every key at once", "write a rollout below 100")
}
