package admin

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"iter"
	"net/http"
	"strings"
	"testing"

	"github.com/leaseway/leaseway/internal/rulestore"
)

// exec does by hand what nobody should.
func (r *rig) exec(statement string, args ...any) {
	r.t.Helper()

	db, err := sql.Open("sqlite", r.path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		r.t.Fatal(err)
	}
	defer db.Close()

	if _, err := db.ExecContext(r.t.Context(), statement, args...); err != nil {
		r.t.Fatal(err)
	}
}

// A row that is no rule is shown as such, keeps no other from being changed, and can be written anew.
func TestRowsThatArePutInByHand(t *testing.T) {
	r := newRig(t)
	r.send(http.MethodPut, searchPath, searchRule).want(http.StatusOK)
	r.exec("INSERT INTO rules (id, version, document) VALUES ('broken', 1, '{\"id\":\"broken\",\"limit\":-5}')")
	r.exec("INSERT INTO overrides (rule, stored_key, hint, tokens, burst, lease_us, expires_us, note, version) VALUES ('search', x'ff', '', 5, 0, 0, 0, '', 1)")
	r.send(http.MethodPut, "/admin/rules/other", searchRule).want(http.StatusOK)

	r.send(http.MethodGet, "/admin/rules", "").want(http.StatusOK, `"total":2`, `{"place":"rules broken","message":"`)
	r.send(http.MethodGet, "/admin/rules/broken", "").want(http.StatusNotFound, "is no rule")
	r.send(http.MethodGet, searchPath+"/overrides", "").want(http.StatusOK, `"overrides":[]`, `"bad":[{"place":"overrides search`)
	r.send(http.MethodGet, "/admin/overrides/export", "").want(http.StatusOK)
	r.send(http.MethodPut, "/admin/rules/broken", searchRule).want(http.StatusOK)
	r.send(http.MethodGet, "/admin/rules", "").want(http.StatusOK, `"total":3`).lacks(`"bad"`)

	r.exec("UPDATE rules SET document = 'no JSON' WHERE id = 'broken'")
	r.send(http.MethodPut, "/admin/rules/other", searchRule).want(http.StatusOK)
	r.send(http.MethodDelete, "/admin/rules/broken", "").want(http.StatusOK)
	r.send(http.MethodGet, "/admin/rules", "").want(http.StatusOK, `"total":2`).lacks(`"bad"`)
}

// breaksOff is a store whose overrides end with an error.
type breaksOff struct {
	rulestore.Store

	after int
}

func (b breaksOff) Overrides(ctx context.Context, query rulestore.Query) iter.Seq2[rulestore.Override, error] {
	return func(yield func(rulestore.Override, error) bool) {
		n := 0
		for o, err := range b.Store.Overrides(ctx, query) {
			if n == b.after {
				break
			}

			n++

			if !yield(o, err) {
				return
			}
		}

		yield(rulestore.Override{}, &rulestore.Error{Code: rulestore.Unavailable, Message: "the rule store does not answer"})
	}
}

// Nobody takes a part of an export for the whole.
func TestAnExportThatBreaksOffShowsIt(t *testing.T) {
	r := withRules(newRig(t))
	r.send(http.MethodPost, "/admin/overrides/import", lines(20_000), "Content-Type", typeJSONLines).want(http.StatusOK)

	down := newRig(t)
	down.over(&breaksOff{Store: r.store})
	down.send(http.MethodGet, "/admin/overrides/export", "").want(http.StatusServiceUnavailable, "does not answer")
	down.send(http.MethodGet, "/admin/rules/user/overrides", "").want(http.StatusServiceUnavailable)

	part := newRig(t)
	part.over(&breaksOff{Store: r.store, after: 10_000})

	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, part.server.URL+"/admin/overrides/export", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}

	response, err := part.server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()

	if text, err := io.ReadAll(response.Body); err == nil {
		t.Errorf("got %d lines, and no error", strings.Count(string(text), "\n"))
	}
}

func TestADoorNeedsWhatItWorksWith(t *testing.T) {
	whole := Config{Store: newRig(t).store, Latest: func() *rulestore.State { return nil }, Fleet: &fleet{}}
	if _, err := New(whole); err != nil {
		t.Fatal(err)
	}

	for name, without := range map[string]func(*Config){
		"Store":  func(c *Config) { c.Store = nil },
		"Latest": func(c *Config) { c.Latest = nil },
		"Fleet":  func(c *Config) { c.Fleet = nil },
	} {
		config := whole
		without(&config)

		if _, err := New(config); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

func TestAFailureThatNobodyKnowsIsNoFault(t *testing.T) {
	for _, row := range []struct {
		err    error
		status int
	}{
		{errors.New("strange"), http.StatusServiceUnavailable},
		{context.Canceled, http.StatusServiceUnavailable},
		{ErrUnknownRule, http.StatusNotFound},
		{&rulestore.Error{Code: rulestore.Busy}, http.StatusServiceUnavailable},
		{&rulestore.Error{Code: rulestore.Conflict}, http.StatusConflict},
		{&rulestore.Error{Code: rulestore.Invalid}, http.StatusUnprocessableEntity},
	} {
		if problem, ok := errors.AsType[*Problem](explain(row.err, false)); !ok || problem.Status != row.status {
			t.Errorf("%v: got %+v", row.err, problem)
		}
	}
}
