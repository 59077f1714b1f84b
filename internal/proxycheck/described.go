package proxycheck

import (
	"maps"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"
)

const description = "For a reverse proxy that asks before it forwards a request: the status says whether the request may pass, and the " +
	"fields are for the client. Whose request it is stands in the fields that the proxy sets; the others are the client's own. The peer " +
	"must be one of --trusted-proxies and, where services need a token, send it as X-Leaseway-Token. A proxy that asks by its client's " +
	"method may do so: with profile in the query every method is this question. docs/proxies.md has configurations."

// Describe adds the door's question to the OpenAPI document of api; it serves nothing. Proxies read no document: it is for people.
func Describe(api huma.API) {
	names := make([]any, 0, len(profiles))
	for _, name := range slices.Sorted(maps.Keys(profiles)) {
		names = append(names, name)
	}

	field := func(in, name, doc string) *huma.Param {
		return &huma.Param{Name: name, In: in, Description: doc, Schema: &huma.Schema{Type: huma.TypeString}}
	}

	profile := field("query", "profile", "Which proxy asks.")
	profile.Required, profile.Schema.Enum = true, names

	api.OpenAPI().AddOperation(&huma.Operation{
		OperationID: "check-for-proxy", Method: http.MethodGet, Path: "/v1/check",
		Summary: "Ask, as a reverse proxy, whether a client's request may pass", Description: description,
		Parameters: []*huma.Param{
			profile,
			field("query", "accel", "A location of nginx to which X-Accel-Redirect leads a request that may pass."),
			field("header", "X-Forwarded-Method", "The method of the client's request; nginx: X-Original-Method."),
			field("header", "X-Forwarded-Uri", "Its path and query; nginx: X-Original-Uri."),
			field("header", hostField, "Its host."),
			field("header", "X-Forwarded-For", "Its client and the proxies that it came through."),
			field("header", TokenField, "The token of a service, where one is required."),
		},
		Responses: map[string]*huma.Response{
			"204": {Description: "It may pass; the fields say what is left. With accel: 200, and X-Accel-Redirect."},
			"429": {Description: "It is over a limit: pass this on to the client. " +
				"For nginx, without accel: 403, and this as X-Leaseway-Status."},
			"503": {Description: "It was shed, or its rules cannot be decided: as 429."},
			"400": {Description: "The proxy does not say what the request is: for its operator."},
			"403": {Description: "The peer is no trusted proxy, or shows no token: for its operator, without X-Leaseway-Status."},
		},
	})
}
