// Package check is the door for services that ask before they act: "may this caller do that?", as one HTTP call with a JSON
// body, whatever language the service is written in.
//
//	POST /v1/check                  {attributes, cost, passDelay}  the rules are matched as for a real request
//	POST /v1/rules/{ruleId}/check   {key, class, cost, passDelay}         one rule, one key
//	GET  /openapi.json              what the two calls take and give
//
// Both outcomes are answers to a question, so both have status 200; only a question that cannot be understood is an error,
// in problem+json, which names the field. Every check charges the caller's budget unless its cost is 0, which only looks.
//
// A check cannot hold a request as the middleware does. The delay that a leaky bucket gives is part of the answer, up to
// MaxDelay; what would wait for longer is refused, and charged nothing, unless the caller says that it passes delays on.
//
// Below it is the SDK: Check and CheckRule call the same Limiter as every other door, and the gRPC door calls them too.
// Above it is internal/server, which decides who may call.
package check

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/rule"
)

// The bounds of one question. A body is at most 1 MiB in all.
const (
	// MaxCost is the highest cost, in tokens.
	MaxCost = rule.MaxCost
	// MaxText is the longest key or attribute, in bytes.
	MaxText = 64 << 10
	// MaxEntries is how many headers, how many descriptors, and how many entries of one, a question may have.
	MaxEntries = 128
)

// Door answers questions from a Limiter.
type Door struct {
	limiter *leaseway.Limiter
}

// New returns a Door to limiter.
func New(limiter *leaseway.Limiter) *Door { return &Door{limiter: limiter} }

// Attributes are what the caller knows about a request. An empty one is unknown, and counts as missing.
type Attributes struct {
	User        string            `doc:"Who the caller is."                             json:"user,omitempty"`
	IP          string            `doc:"The caller's address, such as 2001:db8::7."     json:"ip,omitempty"`
	APIKey      string            `doc:"The credential that the caller presented."      json:"apikey,omitempty"`
	Method      string            `doc:"The HTTP method."                               json:"method,omitempty"`
	Path        string            `doc:"The path, from its first slash, as received."   json:"path,omitempty"`
	Host        string            `doc:"The host, with or without a port."              json:"host,omitempty"`
	Headers     map[string]Values `doc:"HTTP headers, each a string or a list of them." json:"headers,omitempty"`
	Descriptors map[string]string `doc:"Names and values of your own."                  json:"descriptors,omitempty"`
	Domain      string            `doc:"What a proxy's descriptor belongs to."          json:"domain,omitempty"`
	Entries     []Entry           `doc:"A proxy's descriptor as a whole, in its order." json:"entries,omitempty"`

	Class   string `doc:"How much the request matters; left out, the rules say." enum:"critical,write,read,test" json:"class,omitempty"`
	LowerTo string `doc:"What the caller itself says of that; it only lowers."   enum:"critical,write,read,test" json:"lowerTo,omitempty"`
}

// Entry is one name and value of a descriptor whose order matters.
type Entry struct {
	Key   string `doc:"The name."                                         json:"key"`
	Value string `doc:"The value; left out, it is empty, as on the wire." json:"value,omitempty"`
}

// Check asks whether a request with these attributes may pass, under all rules that match it. A nil cost is the rules' own,
// which is 1 token unless they say otherwise; 0 looks and charges nothing. passDelay is as in Decide. The error is a *FieldError.
func (d *Door) Check(ctx context.Context, attributes Attributes, cost *int64, passDelay bool) (leaseway.Decision, error) {
	req, err := attributes.Request()
	if err != nil {
		return leaseway.Decision{}, err
	}

	if err := setCost(&req, cost); err != nil {
		return leaseway.Decision{}, err
	}

	return d.Decide(ctx, req, passDelay), nil
}

// RuleQuestion asks one rule whether a key may spend tokens.
type RuleQuestion struct {
	Rule, Key string
	Class     string // "" is test for an API key that is one of test mode by the rules' classes, else a write
	Cost      *int64 // as in Check
	PassDelay bool   // as in Decide
}

// CheckRule answers a question to one rule. The error is a *FieldError; that of a rule which does not exist is Unknown.
func (d *Door) CheckRule(q *RuleQuestion) (leaseway.Decision, error) {
	req := leaseway.Request{}
	if err := setCost(&req, q.Cost); err != nil {
		return leaseway.Decision{}, err
	}

	class, ok := rule.ParseClass(q.Class)
	if !ok && q.Class != "" {
		return leaseway.Decision{}, unfit("class", "is no class: write critical, write, read or test")
	}

	limit, err := d.limiter.Rule(q.Rule)
	if err != nil {
		return leaseway.Decision{}, unknownRule(q.Rule, err)
	}

	canonical, n := q.Key, req.Cost

	set := d.limiter.Rules() // with the rule in it, unless that has just gone
	if r := ruleOf(set, q.Rule); r != nil {
		if canonical, err = keyOf(r, q.Key); err != nil {
			return leaseway.Decision{}, err
		}

		n = r.CostOf(&req)

		if class == rule.ClassUnset && isTestKey(set, r, q.Key) {
			class = rule.ClassTest
		}
	}

	if class != rule.ClassUnset {
		limit = limit.As(class)
	}

	look := func() leaseway.Decision { return limit.Peek(canonical) }
	if req.Peek {
		return d.looked(look(), q.PassDelay), nil
	}

	return d.charged(limit.TakeN(canonical, n), q.PassDelay, look), nil
}

func ruleOf(set *rule.Set, id string) *rule.Rule {
	if set == nil {
		return nil
	}

	return set.Rule(id)
}

// isTestKey reports whether the rules say of an API key, by which r counts, that it is one of test mode: then a check and a real
// request share the budget of that.
func isTestKey(set *rule.Set, r *rule.Rule, key string) bool {
	return len(r.KeyBy) == 1 && r.KeyBy[0].Kind == rule.KeyAPIKey && set.ClassOf(&leaseway.Request{APIKey: key}) == rule.ClassTest
}

// setCost puts a cost into req, and refuses what no request can cost.
func setCost(req *leaseway.Request, cost *int64) error {
	switch {
	case cost == nil:
	case *cost < 0:
		return malformed("cost", fmt.Sprintf("is %d, and a cost is 0 or more tokens: 0 looks, and only the SDK gives tokens back", *cost))
	case *cost > MaxCost:
		return unfit("cost", fmt.Sprintf("is %d, above the highest cost of %d tokens", *cost, int64(MaxCost)))
	case *cost == 0:
		req.Peek = true
	default:
		req.Cost = *cost
	}

	return nil
}

// keyOf is the key under which r counts text, so that a check and a real request of the same caller share a budget.
func keyOf(r *rule.Rule, text string) (string, error) {
	if len(text) > MaxText {
		return "", unfit("key", fmt.Sprintf("has %d bytes, and may have %d", len(text), MaxText))
	}

	if len(r.KeyBy) != 1 {
		return nonEmpty(text)
	}

	part, req := r.KeyBy[0], leaseway.Request{}

	switch part.Kind {
	case rule.KeyGlobal:
		return "", nil
	case rule.KeyUser:
		req.User = text
	case rule.KeyAPIKey:
		req.APIKey = text
	case rule.KeyHeader:
		req.Headers = map[string][]string{part.Name: {text}}
	case rule.KeyDescriptor:
		req.Descriptors = map[string]string{part.Name: text}
	case rule.KeyIP:
		if _, err := netip.ParsePrefix(text); err == nil {
			return text, nil // an IPv6 network, as answers and metrics write it
		}

		ip, err := netip.ParseAddr(text)
		if err != nil {
			return "", unfit("key", "is no address, and the rule counts by ip: write one such as 192.0.2.7 or 2001:db8::7")
		}

		req.IP = ip
	default:
		return nonEmpty(text)
	}

	key, _ := r.AppendKey(nil, &req)

	return nonEmpty(string(key))
}

func nonEmpty(key string) (string, error) {
	if key == "" {
		return "", unfit("key", "is empty, and the rule counts by key: name whose budget to spend")
	}

	return key, nil
}

func unknownRule(id string, err error) error {
	var failure *leaseway.Error
	if errors.As(err, &failure) && failure.Code == leaseway.CodeUnknownRule {
		return &FieldError{Kind: Unknown, Field: "ruleId", Message: fmt.Sprintf("%.80q is not a rule in force", id)}
	}

	return err
}
