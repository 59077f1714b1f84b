package check

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/rest"
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

		Class string `doc:"How much it matters: test spends budgets of its own." enum:"critical,write,read,test" json:"class,omitempty"`
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

// Register adds the door's routes to api.
func (d *Door) Register(api huma.API) {
	huma.Register(api, operation(api, "check", "/v1/check", "Ask whether a request may pass"),
		func(ctx context.Context, in *checkInput) (*explainedOutput, error) {
			return d.explained(ctx, in)
		})

	huma.Register(api, operation(api, "check-rule", "/v1/rules/{ruleId}/check", "Ask one rule about one key"),
		func(_ context.Context, in *checkRuleInput) (*checkOutput, error) {
			return output(d.CheckRule(&RuleQuestion{
				Rule: in.RuleID, Key: in.Body.Key, Class: in.Body.Class, Cost: in.Body.Cost, PassDelay: in.Body.PassDelay,
			}))
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

func operation(api huma.API, id, path, summary string) huma.Operation {
	return huma.Operation{
		OperationID: id, Method: http.MethodPost, Path: path, Summary: summary,
		Description: "Status 200 for both outcomes: the answer says `allowed`. " +
			"An allowed question charges the budget, unless its cost is 0. Of a field that is there twice the last counts, and half a " +
			"surrogate pair in a text is read as U+FFFD: send each field once, and whole characters.",
		Errors: []int{http.StatusBadRequest, http.StatusNotFound, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity},

		MaxBodyBytes: maxBody,
		Middlewares:  huma.Middlewares{rest.RequireJSON(api)},
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
