package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/rule"
)

// Problem is a refusal, as RFC 9457 has it, with the places of what is wrong.
type Problem struct { //nolint:errname // RFC 9457 calls it so
	Type   string        `doc:"A URI that names the kind; about:blank says no more than the status." json:"type,omitempty"`
	Title  string        `doc:"The status in words."                                                 json:"title"`
	Status int           `doc:"The HTTP status."                                                     json:"status"`
	Detail string        `doc:"What is wrong, and what to do about it."                              json:"detail"`
	Errors []ProblemItem `doc:"Each thing that is wrong with what was sent."                         json:"errors,omitempty"`

	retry    int  // seconds until it is worth while to ask again; 0 says nothing
	readOnly bool // the rules are where this API cannot write
	raced    bool // something was changed meanwhile: another try may do
}

// ProblemItem is one thing that is wrong.
type ProblemItem struct {
	Location string `doc:"Where, such as body.limit or query.after."           json:"location,omitempty"`
	Message  string `doc:"What is wrong there."                                json:"message"`
	Fix      string `doc:"What to write instead."                              json:"fix,omitempty"`
	Line     int    `doc:"The line of the text that was sent; 1 is the first." json:"line,omitempty"`
	Column   int    `doc:"The column, in characters; 1 is the first."          json:"column,omitempty"`
}

// Error is the detail.
func (p *Problem) Error() string { return p.Detail }

// GetStatus implements huma.StatusError.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType implements huma.ContentTypeFilter.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// GetHeaders implements huma.HeadersError.
func (p *Problem) GetHeaders() http.Header {
	headers := http.Header{"Cache-Control": {"no-store"}}

	if p.retry > 0 {
		headers.Set("Retry-After", strconv.Itoa(p.retry))
	}

	if p.Status == http.StatusUnauthorized {
		headers.Set("WWW-Authenticate", `Bearer realm="leaseway"`)
	}

	return headers
}

// refuse makes a problem; the detail says what is wrong and what to do.
func refuse(status int, format string, args ...any) *Problem {
	return &Problem{Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, args...)}
}

// at adds a place to a problem.
func (p *Problem) at(location, message, fix string) *Problem {
	p.Errors = append(p.Errors, ProblemItem{Location: location, Message: message, Fix: fix})

	return p
}

// What is named often: the body of a request, and a field of rules and overrides.
const (
	bodyPlace  = "body"
	limitField = "limit"
)

// unfit is a field that cannot be as it was sent.
func unfit(location, message, fix string) *Problem {
	_, field, inside := strings.Cut(location, ".")
	if !inside {
		field = location
	}

	return refuse(http.StatusUnprocessableEntity, "%s: %s (%s)", field, message, fix).at(location, message, fix)
}

// retrySoon is how long to wait for a store that is busy or away, in seconds.
const retrySoon = 2

// explain makes a problem of any error. conditional says that the caller named the version that it changes.
func explain(err error, conditional bool) error {
	if problem, ok := errors.AsType[*Problem](err); ok {
		return problem
	}

	stored, ok := errors.AsType[*rulestore.Error](err)
	if !ok {
		switch {
		case errors.Is(err, ErrUnknownRule):
			return refuse(http.StatusNotFound, "%v", ErrUnknownRule)
		case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
			return refuse(http.StatusServiceUnavailable, "the time for an answer is over: %v", err)
		}

		return refuse(http.StatusServiceUnavailable, "this cannot be answered now: %v", err)
	}

	problem := refuse(statusOf(stored.Code, conditional), "%s", err.Error())
	problem.readOnly, problem.raced = stored.Code == rulestore.ReadOnly, stored.Code == rulestore.Conflict

	switch bad, isDocument := errors.AsType[rule.Errors](err); {
	case isDocument:
		problem.Errors = itemsOf(bad, bodyPlace, 0)
	case stored.Code == rulestore.Unavailable || stored.Code == rulestore.Busy:
		problem.retry = retrySoon
	default:
		problem.Errors = []ProblemItem{{Location: stored.Place, Message: stored.Message, Fix: stored.Fix}}
	}

	return problem
}

// statusOf is the HTTP status of what a store says.
func statusOf(code rulestore.Code, conditional bool) int {
	switch code {
	case rulestore.Invalid:
		return http.StatusUnprocessableEntity
	case rulestore.Conflict:
		if conditional {
			return http.StatusPreconditionFailed
		}

		return http.StatusConflict
	case rulestore.ReadOnly:
		return http.StatusConflict
	case rulestore.Full:
		return http.StatusInsufficientStorage
	case rulestore.Busy, rulestore.Unavailable:
	}

	return http.StatusServiceUnavailable
}

// itemsOf are the errors of a document whose first lines, so many, are none of the sender's.
func itemsOf(errs rule.Errors, root string, linesBefore int) []ProblemItem {
	items := make([]ProblemItem, 0, len(errs))

	for _, e := range errs {
		location := root
		if e.Field != "" {
			location += "." + e.Field
		}

		items = append(items, ProblemItem{
			Location: location, Message: e.Message, Fix: e.Fix, Line: max(0, e.Line-linesBefore), Column: e.Column,
		})
	}

	return items
}

// unfitDocument is a document that package rule does not take.
func unfitDocument(items []ProblemItem) *Problem {
	problem := refuse(http.StatusUnprocessableEntity, "the document cannot be used")
	problem.Errors = items

	if len(items) > 0 {
		first := items[0]
		problem.Detail = fmt.Sprintf("%s: %s (%s)", strings.TrimPrefix(first.Location, "body."), first.Message, first.Fix)

		if first.Line > 0 {
			problem.Detail = fmt.Sprintf("line %d: %s", first.Line, problem.Detail)
		}
	}

	return problem
}

func problemType() reflect.Type { return reflect.TypeFor[Problem]() }
