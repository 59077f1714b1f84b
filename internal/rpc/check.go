package rpc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"google.golang.org/grpc/codes"

	leasewayv1 "github.com/leaseway/leaseway/gen/leaseway/v1"
	"github.com/leaseway/leaseway/rule"
)

// maxAttributes bounds the headers, the descriptors and the entries of one request, each.
const maxAttributes = 256

// ErrUnknownRule is what a Decider returns for a rule that is not in force.
var ErrUnknownRule = errors.New("rpc: no rule has that id")

// Decider decides single requests for callers that hold no lease.
type Decider interface {
	// Check decides by all rules that match the request.
	Check(ctx context.Context, q Question) Verdict
	// CheckRule decides by one rule. The error is ErrUnknownRule.
	CheckRule(ctx context.Context, q RuleQuestion) (Verdict, error)
}

// Question is what Check is asked.
type Question struct {
	Request   rule.Request
	PassDelay bool // the caller holds the request for as long as Verdict.Delay says
}

// RuleQuestion is what CheckRule is asked.
type RuleQuestion struct {
	Rule, Key string
	Class     string // "" for what the rules say; otherwise a class
	Cost      int64  // tokens; 0 only looks
	PassDelay bool   // as in Question
}

// Verdict is the decision for one request.
type Verdict struct {
	Allowed    bool
	Reason     string        // why not; "" when allowed
	Class      string        // how much the request matters; "" where one rule was asked, and nobody said
	Rule       string        // id of the rule that it speaks of; "" when none matched
	Limit      int64         // its capacity for this key, tokens
	Remaining  int64         // tokens left
	RetryAfter time.Duration // until the same request can pass; 0 when waiting does not help
	Reset      time.Duration // until the capacity is whole again
	Delay      time.Duration // for which the caller is to hold an allowed request
}

// checkHandler is CheckService in front of a Decider.
type checkHandler struct {
	leasewayv1.UnimplementedCheckServiceServer

	decider Decider
}

// Check decides a request by all rules that match it.
func (h checkHandler) Check(ctx context.Context, msg *leasewayv1.CheckRequest) (*leasewayv1.CheckResponse, error) {
	req, fault := decodeRequest(msg)
	if fault != nil {
		return nil, fault.status()
	}

	verdict := h.decider.Check(ctx, Question{Request: *req, PassDelay: msg.GetPassDelay()})

	return &leasewayv1.CheckResponse{Decision: encodeVerdict(verdict)}, nil
}

// CheckRule decides by one rule, for a key that the caller made.
func (h checkHandler) CheckRule(ctx context.Context, msg *leasewayv1.CheckRuleRequest) (*leasewayv1.CheckRuleResponse, error) {
	cost := int64(1)
	if msg.Cost != nil {
		cost = msg.GetCost()
	}

	switch {
	case msg.GetRule() == "" || len(msg.GetRule()) > maxRule:
		return nil, (&fault{"rule", "is no rule's id; send 1 to 64 characters"}).status()
	case len(msg.GetKey()) > MaxKey:
		return nil, (&fault{"key", fmt.Sprintf("has %d bytes; send at most %d", len(msg.GetKey()), MaxKey)}).status()
	case cost < 0 || cost > rule.MaxCost:
		return nil, badCost(cost).status()
	}

	if _, ok := rule.ParseClass(msg.GetClass()); !ok && msg.GetClass() != "" {
		return nil, noClass("class", msg.GetClass()).status()
	}

	verdict, err := h.decider.CheckRule(ctx, RuleQuestion{
		Rule: msg.GetRule(), Key: string(msg.GetKey()), Class: msg.GetClass(), Cost: cost, PassDelay: msg.GetPassDelay(),
	})
	if errors.Is(err, ErrUnknownRule) {
		return nil, because(codes.NotFound, reasonUnknownRule, fmt.Sprintf("no rule has the id %q", msg.GetRule()))
	}

	if err != nil {
		return nil, because(codes.Unavailable, reasonCoordinator, err.Error())
	}

	return &leasewayv1.CheckRuleResponse{Decision: encodeVerdict(verdict)}, nil
}

func decodeRequest(msg *leasewayv1.CheckRequest) (*rule.Request, *fault) {
	for _, list := range []struct {
		field string
		size  int
	}{{"headers", len(msg.GetHeaders())}, {"descriptors", len(msg.GetDescriptors())}, {"entries", len(msg.GetEntries())}} {
		if list.size > maxAttributes {
			return nil, &fault{list.field, fmt.Sprintf("has %d entries; send at most %d", list.size, maxAttributes)}
		}
	}

	if msg.GetCost() < 0 || msg.GetCost() > rule.MaxCost {
		return nil, badCost(msg.GetCost())
	}

	req := &rule.Request{
		User: msg.GetUser(), APIKey: msg.GetApikey(), Method: msg.GetMethod(), Host: msg.GetHost(), Path: msg.GetPath(),
		Descriptors: msg.GetDescriptors(), Domain: msg.GetDomain(), Cost: msg.GetCost(), Peek: msg.Cost != nil && msg.GetCost() == 0,
	}

	for _, e := range msg.GetEntries() {
		req.Entries = append(req.Entries, rule.Entry{Key: e.GetKey(), Value: e.GetValue()})
	}

	for _, class := range []struct {
		field, text string
		into        *rule.Class
	}{{"class", msg.GetClass(), &req.Class}, {"lower_to", msg.GetLowerTo(), &req.LowerTo}} {
		var ok bool
		if *class.into, ok = rule.ParseClass(class.text); !ok && class.text != "" {
			return nil, noClass(class.field, class.text)
		}
	}

	if text := msg.GetIp(); text != "" {
		ip, err := netip.ParseAddr(text)
		if err != nil {
			return nil, &fault{"ip", fmt.Sprintf("%.60q is no address; send one such as 192.0.2.1 or 2001:db8::1, without a port", text)}
		}

		req.IP = ip
	}

	if len(msg.GetHeaders()) > 0 {
		headers := make(http.Header, len(msg.GetHeaders()))
		for _, h := range msg.GetHeaders() {
			headers.Add(h.GetName(), h.GetValue())
		}

		req.Headers = headers
	}

	return req, nil
}

func badCost(cost int64) *fault {
	return &fault{"cost", fmt.Sprintf("is %d; send 0 to look, or 1 to 2^40 tokens", cost)}
}

func encodeVerdict(v Verdict) *leasewayv1.Decision {
	return &leasewayv1.Decision{
		Allowed: v.Allowed, Reason: v.Reason, Class: v.Class, Rule: v.Rule, Limit: v.Limit, Remaining: v.Remaining,
		RetryAfterSec: wholeSeconds(v.RetryAfter), ResetSec: wholeSeconds(v.Reset),
		DelayMs: wholeMillis(v.Delay),
	}
}

// wholeSeconds rounds up: who comes back when told is never early.
func wholeSeconds(d time.Duration) int64 { return int64((max(0, d) + time.Second - 1) / time.Second) }

// wholeMillis rounds up, so that nothing is let out before its turn.
func wholeMillis(d time.Duration) int64 {
	return int64((max(0, d) + time.Millisecond - 1) / time.Millisecond)
}

func noClass(field, text string) *fault {
	return &fault{field, fmt.Sprintf("%.60q is no class; send critical, write, read or test", text)}
}
