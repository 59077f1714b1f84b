package leasewayhttp

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/rule"
)

// problem is the body of a refusal, for encoding/json.
type problem struct {
	Type             string          `json:"type"`
	Title            string          `json:"title"`
	Status           int             `json:"status"`
	Detail           string          `json:"detail"`
	Reason           leaseway.Reason `json:"reason"`
	Rule             string          `json:"rule,omitempty"`
	Docs             string          `json:"docs,omitempty"`
	Limit            *int64          `json:"limit,omitempty"`
	Remaining        *int64          `json:"remaining,omitempty"`
	RetryAfterSec    int64           `json:"retryAfterSec,omitempty"`
	ViolatedPolicies []string        `json:"violated-policies,omitempty"` //nolint:tagliatelle // the draft's name
}

// A problem document is written by hand, and is what encoding/json makes of the same members, byte by byte.
func TestProblemsAreWhatJSONMakesOfThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := leaseway.Decision{
			Reason: rapid.SampledFrom([]leaseway.Reason{
				leaseway.ReasonOverLimit, leaseway.ReasonTooManyInFlight, leaseway.ReasonCostExceedsLimit, leaseway.ReasonBlocked,
				leaseway.ReasonMissingKey, leaseway.ReasonShedWorker, leaseway.ReasonShedFleet, leaseway.ReasonUnavailable,
				leaseway.ReasonDelayed, leaseway.ReasonInvalid,
			}).Draw(t, "reason"),
			Class: rapid.SampledFrom([]rule.Class{rule.ClassCritical, rule.ClassWrite, rule.ClassRead, rule.ClassTest}).Draw(t, "class"),
			Rule: rapid.OneOf(rapid.StringMatching(`[a-z0-9._-]{0,64}`), rapid.String(),
				rapid.SampledFrom([]string{`a"b\c`, "<&>", "ключ", "\x00\x7f\n"})).Draw(t, "rule"),
			Limit:     rapid.Int64Range(0, 1<<51).Draw(t, "limit"),
			Remaining: rapid.Int64Range(0, 3).Draw(t, "remaining"),
			Quota:     rapid.OneOf(rapid.Just(int64(1)), rapid.Int64Range(0, 1<<51)).Draw(t, "quota"),
			Window:    time.Duration(rapid.Int64Range(0, 366*86400*1e6).Draw(t, "µs of the window")) * time.Microsecond,
		}
		docs := rapid.SampledFrom([]string{"", "https://example.com/limits", "https://example.com/limits?a=b&c='d'"}).Draw(t, "docs")
		wait := rapid.Int64Range(0, 100_000).Draw(t, "seconds to wait")
		body := (&refusal{decision: &d, retryAfterSec: wait, docs: docs}).appendProblem(nil)

		var p problem
		if err := json.Unmarshal(body, &p); err != nil {
			t.Fatalf("%v in %s", err, body)
		}
		if again, err := json.Marshal(p); err != nil || !bytes.Equal(again, body) {
			t.Fatalf("the body is\n%s, encoding/json writes\n%s, %v", body, again, err)
		}
		if p.Reason != d.Reason || p.Status != StatusCode(d) || p.Rule != d.Rule || p.Docs != docs || p.RetryAfterSec != wait {
			t.Fatalf("%s of %+v", body, d)
		}
		if d.Matched() != (p.Limit != nil && *p.Limit == d.Limit && p.Remaining != nil && *p.Remaining == d.Remaining) {
			t.Fatalf("%s of %+v", body, d)
		}
		if len(p.ViolatedPolicies) > 1 || len(p.ViolatedPolicies) == 1 && p.ViolatedPolicies[0] != p.Rule {
			t.Fatalf("%s violates %q", body, p.ViolatedPolicies)
		}
		if strings.HasPrefix(p.Detail, "Rule ") && !strings.HasPrefix(p.Detail, "Rule "+strconv.Quote(d.Rule)+" ") {
			t.Fatalf("%q is about %q", p.Detail, d.Rule)
		}
	})
}
