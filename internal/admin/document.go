package admin

import (
	"context"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/rule"
)

type (
	documentOutput struct {
		Etag         string `header:"Etag"`
		CacheControl string `header:"Cache-Control"`
		Body         Document
	}
	applyInput struct {
		WriteOptions

		Force bool `doc:"Enforce at once although requireRollout is on; with reason."                query:"force"`
		Prune bool `doc:"Delete the rules and parts that are not in the document, but for switches." query:"prune"`

		RawBody []byte `contentType:"application/json"`
	}
	// Applied is what a document changed, or would change.
	Applied struct {
		DryRun   bool            `doc:"Whether nothing was written."                                   json:"dryRun,omitempty"`
		Version  uint64          `doc:"The version that the write made; 0: nothing was to be changed." json:"version"`
		Places   []AppliedChange `doc:"What it changed, by place."                                     json:"places"`
		Warnings []Warning       `doc:"What is allowed, and perhaps not meant."                        json:"warnings"`
	}
	// AppliedChange is what it changed of one rule or setting.
	AppliedChange struct {
		Place   string   `doc:"Which rule or setting, such as rules search-per-key." json:"place"`
		What    string   `doc:"created, changed or deleted."                         json:"what"`
		Changes []Change `doc:"The fields."                                          json:"changes"`
	}
	appliedOutput struct {
		Etag         string `header:"Etag"`
		CacheControl string `header:"Cache-Control"`
		Body         Applied
	}
)

func (d *Door) registerDocument(api huma.API) {
	register(d, api, route{
		id: "get-document", method: http.MethodGet, path: "/admin/document", summary: "Read all rules as one document",
		need: need{role: Viewer},
		doc:  "It can be kept as a file, and applied again. Those who have some rules get these, and nothing beside them.",
	}, d.getDocument)
	register(d, api, route{
		id: "apply-document", method: http.MethodPut, path: "/admin/document", summary: "Apply a rule document", need: need{role: Operator},
		doc: "The body is a rule document in YAML or JSON. Its rules, and what it has beside them, take the place of what " +
			"there is, all in one version; other rules stay unless `prune` is set, and kill switches stay unless the document " +
			"has `switches`. Parts beside the rules need the role admin.",
		text: true, takes: []string{"application/json", "application/yaml"}, largest: rule.MaxDocument,
	}, d.applyDocument)
}

func (d *Door) getDocument(ctx context.Context, _ *struct{}) (*documentOutput, error) {
	state, err := d.view.state(ctx)
	if err != nil {
		return nil, err
	}

	p := caller(ctx)
	set, settings := state.Set, state.Settings

	if !p.whole() {
		mine := slices.DeleteFunc(slices.Clone(set.Rules), func(r *rule.Rule) bool { return !p.mayRule(r.ID) })
		set, settings = &rule.Set{Rules: mine}, nil
	}

	rows, err := rulestore.Canonical(unnumbered(set))
	if err != nil {
		return nil, explain(err, false)
	}

	return &documentOutput{
		Etag: etag(state.Rules), CacheControl: noStore, Body: Document{rulestore.Document(0, rows, settings)},
	}, nil
}

// unnumbered is the rules of a set without their versions.
func unnumbered(set *rule.Set) *rule.Set {
	bare := &rule.Set{Rules: make([]*rule.Rule, len(set.Rules))}

	for i, r := range set.Rules {
		one := *r
		one.Version = 0
		bare.Rules[i] = &one
	}

	return bare
}
