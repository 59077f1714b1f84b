package server

import (
	"net/http"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/counts"
)

// serveShadow answers "GET /shadow?top=N", with N of 0 to 100 for each rule, 10 unless said.
func serveShadow(limiter *leaseway.Limiter) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		top, err := counts.Top(r.URL.Query().Get("top"))
		if err != nil {
			writeProblem(w, http.StatusBadRequest, err.Error())

			return
		}

		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		writeJSON(w, counts.ShadowOf(limiter, top))
	}
}
