package admin

import (
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/rule"
)

// RuleView is a rule as it is now.
type RuleView struct {
	ID      string   `doc:"The rule's id."                                      json:"id"`
	Version uint64   `doc:"The version that last wrote it; also its ETag."      json:"version"`
	Rule    Document `doc:"The document of the rule."                           json:"rule"`
	Plan    *Plan    `doc:"Its rollout, where that goes on by itself."          json:"plan,omitempty"`
	Switch  string   `doc:"What its kill switch says; left out while it is on." json:"switch,omitempty"`
}

type (
	ruleOutput struct {
		Etag         string `header:"Etag"`
		CacheControl string `header:"Cache-Control"`
		Body         RuleView
	}
	listInput struct {
		After string `doc:"The id after which the page begins: next of the page before." maxLength:"64" query:"after"`

		Limit  int    `default:"100"            doc:"How many at most." maximum:"1000" minimum:"1" query:"limit"`
		Prefix string `doc:"How the ids begin." maxLength:"64"          query:"prefix"`
	}
	listOutput struct {
		CacheControl string `header:"Cache-Control"`
		Body         struct {
			Version uint64     `doc:"The version of the rules."                           json:"version"`
			Total   int        `doc:"How many there are with this prefix."                json:"total"`
			Rules   []RuleView `doc:"In the order of their ids."                          json:"rules"`
			Next    string     `doc:"What to send as after for the next page; none: end." json:"next,omitempty"`
			Bad     []BadRow   `doc:"Rows put in by hand that are no rules or settings."  json:"bad,omitempty"`
		}
	}
	// RuleInput names a rule.
	RuleInput struct {
		RuleID string `doc:"The id of the rule." maxLength:"64" path:"ruleId"`
	}
	// WriteOptions are those of every write.
	WriteOptions struct {
		DryRun  bool   `doc:"Say what would be written, and write nothing."            query:"dryRun"`
		Reason  string `doc:"Why, for those who read the audit."                       maxLength:"1000"  query:"reason"`
		IfMatch string `doc:"The ETag of what is changed: 412 when it is another now." header:"If-Match"`
	}
	putInput struct {
		RuleInput
		WriteOptions

		IfNoneMatch string `doc:"* for a rule that must be new."                              header:"If-None-Match"`
		Force       bool   `doc:"Enforce at once although requireRollout is on; with reason." query:"force"`

		RawBody []byte `contentType:"application/json"`
	}
	deleteInput struct {
		RuleInput
		WriteOptions
	}
	// Written is what a write did, or would do.
	Written struct {
		DryRun   bool      `doc:"Whether nothing was written."                             json:"dryRun,omitempty"`
		Version  uint64    `doc:"The version that the write made; 0: nothing was changed." json:"version"`
		Rule     *Document `doc:"The rule after it."                                       json:"rule,omitempty"`
		Changes  []Change  `doc:"What it changed."                                         json:"changes"`
		Warnings []Warning `doc:"What is allowed, and perhaps not meant."                  json:"warnings"`
	}
	writtenOutput struct {
		Etag         string `header:"Etag"`
		CacheControl string `header:"Cache-Control"`
		Body         Written
	}
)

// BadRow is a row that somebody put in by hand.
type BadRow struct {
	Place   string `doc:"Which row."                    json:"place"`
	Message string `doc:"Why it is no rule or setting." json:"message"`
}

const (
	noStore   = "no-store"
	ruleRoute = "/admin/rules/{ruleId}"
)

func (d *Door) registerRules(api huma.API) {
	register(d, api, route{
		id: "list-rules", method: http.MethodGet, path: "/admin/rules", summary: "List rules", need: need{role: Viewer},
	}, d.listRules)
	register(d, api, route{
		id: "get-rule", method: http.MethodGet, path: ruleRoute, summary: "Read a rule", need: need{role: Viewer},
	}, d.getRule)
	register(d, api, route{
		id: "put-rule", method: http.MethodPut, path: ruleRoute, summary: "Write a rule", need: need{role: Operator},
		doc: "The body is the whole rule as docs/rules.md has it, such as {limit, windowSec, keyBy, scope}: what is left out is " +
			"as by default. With a rollout below 100, the other keys keep what the rule was, unless `before` says something else.",
		text: true, takes: []string{"application/json"},
	}, d.putRule)
	register(d, api, route{
		id: "delete-rule", method: http.MethodDelete, path: ruleRoute, summary: "Delete a rule", need: need{role: Operator},
		doc: "Its overrides stay, for whoever puts it back.",
	}, d.deleteRule)
	register(d, api, route{
		id: "patch-rule", method: http.MethodPatch, path: ruleRoute, summary: "Change a rule's mode or rollout",
		need: need{role: Operator},
		doc: "A new mode is that of the version that is rolled out; what other keys keep stays as it is. A rollout of 100 ends " +
			"the version before. `plan` raises the rollout by itself, and goes back when too many requests are refused.",
	}, d.patchRule)
}

func (d *Door) listRules(ctx context.Context, in *listInput) (*listOutput, error) {
	state, err := d.view.state(ctx)
	if err != nil {
		return nil, err
	}

	p := caller(ctx)
	out := &listOutput{CacheControl: noStore}
	out.Body.Version, out.Body.Rules = state.Rules, []RuleView{}

	for _, r := range state.Set.Rules {
		if !strings.HasPrefix(r.ID, in.Prefix) || !p.mayRule(r.ID) {
			continue
		}

		out.Body.Total++

		switch {
		case r.ID <= in.After:
		case len(out.Body.Rules) < in.Limit:
			view, err := d.viewOf(state, r)
			if err != nil {
				return nil, explain(err, false)
			}

			out.Body.Rules = append(out.Body.Rules, view)
		case out.Body.Next == "":
			out.Body.Next = out.Body.Rules[in.Limit-1].ID
		}
	}

	if p.whole() {
		for _, bad := range state.Bad {
			out.Body.Bad = append(out.Body.Bad, BadRow{Place: bad.Place, Message: bad.Err.Error()})
		}
	}

	return out, nil
}

func (d *Door) getRule(ctx context.Context, in *RuleInput) (*ruleOutput, error) {
	state, err := d.view.state(ctx)
	if err != nil {
		return nil, err
	}

	r := state.Set.Rule(in.RuleID)
	if r == nil {
		return nil, noRule(state, in.RuleID)
	}

	view, err := d.viewOf(state, r)
	if err != nil {
		return nil, explain(err, false)
	}

	return &ruleOutput{Etag: etag(view.Version), CacheControl: noStore, Body: view}, nil
}

// noRule says that there is none, and what is wrong with the row if there is one.
func noRule(state *rulestore.State, id string) *Problem {
	for _, bad := range state.Bad {
		if bad.Place == rulestore.RulePlace(id) {
			return refuse(http.StatusNotFound, "the row of this rule is no rule: %v (write it anew)", bad.Err)
		}
	}

	return refuse(http.StatusNotFound, "there is no rule %s (leaseway rules list, or GET /admin/rules, shows them)", id)
}

func (d *Door) viewOf(state *rulestore.State, r *rule.Rule) (RuleView, error) {
	doc, err := documentOf(r)
	view := RuleView{ID: r.ID, Version: state.Written[r.ID], Rule: Document{doc}, Plan: planOf(state, r.ID)}

	if off := state.Set.Switches.Rules[r.ID]; off.OffAt(d.config.Now()) {
		view.Switch = off.String()
	}

	return view, err
}
