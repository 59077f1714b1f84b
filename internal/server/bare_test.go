package server

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/leaseway/leaseway"
)

// newToken makes a token of a role, which has its name, too.
func (r *running) newToken(t *testing.T, role string) string {
	t.Helper()

	body := r.want(t, "POST /admin/tokens", `{"name": "`+role+`", "role": "`+role+`"}`, expected{http.StatusCreated, `"token"`})
	_, rest, _ := strings.Cut(body, `"token":"`)
	secret, _, _ := strings.Cut(rest, `"`)

	return secret
}

// edge is a holder of that coordinator.
func (r *running) edge(t *testing.T, name string, options ...leaseway.Option) *leaseway.Rule {
	t.Helper()

	limiter, err := leaseway.Dial(t.Context(), []string{"grpc://" + r.GRPC}, append(options, leaseway.WithName(name), leaseway.WithDeadline(patience))...)
	must(t, err)
	t.Cleanup(func() { must(t, limiter.Close(context.Background())) })

	rule, err := limiter.Rule("things")
	must(t, err)

	return rule
}

// A fleet that runs without tokens is given them while it serves: nobody is shut out before it is said, and who would be is named.
func TestAFleetIsGivenTokensWhileItServes(t *testing.T) {
	r := start(t, "--rules-seed", file(t, thingsRules))
	bare := r.edge(t, "edge-1")
	bare.Take("ada") // and so the coordinator knows it

	r.token = r.newToken(t, "admin")
	body := r.want(t, "POST /admin/tokens", `{"name": "edges", "role": "holder"}`, expected{http.StatusCreated, `"without":["edge-1"]`})
	_, rest, _ := strings.Cut(body, `"token":"`)
	secret, _, _ := strings.Cut(rest, `"`)

	eventually(t, "the holder is named", func() bool {
		return strings.Contains(r.call(t, http.MethodGet, "/admin/instances", "").body, `"withoutToken":true`)
	})

	people := r.token
	r.token = secret // metrics are for services
	eventually(t, "the metric counts it", func() bool { return r.metric(t, `leaseway_without_token{who="holders"}`) == "1" })

	if got := bare.Take("ada"); got.Origin.Degraded() {
		t.Errorf("a holder without a token is shut out before anybody said so: %v", got.Origin)
	}

	r.token = people
	armed := r.edge(t, "edge-2", leaseway.WithToken(secret))

	if got := armed.Take("bob"); got.Origin.Degraded() {
		t.Errorf("a holder with its token is shut out: %v", got.Origin)
	}

	refusal := r.want(t, "PUT /admin/settings/requireHolderToken", "true", expected{http.StatusConflict, "edge-1"})
	if strings.Contains(refusal, "edge-2") {
		t.Errorf("one that has its token is said to have none: %s", refusal)
	}

	r.want(t, "PUT /admin/settings/requireHolderToken?force=true&reason=all+but+one+have+it", "true", expected{http.StatusOK, `"version"`})

	n := 0
	eventually(t, "who has none is shut out", func() bool {
		n++

		return bare.Take(strings.Repeat("x", n)).Origin.Degraded()
	})

	if got := armed.Take("cid"); got.Origin.Degraded() {
		t.Errorf("a holder with its token is shut out, too: %v", got.Origin)
	}
}
