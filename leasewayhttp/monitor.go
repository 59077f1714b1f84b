package leasewayhttp

import (
	"encoding/json"
	"net/http"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/counts"
)

// Metrics serves what limiter counted since the start, by rule and shedder, in the text format of Prometheus: the series that
// leaseway serve has, as far as they are a holder's. It names rules and never keys. Mount it where only operators come:
//
//	operators := http.NewServeMux()
//	operators.Handle("GET /metrics", leasewayhttp.Metrics(limiter))
//	operators.Handle("GET /shadow", leasewayhttp.Shadow(limiter))
//
// Counting costs requests nothing: all is looked up when somebody asks.
func Metrics(limiter *leaseway.Limiter) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		stats := limiter.Stats()

		var samples []counts.Sample

		counts.Of(&stats, func(s counts.Sample) { samples = append(samples, s) })

		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write(counts.AppendText(nil, samples)) // whoever asked may have gone
	})
}

// Shadow serves whom the rules and shedders of limiter that are in shadow mode would have refused, as JSON: what leaseway shadow
// report asks for beside Metrics. Mount it at GET /shadow, next to Metrics, where only operators come: it names callers, API keys as
// hints.
func Shadow(limiter *leaseway.Limiter) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		top, err := counts.Top(r.URL.Query().Get("top"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)

			return
		}

		text, err := json.Marshal(counts.ShadowOf(limiter, top))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)

			return
		}

		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write(append(text, '\n')) // whoever asked may have gone
	})
}
