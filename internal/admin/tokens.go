package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/leaseway/leaseway/internal/rulestore"
)

// TokenView is a token without its secret.
type TokenView struct {
	ID      string    `doc:"Its id, which stands at its beginning."            json:"id"`
	Name    string    `doc:"Whose it is."                                      json:"name"`
	Role    string    `doc:"viewer, operator, admin or holder."                json:"role"`
	Rules   []string  `doc:"How the ids of its rules begin; left out for all." json:"rules,omitempty"`
	Created time.Time `doc:"When it was made."                                 json:"created"`
	Expires time.Time `doc:"When it ends; left out for never."                 json:"expires,omitzero"`
	Expired bool      `doc:"Whether it has ended."                             json:"expired,omitempty"`
}

type (
	tokensOutput struct {
		CacheControl string `header:"Cache-Control"`
		Body         struct {
			Tokens []TokenView `doc:"In the order of their ids." json:"tokens"`
		}
	}
	newTokenInput struct {
		WriteQuery

		Body struct {
			Name string `doc:"Whose it is: the author of what it does." json:"name" maxLength:"200" minLength:"1"`

			Role string `doc:"What it may do; holder is for services and API servers." enum:"viewer,operator,admin,holder" json:"role"`

			Rules []string `doc:"How the ids of its rules begin; left out for all." json:"rules,omitempty" maxItems:"100"`

			Expires    time.Time `doc:"When it ends; left out for never."           json:"expires,omitzero"`
			ExpiresSec int64     `doc:"Instead of expires: after how many seconds." json:"expiresInSec,omitempty" minimum:"1"`

			Require bool `doc:"With the role holder: refuse services and holders without a token from now on." json:"require,omitempty"`
		}
	}
	newTokenOutput struct {
		CacheControl string `header:"Cache-Control"`
		Status       int
		Body         struct {
			TokenView

			Token string `doc:"The token, which is shown this once and kept nowhere." json:"token,omitempty"`

			Required bool `doc:"With the role holder: whether those without a token are refused now." json:"required,omitempty"`

			Without []string `doc:"With the role holder: who showed none lately, as far as this server knows." json:"without,omitempty"`
		}
	}
	tokenInput struct {
		WriteQuery

		TokenID string `doc:"The id of the token." path:"tokenId"`
	}
)

func (d *Door) registerTokens(api huma.API) {
	register(d, api, route{
		id: "list-tokens", method: http.MethodGet, path: "/admin/tokens", summary: "List tokens", need: need{role: Admin, whole: true},
	}, d.listTokens)
	register(d, api, route{
		id: "create-token", method: http.MethodPost, path: "/admin/tokens", summary: "Make a token",
		need: need{role: Admin, whole: true},
		doc: "The first one has the role admin, for all rules: from then on calls without a token are refused, also those from " +
			"this machine. The first one of role holder shuts nobody out, unless require says so: services and holders without a token " +
			"are let in until the setting requireHolderToken is true.",
	}, d.createToken)
	register(d, api, route{
		id: "revoke-token", method: http.MethodDelete, path: "/admin/tokens/{tokenId}", summary: "Revoke a token",
		need: need{role: Admin, whole: true},
		doc:  "The last one that may do everything stays until there is another.",
	}, d.revokeToken)
}

func (d *Door) listTokens(ctx context.Context, _ *struct{}) (*tokensOutput, error) {
	book, err := d.tokensNow(ctx)
	if err != nil {
		return nil, err
	}

	out := &tokensOutput{CacheControl: noStore}
	out.Body.Tokens = []TokenView{}

	for id, t := range book.byID {
		out.Body.Tokens = append(out.Body.Tokens, tokenView(id, t, d.config.Now()))
	}

	slices.SortFunc(out.Body.Tokens, func(a, b TokenView) int { return strings.Compare(a.ID, b.ID) })

	return out, nil
}

func tokenView(id string, t *Token, now time.Time) TokenView {
	return TokenView{ID: id, Name: t.Name, Role: t.Role, Rules: t.Rules, Created: t.Created, Expires: t.Expires, Expired: !t.valid(now)}
}

func (d *Door) createToken(ctx context.Context, in *newTokenInput) (*newTokenOutput, error) {
	book, err := d.freshTokens(ctx)
	if err != nil {
		return nil, err
	}

	now := d.config.Now().UTC().Truncate(time.Second)
	t := Token{Name: in.Body.Name, Role: in.Body.Role, Rules: in.Body.Rules, Created: now, Expires: in.Body.Expires.UTC()}

	const longest = 100 * 365 * 24 * 3600 // seconds, which a time can take

	if in.Body.ExpiresSec > 0 {
		t.Expires = now.Add(time.Duration(min(in.Body.ExpiresSec, longest)) * time.Second)
	}

	switch {
	case in.Body.ExpiresSec > 0 && !in.Body.Expires.IsZero():
		return nil, unfit("body.expires", "says again what expiresInSec says", "keep one of them")
	case !t.valid(d.config.Now()):
		return nil, unfit("body.expires", "is over already", "write a later time, or leave it out")
	case slices.Contains(t.Rules, ""):
		return nil, unfit("body.rules", "has an empty text, with which every id begins", "leave rules out, if all are meant")
	case t.Role != HolderRole && in.Body.Require:
		return nil, unfit("body.require", "is about the role holder", "leave it out")
	case t.Role == HolderRole && len(t.Rules) > 0:
		return nil, unfit("body.rules", "is not for holders, who need all rules", "leave it out")
	case book.admins(now) == 0 && (t.Role != Admin.String() || len(t.Rules) > 0 || !t.Expires.IsZero()):
		return nil, unfit("body.role", "would lock everybody out: there is no token of role admin for all rules yet",
			"make one of role admin first, without rules and without an end")
	}

	drawn, err := NewToken(t)
	if err != nil {
		return nil, explain(err, false)
	}

	out := &newTokenOutput{CacheControl: noStore, Status: http.StatusCreated}
	out.Body.TokenView = tokenView(drawn.ID, &t, now)
	settings := []rulestore.SettingChange{drawn.Setting}

	if t.Role == HolderRole {
		settings = append(settings, d.gracefully(book, in.Body.Require)...)
		after := newTokenBook(&rulestore.State{Settings: mapsWith(book.state.Settings, settings)})
		out.Body.Required = after.required() || d.config.Callers != nil

		if out.Body.Without, err = d.without(ctx); err != nil {
			return nil, err
		}
	}

	if in.DryRun {
		out.Status = http.StatusOK

		return out, nil
	}

	if _, err := d.write(ctx, &rulestore.Change{
		Action: "tokens.create", Target: drawn.ID, Reason: in.Reason, Settings: settings,
	}, false); err != nil {
		return nil, err
	}

	out.Body.Token = drawn.Text

	return out, nil
}

// gracefully is what is set beside a new token for holders: the first one shuts nobody out that is at work without, unless that
// is asked for, or was settled before.
func (d *Door) gracefully(book *tokenBook, require bool) []rulestore.SettingChange {
	value, set := book.state.Settings[requireHolderToken]

	switch {
	case require && !isOn(value):
		return []rulestore.SettingChange{{Name: requireHolderToken, Value: json.RawMessage("true")}}
	case !require && !set && !book.holders() && d.config.Callers == nil:
		return []rulestore.SettingChange{{Name: requireHolderToken, Value: json.RawMessage("false"), If: rulestore.Absent}}
	}

	return nil
}

// freshTokens are those that the store has now.
func (d *Door) freshTokens(ctx context.Context) (*tokenBook, error) {
	state, err := d.view.fresh(ctx)
	if err != nil {
		return nil, err
	}

	return newTokenBook(state), nil
}

// revokeToken revokes a token of the state that it looked at: or two of the last who may do everything would revoke each
// other. Who changes something else at the same time is no reason to refuse it.
func (d *Door) revokeToken(ctx context.Context, in *tokenInput) (*doneOutput, error) {
	for range flips {
		out, err := d.tryRevoke(ctx, in)
		if problem, ok := errors.AsType[*Problem](err); !ok || !problem.raced {
			return out, err
		}
	}

	return nil, refuse(http.StatusConflict, "others write all the time: try again")
}

func (d *Door) tryRevoke(ctx context.Context, in *tokenInput) (*doneOutput, error) {
	book, err := d.freshTokens(ctx)
	if err != nil {
		return nil, err
	}

	now, t := d.config.Now(), book.byID[in.TokenID]

	switch {
	case t == nil:
		return nil, refuse(http.StatusNotFound, "there is no token with this id (GET /admin/tokens lists them)")
	case t.Role == Admin.String() && len(t.Rules) == 0 && t.valid(now) && book.admins(now) == 1:
		return nil, refuse(http.StatusConflict, "this is the last token that may do everything: make another one first")
	}

	out := &doneOutput{CacheControl: noStore, Body: Done{DryRun: in.DryRun}}
	if in.DryRun {
		return out, nil
	}

	record, err := d.write(ctx, &rulestore.Change{
		Action: "tokens.revoke", Target: in.TokenID, Reason: in.Reason, If: rulestore.Condition(book.state.Rules),
		Settings: []rulestore.SettingChange{{Name: tokenPrefix + in.TokenID}},
	}, false)
	if err != nil {
		return nil, err
	}

	out.Body.Version = record.Version

	return out, nil
}
