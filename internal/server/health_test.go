package server

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestStoreIsBrokenFromAnUnansweredAskUntilAnAnsweredOne(t *testing.T) {
	var (
		answered, unanswered int64
		unbeaten             bool
	)

	watch := &storeWatch{counts: func() (int64, int64, bool) { return answered, unanswered, unbeaten }}
	start := time.Unix(0, 0)

	for i, row := range []struct {
		at                   time.Duration
		answered, unanswered int64 // more than in the row before
		broken               bool
		unbeaten             bool
	}{
		{0, 0, 0, false, false},
		{1 * time.Second, 10, 0, false, false},
		{2 * time.Second, 0, 3, true, false},
		{3 * time.Second, 0, 0, true, false}, // nobody asked: as before
		{4 * time.Second, 0, 1, true, false},
		{5 * time.Second, 1, 0, false, false},
		{6 * time.Second, 1, 1, false, false}, // some are answered: not the whole store
		{7 * time.Second, 0, 1, true, false},
		{17 * time.Second, 0, 0, true, false},
		{18 * time.Second, 0, 0, false, false}, // forgotten, or it could stay broken for want of traffic
		{19 * time.Second, 0, 0, true, true},   // nobody asks, and the store is gone all the same
		{20 * time.Second, 1, 0, false, true},
		{21 * time.Second, 0, 0, true, true},
		{22 * time.Second, 0, 0, false, false},
	} {
		answered, unanswered, unbeaten = answered+row.answered, unanswered+row.unanswered, row.unbeaten

		if got := watch.fault(start.Add(row.at)) != ""; got != row.broken {
			t.Errorf("step %d, at %v: broken %v, want %v", i, row.at, got, row.broken)
		}
	}
}

// Who watches the server sees that the rules in force are not those of the file, and that they are again.
func TestARefusedRuleFileShowsAtReadyz(t *testing.T) {
	path := file(t, thingsRules)
	r := start(t, "--rules", path)
	r.want(t, "GET /readyz", "", expected{http.StatusOK, `"degraded":[]`})

	replace(t, path, strings.Replace(thingsRules, "100", "-1", 1))
	eventually(t, "it is said", func() bool {
		return strings.Contains(r.call(t, http.MethodGet, "/readyz", "").body, `"degraded":["the rule file cannot be used`) &&
			r.metric(t, "leaseway_rules_reload_failed") == "1"
	})

	replace(t, path, thingsRules)
	eventually(t, "it is over", func() bool {
		return strings.Contains(r.call(t, http.MethodGet, "/readyz", "").body, `"degraded":[]`) &&
			r.metric(t, "leaseway_rules_reload_failed") == "0"
	})
}
