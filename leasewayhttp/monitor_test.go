package leasewayhttp

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/rule"
)

// A program says of itself what it decided, what it would have refused, and whom; and names nobody in its metrics.
func TestAProgramShowsWhatItCounted(t *testing.T) {
	rules, err := rule.Parse("rules.yaml", []byte(`rules: [{id: dark, keyBy: user, limit: 1, window: 1h, mode: shadow}]
shedders: {worker: {mode: shadow}, fleet: {capacity: 5}}`))
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := leaseway.Embedded(rules)
	if err != nil {
		t.Fatal(err)
	}
	defer limiter.Close(context.Background())
	for range 3 {
		limiter.Decide(t.Context(), leaseway.Request{User: "ann"})
	}
	for _, row := range []struct {
		handler http.Handler
		query   string
		status  int
		part    string
	}{
		{Metrics(limiter), "", http.StatusOK, "\nleaseway_decisions_total{rule=\"dark\",outcome=\"denied\",mode=\"shadow\",source=\"lease\"} 2\n"},
		{Metrics(limiter), "", http.StatusOK, "\nleaseway_shed_total{shedder=\"worker\",class=\"read\",mode=\"shadow\"} 0\n"},
		{Shadow(limiter), "", http.StatusOK, `{"shedders":["worker"],"keys":[{"rule":"dark","key":"ann","refused":2}]}`},
		{Shadow(limiter), "?top=0", http.StatusOK, `{"shedders":["worker"],"keys":[]}`},
		{Shadow(limiter), "?top=101", http.StatusBadRequest, `top is "101": write a whole number from 0 to 100`},
	} {
		w := httptest.NewRecorder()
		row.handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/"+row.query, http.NoBody))
		if w.Code != row.status || !strings.Contains(w.Body.String(), row.part) {
			t.Errorf("%d, without %s: %s", w.Code, row.part, w.Body)
		}
		if strings.Contains(row.part, "leaseway_") && strings.Contains(w.Body.String(), "ann") {
			t.Errorf("metrics name a caller: %s", w.Body)
		}
	}
}
