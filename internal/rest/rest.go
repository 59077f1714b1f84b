// Package rest is how Leaseway's doors speak HTTP and JSON: one API with one OpenAPI document for each listener, JSON without
// the escapes of HTML, and refusals as problems (RFC 9457) that name the field and never repeat what was sent.
//
//	check ──┐
//	        ├── Register ──▶ New(mux) ──▶ the routes, and GET /openapi.json
//	admin ──┘
//
// Its neighbours are those doors; internal/server decides which of them share a listener.
package rest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/danielgtaylor/huma/v2/validation"
)

// New makes the API of a listener, whose routes go to mux, and its OpenAPI document, with the given version. There are no pages
// that would load scripts from elsewhere.
func New(mux *http.ServeMux, version string) huma.API {
	config := huma.DefaultConfig("Leaseway", version)
	config.DocsPath, config.SchemasPath, config.CreateHooks = "", "", nil
	config.Formats = map[string]huma.Format{
		"application/json": {Marshal: marshal, Unmarshal: unmarshal},
		"json":             {Marshal: marshal, Unmarshal: unmarshal},
	}
	config.Transformers = []huma.Transformer{plainly}

	return humago.New(mux, config)
}

func marshal(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)

	return encoder.Encode(v)
}

const tooBig = " is no whole number that fits"

// unmarshal says of a value that no field takes which one it was, without the names of Go's types.
func unmarshal(text []byte, v any) error {
	err := json.Unmarshal(text, v)

	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return err
	}

	if wrong.Type.Kind() == reflect.Int64 { // the schema has seen to everything but its size
		return fmt.Errorf("%s%s: write a smaller one", wrong.Field, tooBig)
	}

	if wrong.Field == "" { // such as a number that no computer takes
		return errors.New("it has a value that nothing here takes: see GET /openapi.json")
	}

	return fmt.Errorf("%s has a value of another type: see GET /openapi.json", wrong.Field)
}

// oneOf is how huma begins what it has against a word that is none of a list.
const oneOf = "expected value to be one of "

// tooLong is how huma begins what it has against a long body; then come the bytes that it takes.
const tooLong = "request body is too large limit="

// plainly has the detail of a problem name the field, for those who read only that, and keeps it from repeating what was
// sent: it may be a credential, and answers end up in logs.
func plainly(_ huma.Context, _ string, v any) (any, error) {
	problem, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}

	if size, found := strings.CutPrefix(problem.Detail, tooLong); found {
		problem.Detail = "the body is longer than the " + size + " that are taken here: send less at a time"
	}

	for _, detail := range problem.Errors {
		detail.Value = nil

		if field, rest, found := strings.Cut(detail.Message, tooBig); found {
			detail.Location, detail.Message = "body."+field, strings.TrimSpace(tooBig)+rest
		}

		switch {
		case detail.Message == "unexpected property", detail.Message == "unknown query parameter":
			detail.Message = "is not known here: GET /openapi.json has the names"
		case strings.HasPrefix(detail.Message, oneOf):
			detail.Message = "is none of " + strings.Trim(strings.TrimPrefix(detail.Message, oneOf), `"`) + ": write one of them"
		case detail.Message == validation.MsgExpectedRFC3339DateTime:
			detail.Message = "is no time: write one such as 2026-12-01T18:00:00Z"
		case strings.HasPrefix(detail.Message, "expected value to match exactly one schema"): // there is one such field
			detail.Message = "expected a string or a list of strings"
		}
	}

	if problem.Detail == "validation failed" && len(problem.Errors) > 0 {
		first := problem.Errors[0]
		problem.Detail = strings.TrimPrefix(first.Location, "body.") + ": " + first.Message
	}

	return v, nil
}

// RequireJSON refuses other content before it is read. curl sends a form unless told otherwise, so the answer says how.
func RequireJSON(api huma.API) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		kind, _, err := mime.ParseMediaType(ctx.Header("Content-Type"))
		if kind == "application/json" || err == nil && strings.HasSuffix(kind, "+json") {
			next(ctx)

			return
		}

		// When it fails the client has gone.
		_ = huma.WriteErr(api, ctx, http.StatusUnsupportedMediaType,
			"the question is JSON: send the header Content-Type: application/json")
	}
}
