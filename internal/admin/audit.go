package admin

import (
	"context"
	"encoding/json"
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

type auditInput struct {
	PageInput

	Rule    string `doc:"Only what changed this rule."                          maxLength:"64"   query:"rule"`
	Version uint64 `doc:"Only what made this version."                          query:"version"`
	Author  string `doc:"Only what this author did."                            maxLength:"1000" query:"author"`
	Action  string `doc:"Only actions that begin so, such as rules. or tokens." maxLength:"100"  query:"action"`
	Target  string `doc:"Only what was done to this target."                    maxLength:"1000" query:"target"`
}

func (d *Door) registerAudit(api huma.API) {
	register(d, api, route{
		id: "list-audit", method: http.MethodGet, path: "/admin/audit", summary: "See who did what, and why", need: need{role: Viewer},
		doc: "Those who have some rules name one of theirs.",
	}, d.listAudit)
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
