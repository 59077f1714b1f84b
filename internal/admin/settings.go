package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/leaseway/leaseway/internal/rulestore"
)

// requireRollout is the setting that has enforcing changes begin with a rollout.
const requireRollout = "requireRollout"

// settingNames are the settings that people may write. Others are kept by those whose they are.
func settingNames() []string {
	return append(rulestore.DocumentSettings(), requireRollout, requireHolderToken)
}

// isOn reads a setting that is true or false.
func isOn(value json.RawMessage) bool { return string(bytes.TrimSpace(value)) == "true" }

type (
	settingsOutput struct {
		CacheControl string `header:"Cache-Control"`
		Body         struct {
			Version  uint64        `doc:"The version of the rules."           json:"version"`
			Settings []SettingView `doc:"Those that are set, by their names." json:"settings"`
			Names    []string      `doc:"All that may be set."                json:"names"`
		}
	}
	// SettingView is a setting as it is now.
	SettingView struct {
		Name    string          `doc:"Its name."                                      json:"name"`
		Version uint64          `doc:"The version that last wrote it; also its ETag." json:"version"`
		Value   json.RawMessage `doc:"Its value."                                     json:"value"`
	}
	// SettingInput names a setting.
	SettingInput struct {
		Name string `doc:"The name of the setting." path:"name"`
	}
	putSettingInput struct {
		SettingInput
		WriteOptions

		Force bool `doc:"Require tokens although some who are at work show none." query:"force"`

		RawBody []byte `contentType:"application/json"`
	}
	deleteSettingInput struct {
		SettingInput
		WriteOptions

		Force bool `doc:"Require tokens although some who are at work show none." query:"force"`
	}
)

func (d *Door) registerSettings(api huma.API) {
	const doc = "Settings are the parts of the rule document beside the rules, and requireRollout (true or false): " +
		"whether an enforcing change needs a rollout below 100, or force=true and a reason; and requireHolderToken (true or false): " +
		"whether services and holders without a token are refused; unless it is set they are once there is a token of role holder. " +
		"It is set to true only while none such was heard of lately without a token, or with force=true."

	register(d, api, route{
		id: "list-settings", method: http.MethodGet, path: "/admin/settings", summary: "Read the settings",
		need: need{role: Viewer, whole: true}, doc: doc,
	}, d.listSettings)
	register(d, api, route{
		id: "put-setting", method: http.MethodPut, path: "/admin/settings/{name}", summary: "Write a setting",
		need: need{role: Admin, whole: true}, doc: doc + " The body is its value.", text: true, takes: []string{"application/json"},
	}, d.putSetting)
	register(d, api, route{
		id: "delete-setting", method: http.MethodDelete, path: "/admin/settings/{name}", summary: "Take a setting away",
		need: need{role: Admin, whole: true}, doc: "It is as by default then.",
	}, d.deleteSetting)
}

func (d *Door) listSettings(ctx context.Context, _ *struct{}) (*settingsOutput, error) {
	state, err := d.view.state(ctx)
	if err != nil {
		return nil, err
	}

	out := &settingsOutput{CacheControl: noStore}
	out.Body.Version, out.Body.Settings, out.Body.Names = state.Rules, []SettingView{}, settingNames()

	for _, name := range settingNames() {
		if value, set := state.Settings[name]; set {
			out.Body.Settings = append(out.Body.Settings, SettingView{
				Name: name, Value: value, Version: state.Written[rulestore.SettingPlace(name)],
			})
		}
	}

	return out, nil
}

func (d *Door) putSetting(ctx context.Context, in *putSettingInput) (*writtenOutput, error) {
	if !json.Valid(in.RawBody) {
		return nil, unfitDocument([]ProblemItem{{Location: bodyPlace, Message: "is no JSON", Fix: "write its value as JSON"}})
	}

	if in.Name == requireRollout || in.Name == requireHolderToken {
		var on *bool
		if json.Unmarshal(in.RawBody, &on) != nil || on == nil {
			return nil, unfit("body.value", "is neither true nor false", "write true or false")
		}
	}

	return d.writeSetting(ctx, "settings.put", settingWrite{name: in.Name, value: in.RawBody, options: in.WriteOptions, force: in.Force})
}

func (d *Door) deleteSetting(ctx context.Context, in *deleteSettingInput) (*writtenOutput, error) {
	return d.writeSetting(ctx, "settings.delete", settingWrite{name: in.Name, options: in.WriteOptions, force: in.Force})
}

// settingWrite is a setting on its way to the store.
type settingWrite struct {
	name    string
	value   []byte // nil to take it away
	options WriteOptions
	force   bool
}

// writeSetting sets a setting, or takes it away.
func (d *Door) writeSetting(ctx context.Context, action string, w settingWrite) (*writtenOutput, error) {
	name, value, in := w.name, w.value, &w.options
	if !slices.Contains(settingNames(), name) {
		return nil, refuse(http.StatusNotFound, "there is no such setting: write one of %s", strings.Join(settingNames(), ", "))
	}

	state, err := d.view.fresh(ctx)
	if err != nil {
		return nil, err
	}

	place := rulestore.SettingPlace(name)
	have, there := state.Written[place]

	if value == nil && !there {
		return nil, refuse(http.StatusNotFound, "the setting is not set")
	}

	condition, err := conditionOf(have, in.IfMatch, "")
	if err != nil {
		return nil, err
	}

	if name == requireHolderToken && !w.force {
		if err := d.notShutOut(ctx, state, value); err != nil {
			return nil, err
		}
	}

	change := &rulestore.Change{
		Action: action, Target: name, Reason: in.Reason,
		Settings: []rulestore.SettingChange{{Name: name, Value: slices.Clone(value), If: condition}},
	}
	out := &writtenOutput{Etag: etag(have), CacheControl: noStore}
	out.Body = Written{DryRun: in.DryRun, Changes: changesBetween(state.Settings[name], value), Warnings: []Warning{}}

	if in.DryRun {
		return out, fits(state, change)
	}

	record, err := d.write(ctx, change, condition != rulestore.Whatever)
	if err != nil {
		return nil, err
	}

	if out.Body.Version = record.Version; value != nil {
		out.Etag = etag(record.Version)
	}

	return out, nil
}
