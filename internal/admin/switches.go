package admin

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/rule"
)

// switchesSetting is the part of the rule document with the kill switches.
const switchesSetting = "switches"

// SwitchView is a kill switch that was thrown.
type SwitchView struct {
	What   string    `doc:"all, limiter:KIND or rule:ID."                        json:"what"`
	Off    bool      `doc:"Whether it is off now; not so once its time is over." json:"off"`
	Until  time.Time `doc:"When it is on again by itself; left out for never."   json:"until,omitzero"`
	Reason string    `doc:"Why."                                                 json:"reason,omitempty"`
}

type (
	switchesOutput struct {
		CacheControl string `header:"Cache-Control"`
		Body         struct {
			Version  uint64       `doc:"The version of the rules."                                               json:"version"`
			Switches []SwitchView `doc:"Those that the store has. Those of single processes are not among them." json:"switches"`
		}
	}
	// SwitchInput names a switch, and how to write it.
	SwitchInput struct {
		What   string `doc:"all, limiter:KIND (rate, concurrency, fleet or worker) or rule:ID." path:"what"`
		DryRun bool   `doc:"Say what would be written, and write nothing."                      query:"dryRun"`
		Reason string `doc:"Why, for those who read the audit."                                 maxLength:"1000" query:"reason"`
	}
	killInput struct {
		SwitchInput

		Body struct {
			Reason string    `doc:"Why, for everybody who sees the switch."   json:"reason,omitempty" maxLength:"1000"`
			Until  time.Time `doc:"When it is on again by itself."            json:"until,omitzero"`
			ForSec int64     `doc:"Instead of until: after how many seconds." json:"forSec,omitempty" maximum:"31536000" minimum:"1"`
		}
	}
)

func (d *Door) registerSwitches(api huma.API) {
	register(d, api, route{
		id: "list-switches", method: http.MethodGet, path: "/admin/switches", summary: "See which kill switches are thrown",
		need: need{role: Viewer},
	}, d.listSwitches)
	register(d, api, route{
		id: "throw-switch", method: http.MethodPut, path: "/admin/switches/{what}",
		summary: "Switch a rule, a kind of limiter or everything off", need: need{role: Operator},
		doc: "What is off decides nothing: requests pass it. It is off in the whole fleet within a second. Those who have some " +
			"rules switch these.",
	}, d.throwSwitch)
	register(d, api, route{
		id: "reset-switch", method: http.MethodDelete, path: "/admin/switches/{what}", summary: "Switch it on again",
		need: need{role: Operator},
	}, d.resetSwitch)
}

func (d *Door) listSwitches(ctx context.Context, _ *struct{}) (*switchesOutput, error) {
	state, err := d.view.state(ctx)
	if err != nil {
		return nil, err
	}

	out := &switchesOutput{CacheControl: noStore}
	out.Body.Version, out.Body.Switches = state.Rules, []SwitchView{}
	now, s, p := d.config.Now(), &state.Set.Switches, caller(ctx)

	add := func(what string, one rule.Switch) {
		if one.Off {
			out.Body.Switches = append(out.Body.Switches, SwitchView{What: what, Off: one.OffAt(now), Until: one.Until, Reason: one.Reason})
		}
	}

	add("all", s.All)

	for kind, one := range s.Limiters {
		add("limiter:"+rule.Limiter(kind).String(), one)
	}

	for _, id := range slices.Sorted(maps.Keys(s.Rules)) {
		if p.mayRule(id) {
			add("rule:"+id, s.Rules[id])
		}
	}

	return out, nil
}

func (d *Door) throwSwitch(ctx context.Context, in *killInput) (*doneOutput, error) {
	until := in.Body.Until
	if in.Body.ForSec > 0 {
		if !until.IsZero() {
			return nil, unfit("body.until", "says again what forSec says", "keep one of them")
		}

		until = d.config.Now().Add(time.Duration(in.Body.ForSec) * time.Second)
	}

	entry := map[string]any{"off": true}

	if !until.IsZero() {
		if !until.After(d.config.Now()) {
			return nil, unfit("body.until", "is over already", "write a later time, or leave it out")
		}

		// A whole second, and not sooner than was said.
		entry["until"] = until.UTC().Add(time.Second - 1).Truncate(time.Second).Format(time.RFC3339)
	}

	if in.Body.Reason != "" {
		entry["reason"] = in.Body.Reason
	}

	value, err := json.Marshal(entry)
	if err != nil {
		return nil, explain(err, false)
	}

	if in.Reason == "" {
		in.Reason = in.Body.Reason
	}

	return d.flip(ctx, "switches.kill", &in.SwitchInput, value)
}

func (d *Door) resetSwitch(ctx context.Context, in *SwitchInput) (*doneOutput, error) {
	return d.flip(ctx, "switches.unkill", in, nil)
}

// flips is how often a switch is tried when others write switches at the same time.
const flips = 10

// flip sets one entry of the switches, or takes it away, and leaves the others alone. The state that this server follows is
// enough to begin with: if it is old, the store says so.
func (d *Door) flip(ctx context.Context, action string, in *SwitchInput, value json.RawMessage) (*doneOutput, error) {
	if problem := mayFlip(caller(ctx), in.What); problem != nil {
		return nil, problem
	}

	state, err := d.view.state(ctx)

	for range flips {
		if err != nil {
			return nil, err
		}

		setting, changed, problem := flipped(state, in.What, value)
		if problem != nil {
			return nil, problem
		}

		out := &doneOutput{CacheControl: noStore, Body: Done{DryRun: in.DryRun}}
		if !changed {
			return nil, refuse(http.StatusNotFound, "%s is not switched off here (GET /admin/switches lists what is)", in.What)
		}

		change := &rulestore.Change{Action: action, Target: in.What, Reason: in.Reason, Settings: []rulestore.SettingChange{setting}}
		if in.DryRun {
			return out, fits(state, change)
		}

		record, err := d.write(ctx, change, false)
		if err == nil {
			out.Body.Version = record.Version

			return out, nil
		}

		if problem, ok := errors.AsType[*Problem](err); !ok || problem.Status != http.StatusConflict || problem.readOnly {
			return nil, err
		}

		state, err = d.view.fresh(ctx)
		if err != nil {
			return nil, err
		}
	}

	return nil, refuse(http.StatusConflict, "others write switches all the time: try again")
}

// mayFlip says why somebody may not flip a switch; nil if they may.
func mayFlip(p *principal, what string) *Problem {
	id, isRule := strings.CutPrefix(what, "rule:")
	_, err := rule.ParseSwitches(what)

	switch {
	case err != nil:
		return unfit("path.what", "names nothing that can be switched off",
			"write all, rule:ID, or limiter: and one of rate, concurrency, fleet, worker")
	case isRule && !p.mayRule(id), !isRule && !p.whole():
		return refuse(http.StatusForbidden, "%s is not yours: yours are rules that begin with %s", what, strings.Join(p.rules, ", "))
	}

	return nil
}

// flipped is the setting with one entry set, or taken away for nil, and whether that differs from what it was.
func flipped(state *rulestore.State, what string, value json.RawMessage) (rulestore.SettingChange, bool, *Problem) {
	setting := rulestore.SettingChange{Name: switchesSetting, If: rulestore.Absent}
	place := rulestore.SettingPlace(switchesSetting)

	if written, there := state.Written[place]; there {
		setting.If = rulestore.Condition(written)
	}

	parts := map[string]json.RawMessage{}
	if text := state.Settings[switchesSetting]; text != nil && json.Unmarshal(text, &parts) != nil {
		return setting, false, refuse(http.StatusConflict, "the switches of the store cannot be read: write the setting switches anew")
	}

	group, name := "", what

	if kind, is := strings.CutPrefix(what, "limiter:"); is {
		group, name = "limiters", kind
	} else if id, is := strings.CutPrefix(what, "rule:"); is {
		group, name = "rules", id

		if value != nil && state.Set.Rule(id) == nil {
			return setting, false, refuse(http.StatusNotFound, "there is no rule %s (GET /admin/rules lists them)", id)
		}
	}

	changed := set(parts, group, name, value)

	if len(parts) > 0 {
		setting.Value, _ = json.Marshal(parts) //nolint:errchkjson // it was JSON
	}

	return setting, changed, nil
}

// set sets an entry of a group, or takes it away for nil; "" is no group. It reports whether there is anything to change.
func set(parts map[string]json.RawMessage, group, name string, value json.RawMessage) bool {
	entries := parts

	if group != "" {
		entries = map[string]json.RawMessage{}
		if text := parts[group]; text != nil && json.Unmarshal(text, &entries) != nil {
			entries = map[string]json.RawMessage{}
		}
	}

	if _, there := entries[name]; value == nil && !there {
		return false
	}

	delete(entries, name)

	if value != nil {
		entries[name] = value
	}

	if group == "" {
		return true
	}

	delete(parts, group)

	if len(entries) > 0 {
		parts[group], _ = json.Marshal(entries) //nolint:errchkjson // it was JSON
	}

	return true
}

// withoutSwitch takes the switch of a rule that goes away along, and reports whether there is one.
func withoutSwitch(state *rulestore.State, ruleID string) (rulestore.SettingChange, bool) {
	setting, changed, problem := flipped(state, "rule:"+ruleID, nil)

	return setting, changed && problem == nil
}
