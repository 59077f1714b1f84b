package rpc

import (
	"context"
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	leasewayv1 "github.com/leaseway/leaseway/gen/leaseway/v1"
	"github.com/leaseway/leaseway/rule"
)

// verdicts is a Decider that tells what it was asked.
type verdicts struct {
	asked chan any
	says  Verdict
	fails error
}

func (v verdicts) Check(_ context.Context, q Question) Verdict {
	if v.asked != nil {
		v.asked <- q
	}

	return v.says
}

func (v verdicts) CheckRule(_ context.Context, q RuleQuestion) (Verdict, error) {
	if v.asked != nil {
		v.asked <- q
	}

	return v.says, v.fails
}

func TestCheckAsksWithAllThatIsKnown(t *testing.T) {
	v := verdicts{asked: make(chan any, 1), says: Verdict{
		Reason: "over_limit", Rule: "r", Limit: 9, Remaining: 2, RetryAfter: time.Second + 1, Reset: 3 * time.Second, Delay: 5*time.Millisecond + 1,
	}}
	api := leasewayv1.NewCheckServiceClient(raw(t, serve(t, ServerConfig{Decider: v})))

	resp, err := api.Check(t.Context(), &leasewayv1.CheckRequest{
		User: "u", Apikey: "k", Ip: "2001:db8::1", Method: "GET", Host: "h", Path: "/p", Cost: proto.Int64(3),
		Headers:     []*leasewayv1.Header{{Name: "x-a", Value: "1"}, {Name: "X-A", Value: "2"}},
		Descriptors: map[string]string{"d": "e"}, PassDelay: true,
		Domain: "edge", Entries: []*leasewayv1.Entry{{Key: "service", Value: "cart"}, {Key: "method"}, {Key: "service", Value: "pay"}},
	})
	if err != nil {
		t.Fatal(err)
	}

	want := Question{PassDelay: true, Request: rule.Request{
		User: "u", APIKey: "k", IP: netip.MustParseAddr("2001:db8::1"), Method: "GET", Host: "h", Path: "/p", Cost: 3,
		Headers: map[string][]string{"X-A": {"1", "2"}}, Descriptors: map[string]string{"d": "e"},
		Domain: "edge", Entries: []rule.Entry{{Key: "service", Value: "cart"}, {Key: "method"}, {Key: "service", Value: "pay"}},
	}}
	if got := (<-v.asked).(Question); !reflect.DeepEqual(got, want) {
		t.Errorf("asked %+v, want %+v", got, want)
	}

	decision := &leasewayv1.Decision{Reason: "over_limit", Rule: "r", Limit: 9, Remaining: 2, RetryAfterSec: 2, ResetSec: 3, DelayMs: 6}
	if got := resp.GetDecision(); !proto.Equal(got, decision) {
		t.Errorf("decision %v, want %v", got, decision)
	}
}

func TestCostsOfAQuestion(t *testing.T) {
	v := verdicts{asked: make(chan any, 1), says: Verdict{Allowed: true}}
	api := leasewayv1.NewCheckServiceClient(raw(t, serve(t, ServerConfig{Decider: v})))

	for _, c := range []struct {
		cost       *int64
		all        int64 // what Check asks for
		peek       bool
		ofOne      int64 // what CheckRule asks for
		refusedFor string
	}{
		{nil, 0, false, 1, ""}, // the rule's own
		{proto.Int64(0), 0, true, 0, ""},
		{proto.Int64(1), 1, false, 1, ""},
		{proto.Int64(rule.MaxCost), rule.MaxCost, false, rule.MaxCost, ""},
		{proto.Int64(rule.MaxCost + 1), 0, false, 0, "cost"},
		{proto.Int64(-1), 0, false, 0, "cost"},
	} {
		var all, ofOne any

		_, err := api.Check(t.Context(), &leasewayv1.CheckRequest{Cost: c.cost})
		if err == nil {
			all = <-v.asked
		}

		_, errOfOne := api.CheckRule(t.Context(), &leasewayv1.CheckRuleRequest{Rule: "r", Key: []byte{0xff}, Cost: c.cost, PassDelay: c.peek, Class: "read"})
		if errOfOne == nil {
			ofOne = <-v.asked
		}

		if c.refusedFor != "" {
			for _, err := range []error{err, errOfOne} {
				if f := detail[*errdetails.BadRequest](err).GetFieldViolations(); len(f) != 1 || f[0].GetField() != c.refusedFor {
					t.Errorf("cost %d: error %v", *c.cost, err)
				}
			}

			continue
		}

		if err != nil || errOfOne != nil {
			t.Fatal(err, errOfOne)
		}

		if got := all.(Question).Request; got.Cost != c.all || got.Peek != c.peek {
			t.Errorf("Check asked for cost %d, peek %v; want %d, %v", got.Cost, got.Peek, c.all, c.peek)
		}

		if want := (RuleQuestion{Rule: "r", Key: "\xff", Class: "read", Cost: c.ofOne, PassDelay: c.peek}); ofOne != want {
			t.Errorf("CheckRule asked %v, want %v", ofOne, want)
		}
	}
}

func TestQuestionsThatCannotBeReadNameTheField(t *testing.T) {
	api := leasewayv1.NewCheckServiceClient(raw(t, serve(t, ServerConfig{Decider: verdicts{}})))

	many := map[string]string{}
	for i := range maxAttributes + 1 {
		many[strings.Repeat("d", i+1)] = ""
	}

	for field, req := range map[string]*leasewayv1.CheckRequest{
		"ip":          {Ip: "192.0.2.1:80"},
		"headers":     {Headers: slices.Repeat([]*leasewayv1.Header{{}}, maxAttributes+1)},
		"descriptors": {Descriptors: many},
		"entries":     {Entries: slices.Repeat([]*leasewayv1.Entry{{}}, maxAttributes+1)},
	} {
		_, err := api.Check(t.Context(), req)
		if f := detail[*errdetails.BadRequest](err).GetFieldViolations(); status.Code(err) != codes.InvalidArgument || len(f) != 1 || f[0].GetField() != field {
			t.Errorf("%s: error %v", field, err)
		}
	}

	for field, req := range map[string]*leasewayv1.CheckRuleRequest{
		"rule":  {},
		"key":   {Rule: "r", Key: make([]byte, MaxKey+1)},
		"class": {Rule: "r", Class: "urgent"},
	} {
		_, err := api.CheckRule(t.Context(), req)
		if f := detail[*errdetails.BadRequest](err).GetFieldViolations(); len(f) != 1 || f[0].GetField() != field {
			t.Errorf("%s: error %v", field, err)
		}
	}
}

func TestErrorsOfADecider(t *testing.T) {
	for want, fails := range map[codes.Code]error{codes.NotFound: ErrUnknownRule, codes.Unavailable: errors.New("closed"), codes.OK: nil} {
		api := leasewayv1.NewCheckServiceClient(raw(t, serve(t, ServerConfig{Decider: verdicts{fails: fails}})))
		if _, err := api.CheckRule(t.Context(), &leasewayv1.CheckRuleRequest{Rule: "r"}); status.Code(err) != want {
			t.Errorf("%v became %v", fails, err)
		}
	}
}
