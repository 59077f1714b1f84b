package admin

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/leaseway/leaseway/internal/rulestore"
)

type records struct {
	Records []RecordView
	Next    uint64
}

func TestVersionsAreListedComparedAndGoneBackTo(t *testing.T) {
	r := newRig(t)
	put := func(limit int, reason string) {
		r.send(http.MethodPut, searchPath+"?reason="+reason, fmt.Sprintf(`{"limit": %d, "windowSec": 60}`, limit)).want(http.StatusOK)
	}
	put(100, "first")  // 1
	put(200, "second") // 2
	r.send(http.MethodPut, "/admin/rules/other", searchRule).want(http.StatusOK)
	put(50, "third") // 4

	page := read[records](r.send(http.MethodGet, searchPath+"/versions?limit=2", "").want(http.StatusOK))
	if len(page.Records) != 2 || page.Records[0].Version != 4 || page.Records[0].Reason != "third" || page.Records[1].Version != 2 ||
		page.Records[0].Author != "loopback" || !page.Records[0].At.Equal(start) {
		t.Fatalf("got %+v", page)
	}

	page = read[records](r.send(http.MethodGet, fmt.Sprintf("%s/versions?limit=2&before=%d", searchPath, page.Next), ""))
	if len(page.Records) != 1 || page.Records[0].Version != 1 || page.Next != 0 {
		t.Fatalf("got %+v", page)
	}

	r.send(http.MethodGet, searchPath+"/versions/2", "").want(http.StatusOK, `"limit":200`)
	r.send(http.MethodGet, searchPath+"/versions/3", "").want(http.StatusNotFound, "did not change this rule")
	r.send(http.MethodGet, searchPath+"/diff", "").want(http.StatusOK, `"from":2,"to":4`, `{"field":"limit","before":200,"after":50}`)
	r.send(http.MethodGet, searchPath+"/diff?from=1", "").want(http.StatusOK, `"from":1,"to":4`, `"before":100,"after":50`)
	r.send(http.MethodGet, searchPath+"/diff?to=1", "").want(http.StatusOK, `"from":0,"to":1`, `"after":100`)
	r.send(http.MethodGet, searchPath+"/diff?from=3&to=4", "").want(http.StatusNotFound)
	r.send(http.MethodGet, "/admin/rules/never/versions", "").want(http.StatusNotFound)
	r.send(http.MethodGet, "/admin/rules/never/diff", "").want(http.StatusNotFound)

	r.send(http.MethodPost, searchPath+"/rollback", `{}`).want(http.StatusOK, `"version":5`, `"limit":200`)
	r.send(http.MethodPost, searchPath+"/rollback", `{"version": 1}`, "If-Match", `"5"`).want(http.StatusOK, `"version":6`, `"limit":100`)
	r.send(http.MethodPost, searchPath+"/rollback", `{"version": 2}`, "If-Match", `"5"`).want(http.StatusPreconditionFailed)
	r.send(http.MethodGet, searchPath+"/versions?limit=1", "").want(http.StatusOK, "back to version 1", "rules.rollback")

	r.send(http.MethodDelete, searchPath, "").want(http.StatusOK) // 7
	r.send(http.MethodGet, searchPath+"/versions/7", "").want(http.StatusNotFound, "deleted")
	r.send(http.MethodPost, searchPath+"/rollback", `{"version": 7}`).want(http.StatusUnprocessableEntity)
	r.send(http.MethodPost, searchPath+"/rollback", `{}`).want(http.StatusOK, `"limit":100`) // what was there before it was deleted
	r.send(http.MethodPost, "/admin/rules/other/rollback", `{}`).want(http.StatusNotFound, "no version before")
}

func TestTheAuditSaysWhoDidWhat(t *testing.T) {
	r := newRig(t)
	ann := r.createToken(`{"name": "ann", "role": "admin"}`)
	r.token = ann
	bob := r.createToken(`{"name": "bob", "role": "operator"}`)

	r.send(http.MethodPut, searchPath+"?reason=launch", searchRule).want(http.StatusOK)
	r.token = bob
	r.send(http.MethodPut, searchPath+"/overrides?reason=contract", `{"key": "acme", "limit": 500}`).want(http.StatusOK)
	r.send(http.MethodPut, "/admin/switches/rule:search", `{"reason": "storm"}`).want(http.StatusOK)
	r.fleet.take(t, "search", "k", 5)
	r.send(http.MethodPost, searchPath+"/reset?reason=ticket", `{"key": "k"}`).want(http.StatusOK)
	r.token = ann

	all := read[records](r.send(http.MethodGet, "/admin/audit", "").want(http.StatusOK))
	want := []struct{ author, action, target, reason string }{
		{"bob", "budgets.reset", "", "ticket"},
		{"bob", "switches.kill", "rule:search", "storm"},
		{"bob", "overrides.put", "", "contract"},
		{"ann", "rules.put", "search", "launch"},
		{"ann", "tokens.create", "", ""},
		{"loopback", "tokens.create", "", ""},
	}

	for i, one := range all.Records {
		if w := want[i]; one.Author != w.author || one.Action != w.action || w.target != "" && one.Target != w.target || one.Reason != w.reason {
			t.Errorf("record %d: got %+v, want %+v", one.Seq, one, w)
		}
	}

	// The keys of a rule by apikey are credentials.
	r.send(http.MethodGet, "/admin/audit?rule=search", "").want(http.StatusOK, `"after":{`).lacks("acme")
	r.send(http.MethodGet, "/admin/audit", "").lacks("acme", ` k"`)
	r.send(http.MethodGet, "/admin/audit?author=bob&action=switches.", "").want(http.StatusOK, "storm").lacks("contract", "ann")
	r.send(http.MethodGet, "/admin/audit?target=search", "").want(http.StatusOK, "launch").lacks("bob")
	r.send(http.MethodGet, "/admin/audit?version=4", "").want(http.StatusOK, "overrides.put", `"limit":500`)

	page := read[records](r.send(http.MethodGet, "/admin/audit?limit=4", ""))
	if next := read[records](r.send(http.MethodGet, fmt.Sprintf("/admin/audit?limit=4&before=%d", page.Next), "")); len(next.Records) != 2 || next.Next != 0 {
		t.Errorf("got %+v", next)
	}
}

// A change of many records ago is found by its author.
func TestTheAuditLooksFarBackForWhatIsRare(t *testing.T) {
	r := newRig(t)

	for i := range rulestore.MaxPage + 10 {
		author := "machine"
		if i == 3 {
			author = "ann"
		}

		if _, err := r.store.Write(t.Context(), &rulestore.Change{Author: author, Action: "test"}); err != nil {
			t.Fatal(err)
		}
	}

	if page := read[records](r.send(http.MethodGet, "/admin/audit?author=ann", "")); len(page.Records) != 1 || page.Records[0].Seq != 4 || page.Next != 0 {
		t.Errorf("got %+v", page)
	}
}
