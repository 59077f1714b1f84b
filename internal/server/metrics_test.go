package server

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/store/memory"
	"github.com/leaseway/leaseway/internal/table"
	"github.com/leaseway/leaseway/leasewayhttp"
	"github.com/leaseway/leaseway/rule"
)

// What is shed, switched off and tested is in the metrics, by classes and rules, and never by keys.
func TestMetricsOfWhatIsNotOrdinary(t *testing.T) {
	store, err := memory.New(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = store.Close(t.Context()) })

	book := coordinator.NewBook(nil)

	source, err := coordinator.New(coordinator.Config{Store: store, Book: book})
	if err != nil {
		t.Fatal(err)
	}

	clock := table.NewVirtualClock(1)
	l := leaseway.NewStepped(source, clock)
	apply := func(doc string) {
		set, err := rule.Parse("rules.yaml", []byte(doc))
		if err == nil {
			_, err = book.Apply(set)
		}

		if err == nil {
			err = l.SetRules(book.Current())
		}

		if err != nil {
			t.Fatal(err)
		}
	}

	const rules = "rules: [{id: a, keyBy: user, limit: 5, window: 1h}, {id: b, limit: 5, window: 1h}]\n"

	apply(rules)
	l.Decide(t.Context(), leaseway.Request{User: "secret-user", Class: rule.ClassTest})

	apply(rules + "switches: {rules: {b: off}}\nshedders: {worker: {}}")
	l.SetLoad(1)
	clock.Set(3_000_000)
	l.Decide(t.Context(), leaseway.Request{User: "secret-user", Class: rule.ClassTest}) // of which half pass, or not
	l.Decide(t.Context(), leaseway.Request{User: "secret-user", Method: http.MethodPost})
	clock.Set(9_000_000)
	l.Decide(t.Context(), leaseway.Request{User: "secret-user", Method: http.MethodPost})

	apply(rules + "shedders: {worker: {mode: shadow}}\nswitches: {limiters: {worker: off}}")

	w := httptest.NewRecorder()
	metricsHandler(limiterCounts(l.Limiter)).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))

	for _, line := range []string{
		`leaseway_test_decisions_total{mode="enforce",outcome="allowed",rule="a",source="lease"} `,
		`leaseway_decisions_total{mode="enforce",outcome="allowed",rule="a",source="lease"} `,
		`leaseway_switched_off{rule="b"} 0`,
		`leaseway_switched_off_requests_total{rule="b"} 1`,
		`leaseway_shed_total{class="test",mode="enforce",shedder="worker"} 1`,
		`leaseway_shed_total{class="write",mode="enforce",shedder="worker"} 1`,
		`leaseway_shed_total{class="read",mode="shadow",shedder="worker"} 0`,
		`leaseway_shed_level{shedder="worker"} 3`,
		`leaseway_shed_stale{shedder="worker"} 0`,
		`leaseway_shed_switched_off{shedder="worker"} 1`,
		`leaseway_load_ratio{signal="told"} 1`,
	} {
		if !strings.Contains(w.Body.String(), "\n"+line) {
			t.Errorf("there is no %s", line)
		}
	}

	// What a program serves of itself is the same, series for series.
	own := httptest.NewRecorder()
	leasewayhttp.Metrics(l.Limiter).ServeHTTP(own, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))

	if got, want := seriesIn(t, own.Body.String()), seriesIn(t, w.Body.String()); len(want) < 30 || !maps.Equal(got, want) {
		t.Errorf("a program serves of itself %v\nand a server %v", got, want)
	}

	if w.Code != http.StatusOK || strings.Contains(w.Body.String(), "secret-user") || strings.Contains(w.Body.String(), `class="critical"`) {
		t.Errorf("status %d\n%s", w.Code, w.Body)
	}
}

// seriesIn reads the series of Leaseway in a page of metrics, with their types and helps.
func seriesIn(t *testing.T, page string) map[string]float64 {
	t.Helper()

	parser := expfmt.NewTextParser(model.UTF8Validation)

	families, err := parser.TextToMetricFamilies(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}

	series := map[string]float64{}

	for name, family := range families {
		if !strings.HasPrefix(name, "leaseway_") {
			continue
		}

		for _, m := range family.GetMetric() {
			labels := make([]string, 0, len(m.GetLabel()))
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+strconv.Quote(l.GetValue()))
			}

			slices.Sort(labels)
			series[name+" "+family.GetType().String()+" "+family.GetHelp()+" "+strings.Join(labels, ",")] =
				m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}

	return series
}
