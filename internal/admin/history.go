package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/leaseway/leaseway/internal/rulestore"
)

type (
	// PageInput is which part of a list to read.
	PageInput struct {
		Before uint64 `doc:"The seq before which the page begins: next of the page before." query:"before"`
		Limit  int    `default:"50"                                                         doc:"How many at most." maximum:"1000" minimum:"1" query:"limit"`
	}
	recordsOutput struct {
		CacheControl string `header:"Cache-Control"`
		Body         struct {
			Records []RecordView `doc:"The latest first."                                    json:"records"`
			Next    uint64       `doc:"What to send as before for the next page; none: end." json:"next,omitempty"`
		}
	}
	versionsInput struct {
		RuleInput
		PageInput
	}
	versionInput struct {
		RuleInput

		Version uint64 `doc:"One of the rule's versions." path:"version"`
	}
	diffInput struct {
		RuleInput

		From uint64 `doc:"A version of the rule; left out: the one before to." query:"from"`
		To   uint64 `doc:"A version of the rule; left out: the present one."   query:"to"`
	}
	diffOutput struct {
		CacheControl string `header:"Cache-Control"`
		Body         struct {
			From    uint64   `doc:"The version compared; 0: there was none before." json:"from"`
			To      uint64   `doc:"The version compared with."                      json:"to"`
			Changes []Change `doc:"The fields that differ."                         json:"changes"`
		}
	}
	rollbackInput struct {
		RuleInput
		WriteOptions

		Force bool `doc:"Enforce at once although requireRollout is on; with reason." query:"force"`

		Body struct {
			Version uint64 `doc:"The version to go back to; left out: the one before the present one." json:"version,omitempty"`
		}
	}
)

func (d *Door) registerHistory(api huma.API) {
	register(d, api, route{
		id: "list-versions", method: http.MethodGet, path: ruleRoute + "/versions", summary: "List a rule's versions",
		need: need{role: Viewer},
	}, d.listVersions)
	register(d, api, route{
		id: "get-version", method: http.MethodGet, path: ruleRoute + "/versions/{version}", summary: "Read a version of a rule",
		need: need{role: Viewer},
	}, d.getVersion)
	register(d, api, route{
		id: "diff-versions", method: http.MethodGet, path: ruleRoute + "/diff", summary: "Compare two versions of a rule",
		need: need{role: Viewer},
	}, d.diffVersions)
	register(d, api, route{
		id: "roll-back-rule", method: http.MethodPost, path: ruleRoute + "/rollback", summary: "Go back to a version of a rule",
		need: need{role: Operator}, doc: "The old version is written anew: versions only move forward.",
	}, d.rollBack)
}

func (d *Door) history(ctx context.Context, page rulestore.Page) ([]rulestore.Record, error) {
	records, err := d.config.Store.History(ctx, page)
	if err != nil {
		return nil, explain(err, false)
	}

	return records, nil
}

func (d *Door) listVersions(ctx context.Context, in *versionsInput) (*recordsOutput, error) {
	records, err := d.history(ctx, rulestore.Page{
		Before: in.Before, Limit: in.Limit, Place: rulestore.RulePlace(in.RuleID), Versions: true,
	})
	if err != nil {
		return nil, err
	}

	if len(records) == 0 && in.Before == 0 {
		return nil, d.noVersions(ctx, in.RuleID)
	}

	return recordsOf(records, in.Limit), nil
}

// noVersions says why a rule has no versions.
func (d *Door) noVersions(ctx context.Context, id string) error {
	state, err := d.view.state(ctx)
	if err != nil {
		return err
	}

	if state.Set.Rule(id) != nil {
		return refuse(http.StatusNotFound, "the rules come from a file, and have no versions here: what the file was is where it is kept")
	}

	return refuse(http.StatusNotFound, "there never was a rule %s (leaseway rules list, or GET /admin/rules, shows them)", id)
}

// versionOf is a rule after one of its versions, or after the latest but so many.
func (d *Door) versionOf(ctx context.Context, id string, version uint64) (rulestore.Record, json.RawMessage, error) {
	if version == 0 {
		return rulestore.Record{}, nil, unfit("query.version", "is 0", "write one of GET /admin/rules/"+id+"/versions")
	}

	records, err := d.history(ctx, rulestore.Page{Version: version, Place: rulestore.RulePlace(id)})
	if err != nil {
		return rulestore.Record{}, nil, err
	}

	for i := range records {
		for _, difference := range records[i].Differences {
			if difference.Place == rulestore.RulePlace(id) {
				return records[i], difference.After, nil
			}
		}
	}

	return rulestore.Record{}, nil,
		refuse(http.StatusNotFound, "version %d did not change this rule (GET /admin/rules/%s/versions lists those that did)", version, id)
}

// latest are the numbers of the rule's last versions, the last first, that come before a version; 0 for all.
func (d *Door) latest(ctx context.Context, id string, before uint64) ([]uint64, error) {
	page := rulestore.Page{Place: rulestore.RulePlace(id), Versions: true, Limit: 2}

	if before != 0 {
		record, _, err := d.versionOf(ctx, id, before)
		if err != nil {
			return nil, err
		}

		page.Before = record.Seq
	}

	records, err := d.history(ctx, page)
	if err != nil {
		return nil, err
	}

	versions := make([]uint64, len(records))
	for i := range records {
		versions[i] = records[i].Version
	}

	return versions, nil
}

func (d *Door) getVersion(ctx context.Context, in *versionInput) (*ruleOutput, error) {
	record, text, err := d.versionOf(ctx, in.RuleID, in.Version)
	if err != nil {
		return nil, err
	}

	if text == nil {
		return nil, refuse(http.StatusNotFound, "version %d deleted the rule", in.Version)
	}

	return &ruleOutput{CacheControl: noStore, Body: RuleView{ID: in.RuleID, Version: record.Version, Rule: Document{text}}}, nil
}

func (d *Door) diffVersions(ctx context.Context, in *diffInput) (*diffOutput, error) {
	out := &diffOutput{CacheControl: noStore}
	from, to := in.From, in.To

	if to == 0 {
		last, err := d.latest(ctx, in.RuleID, 0)
		if err != nil {
			return nil, err
		}

		if len(last) == 0 {
			return nil, d.noVersions(ctx, in.RuleID)
		}

		to = last[0]
	}

	_, after, err := d.versionOf(ctx, in.RuleID, to)
	if err != nil {
		return nil, err
	}

	if from == 0 {
		last, err := d.latest(ctx, in.RuleID, to)
		if err != nil {
			return nil, err
		}

		if len(last) > 0 {
			from = last[0]
		}
	}

	var before json.RawMessage

	if from != 0 {
		if _, before, err = d.versionOf(ctx, in.RuleID, from); err != nil {
			return nil, err
		}
	}

	out.Body.From, out.Body.To, out.Body.Changes = from, to, changesBetween(before, after)

	return out, nil
}

func (d *Door) rollBack(ctx context.Context, in *rollbackInput) (*writtenOutput, error) {
	state, err := d.view.fresh(ctx)
	if err != nil {
		return nil, err
	}

	version := in.Body.Version
	if version == 0 {
		last, err := d.latest(ctx, in.RuleID, 0)
		if err != nil {
			return nil, err
		}

		if len(last) == 0 {
			return nil, d.noVersions(ctx, in.RuleID)
		}

		if len(last) < 2 {
			return nil, refuse(http.StatusNotFound, "there is no version before the present one")
		}

		version = last[1]
	}

	_, text, err := d.versionOf(ctx, in.RuleID, version)
	if err != nil {
		return nil, err
	}

	if text == nil {
		return nil, unfit("body.version", fmt.Sprintf("version %d deleted the rule", version), "DELETE the rule, if that is meant")
	}

	fields, err := json.Marshal(fieldsOf(text)) // without the number that it had
	if err != nil {
		return nil, explain(err, false)
	}

	after, _, err := parseRule(in.RuleID, fields)
	if err != nil {
		return nil, err
	}

	w := &ruleWrite{action: "rules.rollback", after: after, options: in.WriteOptions, force: in.Force}
	if w.options.Reason == "" {
		w.options.Reason = fmt.Sprintf("back to version %d", version)
	}

	if planOf(state, in.RuleID) != nil { // or it would go on with what was just undone
		w.settings = []rulestore.SettingChange{{Name: PlanSetting(in.RuleID)}}
	}

	return d.writeRule(ctx, state, w)
}
