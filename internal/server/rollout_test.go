package server

import (
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leaseway/leaseway/internal/admin"
	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/internal/rulestore/sqlite"
	"github.com/leaseway/leaseway/rule"
)

// rolling is a store with a plan, and what looks after it by a clock of the test.
type rolling struct {
	*rollouts

	t              *testing.T
	clock          time.Time
	of             uint64 // the version of the rule under which they were counted
	asked, refused int64
}

func roll(t *testing.T, plan admin.Plan) *rolling {
	t.Helper()

	store, err := sqlite.Open(t.Context(), sqlite.Config{Path: dataDir(t) + "/rules.db"})
	must(t, err)
	t.Cleanup(func() { must(t, store.Close()) })

	r := &rolling{t: t, clock: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
	plan.State, plan.Author, plan.Since = admin.PlanRunning, "ada", r.clock

	save(t, store, "rules: [{id: r, keyBy: user, limit: 10, window: 1m, rollout: 1, before: {limit: 20, window: 1m}}]")

	text, err := json.Marshal(plan)
	must(t, err)

	_, err = store.Write(t.Context(), &rulestore.Change{
		Author: "ada", Action: "rules.patch", Settings: []rulestore.SettingChange{{Name: admin.PlanSetting("r"), Value: text}},
	})
	must(t, err)

	r.rollouts = &rollouts{
		store: store, log: (&buffer{}).logger(),
		latest: func() *rulestore.State {
			state, err := store.Load(t.Context())
			must(t, err)

			return state
		},
		now: func() time.Time { return r.clock },
		counts: func(_ context.Context, id string, version uint64) (int64, int64) {
			if id != "r" || version != r.of {
				return 0, 0
			}

			return r.asked, r.refused
		},
	}
	r.of = r.latest().Set.Rule("r").Version

	return r
}

// after lets time pass, looks, and returns the rollout and the plan.
func (r *rolling) after(d time.Duration) (rollout string, plan admin.Plan) {
	r.t.Helper()

	r.clock = r.clock.Add(d)
	r.look(r.t.Context())

	state := r.latest()
	must(r.t, json.Unmarshal(state.Settings[admin.PlanSetting("r")], &plan))

	return state.Set.Rule("r").Rollout(), plan
}

func TestARolloutGoesOnStepByStep(t *testing.T) {
	r := roll(t, admin.Plan{Steps: []float64{1, 10.5, 100}, Every: 60, MaxRefused: 5})

	for _, row := range []struct {
		after   time.Duration
		rollout string
		state   admin.PlanState
	}{
		{59 * time.Second, "1", admin.PlanRunning},
		{time.Second, "10.5", admin.PlanRunning},
		{time.Second, "10.5", admin.PlanRunning},
		{59 * time.Second, "100", admin.PlanRunning},
		{60 * time.Second, "100", admin.PlanDone},
		{time.Hour, "100", admin.PlanDone},
	} {
		if rollout, plan := r.after(row.after); rollout != row.rollout || plan.State != row.state {
			t.Errorf("after %v more: %s %%, %s; want %s %%, %s", row.after, rollout, plan.State, row.rollout, row.state)
		}
	}

	if before := r.latest().Set.Rule("r").Before; before != nil {
		t.Errorf("a rule that all keys have still has another version: %+v", before)
	}
}

// When too much is refused it goes back, and stays there.
func TestARolloutThatRefusesTooMuchGoesBack(t *testing.T) {
	r := roll(t, admin.Plan{Steps: []float64{1, 10, 100}, Every: 60, MaxRefused: 5})
	r.asked, r.refused = 1000, 900 // at the first step
	r.of--

	if rollout, plan := r.after(time.Second); rollout != "1" || plan.State != admin.PlanRunning {
		t.Fatalf("what was refused under another version stops it: %s %%, %+v", rollout, plan)
	}

	r.of++
	r.asked, r.refused = fewRequests-1, fewRequests-1

	if rollout, plan := r.after(time.Second); rollout != "1" || plan.State != admin.PlanRunning {
		t.Fatalf("a few refusals stop it: %s %%, %+v", rollout, plan)
	}

	r.asked += 1000 // 19 of 1019
	if rollout, plan := r.after(time.Second); rollout != "1" || plan.State != admin.PlanRunning {
		t.Fatalf("less than 5 %% stops it: %s %%, %+v", rollout, plan)
	}

	r.refused += 100

	rollout, plan := r.after(time.Second)
	if rollout != "0" || plan.State != admin.PlanStopped || !strings.Contains(plan.Note, "refused") {
		t.Fatalf("%s %%, %+v", rollout, plan)
	}

	if rollout, plan := r.after(time.Hour); rollout != "0" || plan.State != admin.PlanStopped {
		t.Errorf("it goes on after it was stopped: %s %%, %+v", rollout, plan)
	}

	records, err := r.store.History(t.Context(), rulestore.Page{Limit: 1})
	must(t, err)

	if records[0].Author != "ada" || records[0].Action != "rules.rollout" || !strings.Contains(records[0].Reason, "refused") {
		t.Errorf("the audit says %+v", records[0])
	}
}

// A rule may be called like a part of the document: its plan is carried out all the same.
func TestARolloutOfARuleNamedLikeASetting(t *testing.T) {
	r := roll(t, admin.Plan{Steps: []float64{1, 100}, Every: 3600, MaxRefused: 5})
	save(t, r.store, "rules: [{id: headers, keyBy: user, limit: 10, window: 1m, rollout: 1, before: {limit: 20}}]")

	plan := r.latest().Settings[admin.PlanSetting("r")]
	_, err := r.store.Write(t.Context(), &rulestore.Change{Author: "ada", Action: "rules.patch", Settings: []rulestore.SettingChange{
		{Name: admin.PlanSetting("headers"), Value: plan}, {Name: "headers", Value: []byte(`"ietf"`)},
	}})
	must(t, err)

	r.counts = func(_ context.Context, id string, _ uint64) (int64, int64) {
		if id != "headers" {
			return 0, 0
		}

		return 1000, 900
	}
	r.after(time.Second)

	if got := r.latest().Set.Rule("headers").Rollout(); got != "0" {
		t.Errorf("at %s %% though nine of ten are refused, want 0", got)
	}
}

// Whoever sets the rollout past the plan, by whatever way, has the last word: the plan takes the rule from no key.
func TestAPlanDoesNotGoOnFromAnotherRollout(t *testing.T) {
	r := roll(t, admin.Plan{Steps: []float64{1, 10, 100}, Every: 60, MaxRefused: 5})
	save(t, r.store, "rules: [{id: r, keyBy: user, limit: 10, window: 1m}]")

	for _, d := range []time.Duration{time.Second, time.Minute, time.Hour} {
		if rollout, plan := r.after(d); rollout != "100" || plan.State != admin.PlanStopped || !strings.Contains(plan.Note, "by hand") {
			t.Errorf("after %v more: %s %%, %+v", d, rollout, plan)
		}
	}
}

// Two coordinators carry out one plan: each step is made once.
func TestTwoCoordinatorsAtOnePlan(t *testing.T) {
	r := roll(t, admin.Plan{Steps: []float64{1, 10, 100}, Every: 60, MaxRefused: 5})
	seen := r.latest() // by both, before either acts
	r.clock = r.clock.Add(time.Minute)
	r.latest = func() *rulestore.State { return seen }
	r.look(t.Context())
	r.look(t.Context())

	state, err := r.store.Load(t.Context())
	must(t, err)

	if got := state.Set.Rule("r").Rollout(); got != "10" {
		t.Errorf("at %s %% after one minute, want 10", got)
	}
}

// The whole of it: what the fleet refuses of the keys that are reached takes the rollout back.
func TestARolloutOfAServerGoesBack(t *testing.T) {
	r := start(t, "--rules-seed", file(t, "rules: [{id: things, scope: /v1/things, keyBy: user, limit: 100, window: 12h}]"))
	r.want(t, "PUT /admin/rules/things",
		`{"limit": 1, "windowSec": 43200, "keyBy": "user", "scope": "/v1/things", "rollout": 50, "before": {"limit": 100, "window": "12h"}}`,
		expected{http.StatusOK, "version"})
	r.want(t, "PATCH /admin/rules/things", `{"plan": {"steps": [50, 100], "everySec": 3600, "maxRefused": 5}}`,
		expected{http.StatusOK, "version"})

	eventually(t, "the rollout is taken back", func() bool {
		for user := range 40 {
			r.admitted(t, 2, things(strconv.Itoa(user), 1))
		}

		return strings.Contains(r.call(t, http.MethodGet, "/admin/rules/things", "").body, `"state":"stopped"`)
	})

	r.want(t, "GET /admin/rules/things", "", expected{http.StatusOK, `"rollout":0`})
	eventually(t, "nobody has the tight version", func() bool { return r.limit(t) == "100" })
}

// tightened is a rule that a share of users have with a lower limit, and a plan that keeps it so for long.
func (r *running) tightened(t *testing.T, maxRefused string) {
	t.Helper()
	r.want(t, "PUT /admin/rules/things",
		`{"limit": 1, "windowSec": 43200, "keyBy": "user", "scope": "/v1/things", "rollout": 50, "before": {"limit": 100, "window": "12h"}}`,
		expected{http.StatusOK, "version"})
	r.want(t, "PATCH /admin/rules/things", `{"plan": {"steps": [50, 100], "everySec": 3600, "maxRefused": `+maxRefused+`}}`,
		expected{http.StatusOK, "version"})
}

// reached are users who have the tightened rule.
func reached(t *testing.T, n int) (users []string) {
	t.Helper()

	set, err := rule.Parse("test", []byte("rules: [{id: things, keyBy: user, limit: 1, window: 12h, rollout: 50, before: {limit: 100}}]"))
	must(t, err)

	for i := 0; len(users) < n; i++ {
		user := "user-" + strconv.Itoa(i)
		if set.Rules[0].For(rule.Compact(user)) == set.Rules[0] {
			users = append(users, user)
		}
	}

	return users
}

// What is judged are requests, of which holders refuse most from memory: one user who sends a hundred times too many counts as a
// hundred, though a holder asks for it about once a second.
func TestARolloutIsJudgedByRequests(t *testing.T) {
	r := start(t, "--rules-seed", file(t, thingsRules))
	holder := start(t, "--coordinator", r.GRPC, "--coordinator-key", r.Key, "--deadline", patience.String())
	r.tightened(t, "40")

	users := reached(t, 61)
	eventually(t, "the holder has the tight version", func() bool {
		return strings.Contains(holder.call(t, http.MethodPost, "/v1/check", things(users[60], 0)).body, `"limit":1,`)
	})

	for _, user := range users[:60] { // each what it may
		holder.admitted(t, 1, things(user, 1))
	}

	running := func() bool {
		return strings.Contains(r.call(t, http.MethodGet, "/admin/rules/things", "").body, `"state":"running"`)
	}
	if !running() {
		t.Error("it was stopped, though nothing was refused")
	}

	holder.admitted(t, 100, things(users[0], 1))
	eventually(t, "a share of 100 of 160 stops it", func() bool {
		holder.admitted(t, 1, things(users[0], 1)) // what a holder counted it tells with its next ask

		return !running()
	})

	records := r.call(t, http.MethodGet, "/admin/rules/things/versions", "").body
	if !strings.Contains(records, "of requests were refused at 50 %") {
		t.Errorf("the audit says %s", records)
	}
}

// Requests of the whole fleet are judged, whichever coordinator heard of them: here neither sees enough to say anything.
func TestARolloutIsJudgedByTheWholeFleet(t *testing.T) {
	at := []string{"--rule-store", "sqlite:" + filepath.Join(t.TempDir(), "rules.db"), "--rules-seed", file(t, thingsRules)}
	coordinators := []*running{start(t, at...), start(t, at...)}
	coordinators[0].tightened(t, "5")

	users := reached(t, 2)
	for i, c := range coordinators {
		eventually(t, "everybody has the tight version", func() bool {
			all := c.instances(t)

			return all.Behind == 0 && len(all.Instances) == len(coordinators)
		})

		if n := c.admitted(t, fewRequests*2/3, things(users[i], 1)); n != 1 {
			t.Errorf("%d were admitted, want 1", n)
		}
	}

	eventually(t, "it is taken back", func() bool {
		return strings.Contains(coordinators[1].call(t, http.MethodGet, "/admin/rules/things", "").body, `"state":"stopped"`)
	})
}
