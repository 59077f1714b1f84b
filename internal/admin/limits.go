package admin

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/leaseway/leaseway/internal/check"
	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/rule"
)

// LimitView is what one key has left under one rule.
type LimitView struct {
	Rule          string `doc:"The id of the rule."                                           json:"rule"`
	Key           string `doc:"Whose budget it is; of a secret key a hint."                   json:"key,omitempty"`
	Mode          string `doc:"enforce, shadow or off; a shadow rule refuses nothing."        json:"mode"`
	Switch        string `doc:"What the kill switch says; left out while it is on."           json:"switch,omitempty"`
	Allowed       bool   `doc:"Whether a token would be given now."                           json:"allowed"`
	Limit         int64  `doc:"The capacity for this key, in tokens."                         json:"limit"`
	Remaining     int64  `doc:"Tokens left."                                                  json:"remaining"`
	ResetSec      int64  `doc:"Seconds until the budget is whole, rounded up."                json:"resetSec"`
	RetryAfterSec int64  `doc:"Seconds until a token is given, rounded up; 0: now, or never." json:"retryAfterSec"`
	Reason        string `doc:"Why none would be given."                                      json:"reason,omitempty"`
}

type (
	// LimitsInput is which rules to look at.
	LimitsInput struct {
		Rule  string `doc:"Only this rule."                                              maxLength:"64"                query:"rule"`
		After string `doc:"The id after which the page begins: next of the page before." maxLength:"64"                query:"after"`
		Limit int    `default:"100"                                                      doc:"How many rules at most." maximum:"1000" minimum:"1" query:"limit"`
	}
	limitsByKeyInput struct {
		LimitsInput

		Key  string `doc:"The value of keyBy, whatever a rule counts by."        maxLength:"4096" query:"key"`
		User string `doc:"Instead of key: who the caller is."                    maxLength:"4096" query:"user"`
		IP   string `doc:"Instead of key, or beside user: the caller's address." maxLength:"64"   query:"ip"`
	}
	limitsByAttributesInput struct {
		LimitsInput

		Body struct {
			Key        string            `doc:"The value of keyBy, whatever a rule counts by." json:"key,omitempty"        maxLength:"4096"`
			Attributes *check.Attributes `doc:"Instead of key."                                json:"attributes,omitempty"`
		}
	}
	limitsOutput struct {
		CacheControl string `header:"Cache-Control"`
		Body         struct {
			Limits []LimitView `doc:"By rule."                                            json:"limits"`
			Next   string      `doc:"What to send as after for the next page; none: end." json:"next,omitempty"`
		}
	}
)

func (d *Door) registerLimits(api huma.API) {
	const doc = "It never consumes anything. "

	register(d, api, route{
		id: "get-limits", method: http.MethodGet, path: "/v1/limits", summary: "See what a key has left under each rule",
		need: need{role: Viewer, callers: true}, doc: doc + "Credentials do not belong into a URL: POST takes them.",
	}, func(ctx context.Context, in *limitsByKeyInput) (*limitsOutput, error) {
		if (in.Key == "") == (in.User == "" && in.IP == "") {
			return nil, unfit("query.key", "is not given once", "write key, or user and ip")
		}

		if in.Key != "" {
			return d.limits(ctx, &in.LimitsInput, in.Key, nil)
		}

		req, err := asked(&check.Attributes{User: in.User, IP: in.IP}, "query.")
		if err != nil {
			return nil, err
		}

		return d.limits(ctx, &in.LimitsInput, "", req)
	})
	register(d, api, route{
		id: "find-limits", method: http.MethodPost, path: "/v1/limits", summary: "See what a request has left under each rule",
		need: need{role: Viewer, callers: true},
		doc:  doc + "Without method, path, host and headers, rules are looked at whatever their scope is.",
	}, func(ctx context.Context, in *limitsByAttributesInput) (*limitsOutput, error) {
		if (in.Body.Key == "") == (in.Body.Attributes == nil) {
			return nil, unfit("body.key", "is not given once", "write key, or attributes")
		}

		if in.Body.Key != "" {
			return d.limits(ctx, &in.LimitsInput, in.Body.Key, nil)
		}

		req, err := asked(in.Body.Attributes, "body.attributes.")
		if err != nil {
			return nil, err
		}

		return d.limits(ctx, &in.LimitsInput, "", req)
	})
}

// limits are what a key, or a request, has left.
func (d *Door) limits(ctx context.Context, in *LimitsInput, key string, req *rule.Request) (*limitsOutput, error) {
	state, err := d.view.state(ctx)
	if err != nil {
		return nil, err
	}

	p := caller(ctx)
	out := &limitsOutput{CacheControl: noStore}
	out.Body.Limits = []LimitView{}

	for _, r := range state.Set.Rules {
		if r.ID <= in.After || in.Rule != "" && r.ID != in.Rule || !p.mayRule(r.ID) {
			continue
		}

		its, counts := keyFor(r, key, req, state.Set)
		if !counts {
			continue
		}

		if len(out.Body.Limits) == in.Limit {
			out.Body.Next = out.Body.Limits[in.Limit-1].Rule

			break
		}

		view, err := d.limitOf(ctx, state, r, its)

		switch {
		case err == nil:
			out.Body.Limits = append(out.Body.Limits, view)
		case !errors.Is(err, ErrUnknownRule): // a rule that this server does not have yet is in no list either
			return nil, explain(err, false)
		}
	}

	return out, nil
}

// keyFor is the key under one rule; false where the rule does not count by it.
func keyFor(r *rule.Rule, text string, req *rule.Request, set *rule.Set) (string, bool) {
	if req == nil {
		key, err := r.KeyOf(text)

		return key, err == nil
	}

	if req.Method != "" || req.Path != "" || req.Host != "" || len(req.Headers) > 0 {
		one := rule.Set{Rules: []*rule.Rule{r}, Classes: set.Classes}
		if !one.Explain(req)[0].Applies {
			return "", false
		}
	} else if slices.ContainsFunc(r.KeyBy, func(part rule.KeyPart) bool { return part.Kind == rule.KeyEndpoint }) {
		return "", false // which one is not said
	}

	key, status := r.AppendKey(nil, req)

	return string(key), status == rule.KeyReady
}

func (d *Door) limitOf(ctx context.Context, state *rulestore.State, r *rule.Rule, key string) (LimitView, error) {
	view := LimitView{Rule: r.ID, Key: shownKey(r, key), Mode: r.Mode.String()}

	if off := state.Set.Switches.OfRule(r); off.OffAt(d.config.Now()) {
		view.Switch = off.String()
	}

	if version := r.For(rule.Compact(key)); version != nil {
		view.Mode = version.Mode.String()
	} else {
		view.Mode = rule.Off.String() // the rollout has not reached it
	}

	level, err := d.config.Fleet.Level(ctx, r.ID, key)
	view.Allowed, view.Limit, view.Remaining, view.Reason = level.Allowed, level.Limit, level.Remaining, level.Reason
	view.ResetSec, view.RetryAfterSec = seconds(level.Reset), seconds(level.RetryAfter)

	return view, err
}

// seconds are whole ones, rounded up, so that nobody comes too early.
func seconds(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}

	return int64((d-1)/time.Second) + 1
}

// asked is the request of which attributes speak, which are sent below root.
func asked(attributes *check.Attributes, root string) (*rule.Request, error) {
	req, err := attributes.Request()
	req.Peek = true

	if field, ok := errors.AsType[*check.FieldError](err); ok {
		name := strings.TrimPrefix(field.Field, "attributes.")

		return nil, refuse(http.StatusUnprocessableEntity, "%s %s", name, field.Message).at(root+name, field.Message, "")
	}

	return &req, err
}
