package check

import (
	"context"
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

	"github.com/leaseway/leaseway"
)

// maxBody is the longest question, in bytes.
const maxBody = 1 << 20

type checkInput struct {
	Body struct {
		Attributes Attributes `doc:"What is known about the request."                       json:"attributes"`
		Cost       *int64     `doc:"Tokens to take; 0 only looks. Default: the rules' own." json:"cost,omitempty"`
		PassDelay  bool       `doc:"The request is held for delayMs, however long it is."   json:"passDelay,omitempty"`
		Explain    bool       `doc:"Say of every rule whether it applies, and why not."     json:"explain,omitempty"`
	}
}

type checkRuleInput struct {
	RuleID string `doc:"The id of the rule." path:"ruleId"`

	Body struct {
		Key  string `doc:"Whose budget to spend; a rule that counts globally ignores it." json:"key"`
		Cost *int64 `doc:"Tokens to take; 0 only looks. Default: the rule's own."         json:"cost,omitempty"`

		PassDelay bool `doc:"The request is held for delayMs, however long it is." json:"passDelay,omitempty"`
	}
}

type checkOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         Answer
}

type explainedOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         Explained
}

// Register adds the door's routes to mux, and version to the OpenAPI document.
func (d *Door) Register(mux *http.ServeMux, version string) {
	api := humago.New(mux, config(version))
	api.UseMiddleware(requireJSON(api))

	huma.Register(api, operation("check", "/v1/check", "Ask whether a request may pass"),
		func(ctx context.Context, in *checkInput) (*explainedOutput, error) {
			return d.explained(ctx, in)
		})

	huma.Register(api, operation("check-rule", "/v1/rules/{ruleId}/check", "Ask one rule about one key"),
		func(_ context.Context, in *checkRuleInput) (*checkOutput, error) {
			return output(d.CheckRule(in.RuleID, in.Body.Key, in.Body.Cost, in.Body.PassDelay))
		})
}

// explained answers a question, with the rules if they are asked for.
func (d *Door) explained(ctx context.Context, in *checkInput) (*explainedOutput, error) {
	plain, err := output(d.Check(ctx, in.Body.Attributes, in.Body.Cost, in.Body.PassDelay))
	if err != nil {
		return nil, err
	}

	body := &Explained{Answer: plain.Body}
	if in.Body.Explain {
		if body, err = d.Explain(plain.Body, in.Body.Attributes, in.Body.Cost); err != nil {
			return nil, err
		}
	}

	return &explainedOutput{CacheControl: plain.CacheControl, Body: *body}, nil
}

func operation(id, path, summary string) huma.Operation {
	return huma.Operation{
		OperationID: id, Method: http.MethodPost, Path: path, Summary: summary,
		Description: "Status 200 for both outcomes: the answer says `allowed`. " +
			"An allowed question charges the budget, unless its cost is 0.",
		Errors: []int{http.StatusBadRequest, http.StatusNotFound, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity},

		MaxBodyBytes: maxBody,
	}
}

// config is JSON only, and no page that would load scripts from elsewhere.
func config(version string) huma.Config {
	c := huma.DefaultConfig("Leaseway", version)
	c.DocsPath, c.SchemasPath, c.CreateHooks = "", "", nil
	c.Formats = map[string]huma.Format{
		"application/json": {Marshal: marshal, Unmarshal: unmarshal},
		"json":             {Marshal: marshal, Unmarshal: unmarshal},
	}
	c.Transformers = []huma.Transformer{plainly}

	return c
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
		return fmt.Errorf("%s%s: write one of at most %d", wrong.Field, tooBig, int64(MaxCost))
	}

	return fmt.Errorf("%s has a value of another type: see GET /openapi.json", wrong.Field)
}

// plainly has the detail of a problem name the field, for those who read only that, and keeps it from repeating what was
// sent: it may be a credential, and answers end up in logs.
func plainly(_ huma.Context, _ string, v any) (any, error) {
	problem, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}

	for _, detail := range problem.Errors {
		detail.Value = nil

		if field, rest, found := strings.Cut(detail.Message, tooBig); found {
			detail.Location, detail.Message = "body."+field, strings.TrimSpace(tooBig)+rest
		}

		if detail.Message == "unexpected property" {
			detail.Message = "is not known here: GET /openapi.json has the names"
		}

		if strings.HasPrefix(detail.Message, "expected value to match exactly one schema") { // there is one such field
			detail.Message = "expected a string or a list of strings"
		}
	}

	if problem.Detail == "validation failed" && len(problem.Errors) > 0 {
		first := problem.Errors[0]
		problem.Detail = strings.TrimPrefix(first.Location, "body.") + ": " + first.Message
	}

	return v, nil
}

// requireJSON refuses other content before it is read. curl sends a form unless told otherwise, so the answer says how.
func requireJSON(api huma.API) func(huma.Context, func(huma.Context)) {
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

// output turns a decision into a response, and a field error into a problem.
func output(decision leaseway.Decision, err error) (*checkOutput, error) {
	if err == nil && decision.Reason == leaseway.ReasonInvalid {
		err = malformed("attributes", "are not a request that the rules can decide")
	}

	var field *FieldError

	switch {
	case err == nil:
		return &checkOutput{CacheControl: "no-store", Body: NewAnswer(decision)}, nil
	case errors.As(err, &field):
		return nil, problem(field)
	default:
		return nil, huma.Error503ServiceUnavailable("the limiter cannot answer now")
	}
}

func problem(e *FieldError) error {
	status, location := http.StatusBadRequest, "body."+e.Field

	switch e.Kind {
	case Malformed:
	case Unfit:
		status = http.StatusUnprocessableEntity
	case Unknown:
		status, location = http.StatusNotFound, "path."+e.Field
	}

	return huma.NewError(status, e.Error(), &huma.ErrorDetail{Message: e.Message, Location: location})
}
