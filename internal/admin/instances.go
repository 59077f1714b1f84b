package admin

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// InstanceView is a holder and the rules that it runs.
type InstanceView struct {
	Name        string    `doc:"Its configured name."                                   json:"name"`
	Incarnation string    `doc:"Random, and new at every start; hexadecimal digits."    json:"incarnation"`
	Version     uint64    `doc:"The version of the rules that it runs; 0: it has none." json:"version"`
	Behind      bool      `doc:"Whether there are newer rules."                         json:"behind"`
	Seen        time.Time `doc:"When it was last heard of."                             json:"seen"`

	Bare bool `doc:"Whether it shows no token, while there are tokens of role holder." json:"withoutToken,omitempty"`
}

type (
	instancesOutput struct {
		CacheControl string `header:"Cache-Control"`
		Body         struct {
			Version      uint64         `doc:"The newest version."                                                                                                               json:"version"`
			Behind       int            `doc:"How many of those listed run older rules."                                                                                         json:"behind"`
			More         int            `doc:"How many others are not listed."                                                                                                   json:"more,omitempty"`
			Coordinators int            `doc:"How many coordinators say so together: all of them hear of each other by the rule store."                                          json:"coordinators"`
			Partial      bool           `doc:"Whether there may be instances of other coordinators, of which this one hears nothing: without a rule store, or while it is away." json:"partial,omitempty"`
			Instances    []InstanceView `doc:"In the order of their names."                                                                                                      json:"instances"`
		}
	}
	whoOutput struct {
		CacheControl string `header:"Cache-Control"`
		Body         struct {
			Name  string   `doc:"Who this server takes you for: the author of what you change." json:"name"`
			Role  string   `doc:"viewer, operator or admin."                                    json:"role"`
			Rules []string `doc:"How the ids of your rules begin; left out for all."            json:"rules,omitempty"`
		}
	}
)

func (d *Door) registerFleet(api huma.API) {
	register(d, api, route{
		id: "list-instances", method: http.MethodGet, path: "/admin/instances", summary: "See who runs which version of the rules",
		need: need{role: Viewer},
	}, d.listInstances)
	register(d, api, route{
		id: "who-am-i", method: http.MethodGet, path: "/admin/whoami", summary: "See who this server takes you for",
		need: need{role: Viewer},
	}, func(ctx context.Context, _ *struct{}) (*whoOutput, error) {
		p := caller(ctx)
		out := &whoOutput{CacheControl: noStore}
		out.Body.Name, out.Body.Role, out.Body.Rules = p.name, p.role.String(), p.rules

		return out, nil
	})
}

func (d *Door) listInstances(ctx context.Context, _ *struct{}) (*instancesOutput, error) {
	roster, err := d.config.Fleet.Instances(ctx)
	if err != nil {
		return nil, explain(err, false)
	}

	tokens, err := d.tokensNow(ctx)
	if err != nil {
		return nil, explain(err, false)
	}

	out := &instancesOutput{CacheControl: noStore}
	out.Body.Coordinators, out.Body.Partial = roster.Coordinators, roster.Partial
	out.Body.Version, out.Body.More, out.Body.Instances = roster.Version, roster.More, make([]InstanceView, len(roster.Instances))

	for i, one := range roster.Instances {
		behind := one.Version < roster.Version
		if behind {
			out.Body.Behind++
		}

		out.Body.Instances[i] = InstanceView{
			Name: one.Name, Incarnation: strconv.FormatUint(one.Incarnation, 16), Version: one.Version, Behind: behind, Seen: one.Seen,
			Bare: one.Bare && tokens.holders(),
		}
	}

	return out, nil
}
