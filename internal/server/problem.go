package server

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"sync/atomic"
)

// writeProblem answers with an application/problem+json body, as RFC 9457 has it; detail says what to do.
func writeProblem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)

	writeJSON(w, struct {
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{http.StatusText(status), status, detail})
}

// writeJSON writes a value that can always be written as JSON. Whatever fails then is the connection.
func writeJSON(w io.Writer, value any) {
	_ = json.NewEncoder(w).Encode(value) //nolint:errchkjson // as above
}

// notFound answers requests for what is not served, and says what is.
func notFound(w http.ResponseWriter, _ *http.Request) {
	writeProblem(w, http.StatusNotFound,
		"this is not served here: GET /openapi.json says what is; /metrics and /shadow are at --admin-listen, where "+
			"that is set, as is /admin, which coordinators alone have")
}

// onlyBy answers requests by another method than those that a path takes, or without what they need.
func onlyBy(methods string, needs ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Allow", methods)
		writeProblem(w, http.StatusMethodNotAllowed, strings.Join(append([]string{"this path takes " + methods}, needs...), "; "))
	}
}

// recovering keeps a panic of one request from taking its connection along, and counts it.
func recovering(next http.Handler, panics *atomic.Int64, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			switch p := recover(); p {
			case nil:
			case http.ErrAbortHandler:
				panic(p)
			default:
				panics.Add(1)
				log.Error("a panic was recovered", "panic", p, "path", r.URL.Path, "stack", string(debug.Stack()))
				writeProblem(w, http.StatusInternalServerError, "this is a bug in Leaseway; the server's log has its stack")
			}
		}()

		next.ServeHTTP(w, r)
	})
}
