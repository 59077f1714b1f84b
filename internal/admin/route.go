package admin

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/leaseway/leaseway/internal/rest"
)

// maxBody is the largest body of a route that takes one thing, in bytes.
const maxBody = 1 << 20

// needKey is where the metadata of an operation says what it asks of its callers.
const needKey = "need"

// route is one operation of the API.
type route struct {
	id, method, path, summary, doc string
	need                           need
	// text says that the body is not read as JSON here: a document, or a stream.
	text bool
	// takes are the media types of a body that is text.
	takes []string
	// largest is the size of the largest body; 0 is maxBody.
	largest int64
}

// register adds a route with its handler.
func register[I, O any](d *Door, api huma.API, r route, handler func(context.Context, *I) (*O, error)) {
	op := huma.Operation{
		OperationID: r.id, Method: r.method, Path: r.path, Summary: r.summary, Description: r.describe(), Tags: []string{"admin"},
		Security:                     []map[string][]string{{"token": {}}},
		Metadata:                     map[string]any{needKey: r.need},
		RejectUnknownQueryParameters: true,
		MaxBodyBytes:                 maxBody,
		Middlewares:                  huma.Middlewares{d.guard(api, r.need)},
		Responses:                    map[string]*huma.Response{"default": problemResponse(api)},
	}

	if r.largest > 0 {
		op.MaxBodyBytes = r.largest
	}

	switch {
	case r.text:
		op.SkipValidateBody = true
		op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{}}

		for _, name := range r.takes {
			op.RequestBody.Content[name] = &huma.MediaType{}
		}
	case r.method == http.MethodPut || r.method == http.MethodPost || r.method == http.MethodPatch:
		op.Middlewares = append(op.Middlewares, rest.RequireJSON(api))
	}

	huma.Register(api, op, handler)

	if r.text { // huma takes what it does not read for bytes
		for _, media := range op.RequestBody.Content {
			media.Schema = &huma.Schema{Description: "As the description of the operation says."}
		}
	}
}

// secure tells the API that there are tokens.
func secure(api huma.API) {
	components := api.OpenAPI().Components
	if components.SecuritySchemes == nil {
		components.SecuritySchemes = map[string]*huma.SecurityScheme{}
	}

	components.SecuritySchemes["token"] = &huma.SecurityScheme{
		Type: "http", Scheme: "bearer", Description: "A token that leaseway token create, or POST /admin/tokens, made.",
	}
}

// describe says what the route does, and who may call it.
func (r *route) describe() string {
	who := "Role: " + r.need.role.String()

	switch {
	case r.need.callers:
		who += ", or a token of services and holders"
	case r.need.whole:
		who += ", for all rules"
	}

	if r.doc == "" {
		return who + "."
	}

	return r.doc + " " + who + "."
}

// problemResponse describes a refusal.
func problemResponse(api huma.API) *huma.Response {
	registry := api.OpenAPI().Components.Schemas

	return &huma.Response{
		Description: "A problem (RFC 9457)",
		Content: map[string]*huma.MediaType{
			"application/problem+json": {Schema: huma.SchemaFromType(registry, problemType())},
		},
	}
}

// writeProblem answers with a problem before a handler runs.
func writeProblem(api huma.API, ctx huma.Context, problem *Problem) {
	for name, values := range problem.GetHeaders() {
		for _, value := range values {
			ctx.SetHeader(name, value)
		}
	}

	ctx.SetHeader("Content-Type", problem.ContentType(""))
	ctx.SetStatus(problem.Status)

	// When it fails the client has gone.
	_ = api.Marshal(ctx.BodyWriter(), "application/json", problem)
}
