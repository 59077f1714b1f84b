package server

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestStoreIsBrokenFromAnUnansweredAskUntilAnAnsweredOne(t *testing.T) {
	var answered, unanswered int64

	watch := &storeWatch{counts: func() (int64, int64) { return answered, unanswered }}
	start := time.Unix(0, 0)

	for i, row := range []struct {
		at                   time.Duration
		answered, unanswered int64 // more than in the row before
		broken               bool
	}{
		{0, 0, 0, false},
		{1 * time.Second, 10, 0, false},
		{2 * time.Second, 0, 3, true},
		{3 * time.Second, 0, 0, true}, // nobody asked: as before
		{4 * time.Second, 0, 1, true},
		{5 * time.Second, 1, 0, false},
		{6 * time.Second, 1, 1, false}, // some are answered: not the whole store
		{7 * time.Second, 0, 1, true},
		{17 * time.Second, 0, 0, true},
		{18 * time.Second, 0, 0, false}, // forgotten, or it could stay broken for want of traffic
	} {
		answered, unanswered = answered+row.answered, unanswered+row.unanswered

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
