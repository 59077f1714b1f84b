package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/leaseway/leaseway/internal/rulestore"
)

// RecordView is what somebody did.
type RecordView struct {
	Seq       uint64     `doc:"Its number in the audit."                                      json:"seq"`
	Version   uint64     `doc:"The version that came of it; left out when none did."          json:"version,omitempty"`
	At        time.Time  `doc:"When."                                                         json:"at"`
	Author    string     `doc:"Who."                                                          json:"author"`
	Action    string     `doc:"What, such as rules.put."                                      json:"action"`
	Target    string     `doc:"To what."                                                      json:"target,omitempty"`
	Reason    string     `doc:"Why, as the author said."                                      json:"reason,omitempty"`
	Overrides int64      `doc:"How many overrides it set or deleted."                         json:"overrides,omitempty"`
	Places    []PlaceDif `doc:"What it changed; only where one version or rule is asked for." json:"places,omitempty"`
}

// PlaceDif is one thing before and after.
type PlaceDif struct {
	Place  string    `doc:"Which rule, setting or override." json:"place"`
	Before *Document `doc:"Before; left out for none."       json:"before,omitempty"`
	After  *Document `doc:"After; left out for none."        json:"after,omitempty"`
}

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
	auditInput struct {
		PageInput

		Rule    string `doc:"Only what changed this rule."                          maxLength:"64"   query:"rule"`
		Version uint64 `doc:"Only what made this version."                          query:"version"`
		Author  string `doc:"Only what this author did."                            maxLength:"1000" query:"author"`
		Action  string `doc:"Only actions that begin so, such as rules. or tokens." maxLength:"100"  query:"action"`
		Target  string `doc:"Only what was done to this target."                    maxLength:"1000" query:"target"`
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
	register(d, api, route{
		id: "list-audit", method: http.MethodGet, path: "/admin/audit", summary: "See who did what, and why", need: need{role: Viewer},
		doc: "Those who have some rules name one of theirs.",
	}, d.listAudit)
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
		return nil, refuse(http.StatusNotFound, "there never was a rule with this id (GET /admin/rules lists them)")
	}

	return recordsOf(records, in.Limit), nil
}

func recordsOf(records []rulestore.Record, limit int) *recordsOutput {
	out := &recordsOutput{CacheControl: noStore}
	out.Body.Records = make([]RecordView, len(records))

	for i := range records {
		out.Body.Records[i] = recordView(&records[i])
	}

	if len(records) == limit {
		out.Body.Next = records[limit-1].Seq
	}

	return out
}

func recordView(r *rulestore.Record) RecordView {
	view := RecordView{
		Seq: r.Seq, Version: r.Version, At: r.At, Author: r.Author, Action: r.Action, Target: r.Target, Reason: r.Reason,
		Overrides: r.Overrides,
	}

	for _, difference := range r.Differences {
		view.Places = append(view.Places, PlaceDif{
			Place: difference.Place, Before: shown(difference.Place, difference.Before), After: shown(difference.Place, difference.After),
		})
	}

	return view
}

// shown is a document as everybody may see it who may read: without the hash of a token.
func shown(place string, text json.RawMessage) *Document {
	if text == nil {
		return nil
	}

	if strings.HasPrefix(place, rulestore.SettingPlace(tokenPrefix)) {
		fields := fieldsOf(text)
		delete(fields, "sha256")

		text, _ = json.Marshal(fields) //nolint:errchkjson // it was JSON
	}

	return &Document{text}
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
			return nil, refuse(http.StatusNotFound, "there never was a rule with this id (GET /admin/rules lists them)")
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

// maxScan is how many records one call looks at, for those that a filter leaves.
const maxScan = 20 * rulestore.MaxPage

func (d *Door) listAudit(ctx context.Context, in *auditInput) (*recordsOutput, error) {
	p := caller(ctx)

	switch {
	case !p.whole() && in.Rule == "":
		return nil, refuse(http.StatusForbidden, "name one of your rules: ?rule=ID, which begins with %s", strings.Join(p.rules, " or "))
	case in.Rule != "" && !p.mayRule(in.Rule):
		return nil, refuse(http.StatusForbidden, "this rule is not yours: yours begin with %s", strings.Join(p.rules, ", "))
	}

	page := rulestore.Page{Before: in.Before, Limit: in.Limit, Version: in.Version}
	if in.Rule != "" {
		page.Place = rulestore.RulePlace(in.Rule)
	}

	if in.filters() {
		page.Limit = rulestore.MaxPage
	}

	kept, next, err := d.scan(ctx, page, in)
	if err != nil {
		return nil, err
	}

	out := recordsOf(kept, in.Limit)
	if next != 0 {
		out.Body.Next = next
	}

	return out, nil
}

// filters says whether records are looked at one by one.
func (in *auditInput) filters() bool { return in.Author != "" || in.Action != "" || in.Target != "" }

// takes says whether a record is one of those asked for.
func (in *auditInput) takes(r *rulestore.Record) bool {
	return (in.Author == "" || r.Author == in.Author) && strings.HasPrefix(r.Action, in.Action) &&
		(in.Target == "" || r.Target == in.Target)
}

// scan reads records until there are enough, or too many were looked at: then next is where to go on.
func (d *Door) scan(ctx context.Context, page rulestore.Page, in *auditInput) (kept []rulestore.Record, next uint64, err error) {
	for scanned := 0; ; {
		records, err := d.history(ctx, page)
		if err != nil {
			return nil, 0, err
		}

		for i := range records {
			if in.takes(&records[i]) {
				kept = append(kept, records[i])
			}

			if len(kept) == in.Limit {
				return kept, 0, nil
			}
		}

		if len(records) < page.Limit {
			return kept, 0, nil
		}

		page.Before = records[len(records)-1].Seq
		if scanned += len(records); scanned >= maxScan {
			return kept, page.Before, nil
		}
	}
}
