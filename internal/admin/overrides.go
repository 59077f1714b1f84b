package admin

import (
	"context"
	"encoding/base64"
	"iter"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/rule"
)

// OverrideView is an override as it is now.
type OverrideView struct {
	OverrideText

	ID      string `doc:"By which it can be deleted, whatever the key is." json:"id"`
	Version uint64 `doc:"The version that wrote it."                       json:"version"`
	Expired bool   `doc:"Whether it has ended."                            json:"expired,omitempty"`
}

type (
	overridesInput struct {
		RuleInput

		Key   string `doc:"Look up one key instead, secret or not."         query:"key"`
		After string `doc:"Where the page begins: next of the page before." query:"after"`
		Limit int    `default:"100"                                         doc:"How many at most." maximum:"1000" minimum:"1" query:"limit"`
	}
	overridesOutput struct {
		CacheControl string `header:"Cache-Control"`
		Body         struct {
			Overrides []OverrideView `doc:"In an order that stays the same."                    json:"overrides"`
			Next      string         `doc:"What to send as after for the next page; none: end." json:"next,omitempty"`
			Bad       []BadRow       `doc:"Rows put in by hand that are no overrides."          json:"bad,omitempty"`
		}
	}
	putOverrideInput struct {
		RuleInput
		WriteQuery

		Body OverrideText
	}
	deleteOverrideInput struct {
		RuleInput
		WriteQuery

		Key string `doc:"Whose override to delete."                     query:"key"`
		ID  string `doc:"Instead of the key: the id, as a list has it." query:"id"`
	}
	// WriteQuery is what every write may say, where there is no ETag.
	WriteQuery struct {
		DryRun bool   `doc:"Say what would be written, and write nothing." query:"dryRun"`
		Reason string `doc:"Why, for those who read the audit."            maxLength:"1000" query:"reason"`
	}
	doneOutput struct {
		CacheControl string `header:"Cache-Control"`
		Body         Done
	}
	// Done is what a write did.
	Done struct {
		DryRun  bool   `doc:"Whether nothing was written."                             json:"dryRun,omitempty"`
		Version uint64 `doc:"The version that the write made; 0: nothing was changed." json:"version"`
		Count   int64  `doc:"How many overrides were set or deleted."                  json:"count,omitempty"`
	}
)

func (d *Door) registerOverrides(api huma.API) {
	const path = ruleRoute + "/overrides"

	register(d, api, route{
		id: "list-overrides", method: http.MethodGet, path: path, summary: "List or look up a rule's overrides", need: need{role: Viewer},
		doc: "Overrides that stand in the rule's own document are not among them.",
	}, d.listOverrides)
	register(d, api, route{
		id: "put-override", method: http.MethodPut, path: path, summary: "Set the override of one key", need: need{role: Operator},
		doc: "It is effective within a second, and within 60 seconds at the latest.",
	}, d.putOverride)
	register(d, api, route{
		id: "delete-override", method: http.MethodDelete, path: path, summary: "Delete the override of one key", need: need{role: Operator},
	}, d.deleteOverride)
}

func (d *Door) listOverrides(ctx context.Context, in *overridesInput) (*overridesOutput, error) {
	query := rulestore.Query{Rule: in.RuleID, After: in.After, Limit: in.Limit}

	if in.Key != "" {
		state, err := d.view.state(ctx)
		if err != nil {
			return nil, err
		}

		key := in.Key
		if r := state.Set.Rule(in.RuleID); r != nil {
			if key, err = r.KeyOf(key); err != nil {
				return nil, ofText(err)
			}
		}

		query = rulestore.Query{Rule: in.RuleID, Keys: []string{rule.Compact(key)}}
	}

	out := &overridesOutput{CacheControl: noStore}
	out.Body.Overrides = []OverrideView{}
	now, seen := d.config.Now(), 0

	for o, err := range d.config.Store.Overrides(ctx, query) {
		if err != nil && (rulestore.CodeOf(err) != rulestore.Invalid || o.Rule == "") {
			return nil, explain(err, false)
		}

		seen++
		if seen == in.Limit && in.Key == "" {
			out.Body.Next = o.Cursor()
		}

		if err != nil {
			out.Body.Bad = append(out.Body.Bad, BadRow{Place: o.Place(), Message: err.Error()})

			continue
		}

		out.Body.Overrides = append(out.Body.Overrides, OverrideView{
			OverrideText: textOf(&o), ID: base64.RawURLEncoding.EncodeToString(o.StoredKey()), Version: o.Version,
			Expired: !o.Expires.IsZero() && !now.Before(o.Expires),
		})
	}

	if seen == 0 && in.After == "" {
		return out, d.mustKnow(ctx, in.RuleID)
	}

	return out, nil
}

// mustKnow refuses a rule that there is not, and none of whose overrides wait for it either: it is mistyped.
func (d *Door) mustKnow(ctx context.Context, id string) error {
	state, err := d.view.state(ctx)
	if err != nil {
		return err
	}

	if _, written := state.Written[id]; !written && state.Set.Rule(id) == nil {
		return noRule(state, id)
	}

	return nil
}

func (d *Door) putOverride(ctx context.Context, in *putOverrideInput) (*doneOutput, error) {
	if in.Body.Rule != "" && in.Body.Rule != in.RuleID {
		return nil, unfit("body.rule", "is another than in the path", "leave it out")
	}

	reader, err := d.overrideReader(ctx)
	if err != nil {
		return nil, err
	}

	in.Body.Rule = in.RuleID

	o, err := reader.read(&in.Body, false)
	if err != nil {
		return nil, err
	}

	return d.writeOverride(ctx, "overrides.put", &in.WriteQuery, rulestore.OverrideChange{Override: o})
}

func (d *Door) overrideReader(ctx context.Context) (*overrideReader, error) {
	state, err := d.view.state(ctx)
	if err != nil {
		return nil, err
	}

	return &overrideReader{set: state.Set, who: caller(ctx), now: d.config.Now()}, nil
}

// writeOverride sets or deletes one.
func (d *Door) writeOverride(ctx context.Context, action string, in *WriteQuery, one rulestore.OverrideChange) (*doneOutput, error) {
	out := &doneOutput{CacheControl: noStore, Body: Done{DryRun: in.DryRun, Count: 1}}
	if in.DryRun {
		return out, nil
	}

	record, err := d.write(ctx, &rulestore.Change{
		Action: action, Target: one.Place(), Reason: in.Reason, Overrides: only(one),
	}, false)
	if err != nil {
		return nil, err
	}

	out.Body.Version, out.Body.Count = record.Version, record.Overrides

	return out, nil
}

// only is a sequence of one.
func only(one rulestore.OverrideChange) iter.Seq2[rulestore.OverrideChange, error] {
	return func(yield func(rulestore.OverrideChange, error) bool) { yield(one, nil) }
}

func (d *Door) deleteOverride(ctx context.Context, in *deleteOverrideInput) (*doneOutput, error) {
	if (in.Key == "") == (in.ID == "") {
		return nil, unfit("query.key", "is not given once", "write one of key and id")
	}

	one := rulestore.OverrideChange{Override: rulestore.Override{Rule: in.RuleID}, Delete: true}

	if in.ID != "" {
		stored, err := base64.RawURLEncoding.DecodeString(in.ID)
		if err == nil {
			err = one.SetStoredKey(stored)
		}

		if err != nil {
			return nil, unfit("query.id", "is no id", "take it from the list of overrides")
		}

		return d.writeOverride(ctx, "overrides.delete", &in.WriteQuery, one)
	}

	reader, err := d.overrideReader(ctx)
	if err != nil {
		return nil, err
	}

	if one.Override, err = reader.read(&OverrideText{Rule: in.RuleID, Key: in.Key}, true); err != nil {
		return nil, err
	}

	return d.writeOverride(ctx, "overrides.delete", &in.WriteQuery, one)
}
