package admin

import (
	"net/http"
	"testing"
)

type limits struct {
	Limits []LimitView
	Next   string
}

func (l limits) of(t *testing.T, id string) LimitView {
	t.Helper()

	for _, one := range l.Limits {
		if one.Rule == id {
			return one
		}
	}

	t.Fatalf("no rule %s in %+v", id, l)

	return LimitView{}
}

// Looking costs nothing, however often somebody looks.
func TestLimitsSayWhatAKeyHasLeftAndNeverConsume(t *testing.T) {
	r := withRules(newRig(t))
	r.fleet.take(t, "user", "ann", 30)
	r.fleet.take(t, "global", "", 10)

	for range 3 {
		got := read[limits](r.send(http.MethodGet, "/v1/limits?key=ANN", "").want(http.StatusOK))
		if user := got.of(t, "user"); user.Key != "ann" || user.Remaining != 70 || user.Limit != 100 || !user.Allowed || user.ResetSec < 17 || user.ResetSec > 18 {
			t.Errorf("got %+v", user)
		}

		if got.of(t, "global").Remaining != 90 || got.of(t, "search").Remaining != 100 || len(got.Limits) != 3 {
			t.Errorf("got %+v", got)
		}
	}

	r.send(http.MethodPost, "/v1/limits", `{"key": "sk_live_x"}`).want(http.StatusOK, "sha256:").lacks(`"rule":"search","key":"sk_live_x"`)
	r.send(http.MethodGet, "/v1/limits?key=ann&rule=user", "").want(http.StatusOK, `"remaining":70`).lacks("global")

	// By attributes: only what counts by them, and, with a path, only what is about it.
	got := read[limits](r.send(http.MethodGet, "/v1/limits?user=ann", "").want(http.StatusOK))
	if got.of(t, "user").Remaining != 70 || len(got.Limits) != 2 { // and global
		t.Errorf("got %+v", got)
	}

	got = read[limits](r.send(http.MethodPost, "/v1/limits", `{"attributes": {"user": "ann", "apikey": "k", "path": "/v1/search", "method": "GET"}}`).
		want(http.StatusOK))
	if got.of(t, "pair").Key != "ann|GET /**" || got.of(t, "search").Remaining != 100 || len(got.Limits) != 4 {
		t.Errorf("got %+v", got)
	}

	got = read[limits](r.send(http.MethodPost, "/v1/limits", `{"attributes": {"apikey": "k", "path": "/v1/other"}}`).want(http.StatusOK))
	if len(got.Limits) != 1 { // global alone
		t.Errorf("got %+v", got)
	}

	page := read[limits](r.send(http.MethodGet, "/v1/limits?key=ann&limit=2", ""))
	if next := read[limits](r.send(http.MethodGet, "/v1/limits?key=ann&limit=2&after="+page.Next, "")); len(page.Limits) != 2 || len(next.Limits) != 1 || next.Next != "" {
		t.Errorf("got %+v, then %+v", page, next)
	}

	for _, path := range []string{"/v1/limits", "/v1/limits?key=a&user=b"} {
		r.send(http.MethodGet, path, "").want(http.StatusUnprocessableEntity)
	}

	for _, body := range []string{
		`{}`, `{"key": "a", "attributes": {}}`, `{"attributes": {"ip": "nowhere"}}`, `{"attributes": {"path": "v1"}}`, `{"attributes": {"usr": "a"}}`,
	} {
		r.send(http.MethodPost, "/v1/limits", body).want(http.StatusUnprocessableEntity)
	}
}

func TestLimitsSaySoOfWhatDecidesNothing(t *testing.T) {
	r := newRig(t)
	r.send(http.MethodPut, "/admin/rules/a", `{"limit": 5, "windowSec": 60, "keyBy": "user", "mode": "shadow"}`).want(http.StatusOK)
	r.send(http.MethodPut, "/admin/rules/b", `{"limit": 5, "windowSec": 60, "keyBy": "user", "rollout": 0}`).want(http.StatusOK)
	r.send(http.MethodPut, "/admin/rules/c", `{"limit": 5, "windowSec": 60, "keyBy": "user"}`).want(http.StatusOK)
	r.send(http.MethodPut, "/admin/switches/rule:c", `{"reason": "storm"}`).want(http.StatusOK)

	got := read[limits](r.send(http.MethodGet, "/v1/limits?key=x", "").want(http.StatusOK))
	if got.of(t, "a").Mode != "shadow" || got.of(t, "b").Mode != "off" || got.of(t, "c").Switch != "off: storm" {
		t.Errorf("got %+v", got)
	}
}

func TestABudgetIsResetAndRefunded(t *testing.T) {
	r := withRules(newRig(t))

	for _, act := range []string{"reset", "refund"} {
		r.fleet.take(t, "user", "ann", 30)
		body := `{"key": "Ann"}`

		if act == "refund" {
			body = `{"key": "Ann", "tokens": 30}`
		}

		path := "/admin/rules/user/" + act
		r.send(http.MethodPost, path+"?dryRun=true", body).want(http.StatusOK, `"dryRun":true`, `"remaining":70`)
		r.send(http.MethodPost, path+"?reason=ticket+5", body).want(http.StatusOK, `"remaining":100`)
		r.send(http.MethodGet, "/admin/audit?limit=1", "").want(http.StatusOK, "budgets."+act, "ticket 5", `user \"ann\"`)
		r.send(http.MethodPost, "/admin/rules/none/"+act, body).want(http.StatusNotFound)
		r.send(http.MethodPost, "/admin/rules/pair/"+act, body).want(http.StatusUnprocessableEntity, "body.key")
	}

	r.send(http.MethodPut, "/admin/rules/flight", `{"limit": 5, "algorithm": "concurrency", "keyBy": "user"}`).want(http.StatusOK)
	r.send(http.MethodPost, "/admin/rules/flight/reset", `{"key": "a"}`).want(http.StatusUnprocessableEntity, "in flight")

	for _, body := range []string{`{"key": "a"}`, `{"key": "a", "tokens": 0}`, `{"key": "a", "tokens": -1}`, `{"key": "a", "tokens": 9007199254740993}`} {
		r.send(http.MethodPost, "/admin/rules/user/refund", body).want(http.StatusUnprocessableEntity)
	}
}

func TestInstancesSayWhoIsBehind(t *testing.T) {
	r := newRig(t)
	r.fleet.roster = Roster{Version: 9, More: 2, Instances: []Instance{
		{Name: "a", Incarnation: 255, Version: 9, Seen: start}, {Name: "b", Incarnation: 1, Version: 8, Seen: start},
	}}
	r.send(http.MethodGet, "/admin/instances", "").want(http.StatusOK, `"version":9`, `"behind":1`, `"more":2`,
		`{"name":"a","incarnation":"ff","version":9,"behind":false,"seen":"2026-01-01T12:00:00Z"}`)
}

// What is wrong is said to be where it was sent.
func TestABadAddressIsNamedByItsPlace(t *testing.T) {
	r := newRig(t)
	r.send(http.MethodGet, "/v1/limits?ip=nowhere", "").
		want(http.StatusUnprocessableEntity, `"location":"query.ip"`, `"detail":"ip`).lacks("attributes", "nowhere")
	r.send(http.MethodPost, "/v1/limits", `{"attributes": {"ip": "nowhere"}}`).
		want(http.StatusUnprocessableEntity, `"location":"body.attributes.ip"`).lacks("nowhere")
}
