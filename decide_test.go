package leaseway_test

import (
	"testing"

	"github.com/leaseway/leaseway"
)

// A decision that is written over another has nothing of it, be it decided at a
// glance, by several rules, by none or refused for what was asked.
func TestDecideIntoWritesOverWhatWasThere(t *testing.T) {
	l := embedded(t, `rules:
  - {id: search, scope: /v1/search, keyBy: user, limit: 5, window: 1h}
  - {id: both, scope: /v1/both, keyBy: user, limit: 3, window: 1h}
  - {id: two, scope: /v1/both, keyBy: user, limit: 4, window: 1h}`)

	ctx := t.Context()

	var d leaseway.Decision

	for _, path := range []string{"/v1/search", "/v1/both", "/elsewhere", "/v1/search", "/v1/both", "/v1/both", "/v1/both", "/v1/search"} {
		for _, cost := range []int64{1, -1, 9} {
			req := leaseway.Request{User: "in-place", Method: "GET", Path: path, Cost: cost}
			l.DecideInto(ctx, &req, &d)

			req.User = "by-value"
			want := l.Decide(ctx, req)

			if d.Allowed != want.Allowed || d.Reason != want.Reason || d.Rule != want.Rule || d.Limit != want.Limit ||
				d.Remaining != want.Remaining || d.Matched() != want.Matched() || d.Quota != want.Quota ||
				(d.RetryAfter > 0) != (want.RetryAfter > 0) || d.Class != want.Class || d.Origin != want.Origin {
				t.Errorf("%s at a cost of %d: %+v in place, %+v by value", path, cost, d, want)
			}
		}
	}
}
