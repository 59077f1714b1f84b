package proxycheck

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// The fields of an answer that a proxy reads, and may not pass on.
const (
	statusField  = "X-Leaseway-Status"  // the status for the client
	problemField = "X-Leaseway-Problem" // the body for the client, in one line
	accelField   = "X-Accel-Redirect"
)

// yesOrNo turns a refusal into 403, which is all that nginx's auth_request takes: it makes 500 of a 429. What is to be told to
// the client stands in fields, which the proxy's configuration copies.
type yesOrNo struct {
	http.ResponseWriter

	status int
	body   []byte
}

// WriteHeader keeps the status of a refusal for end.
func (a *yesOrNo) WriteHeader(status int) { a.status = status }

// Write keeps the body of a refusal, which is short, for end.
func (a *yesOrNo) Write(text []byte) (int, error) {
	a.body = append(a.body, text...)

	return len(text), nil
}

// end sends the answer.
func (a *yesOrNo) end() {
	if a.status == http.StatusNoContent {
		a.ResponseWriter.WriteHeader(a.status)

		return
	}

	h := a.Header()
	h.Set(statusField, strconv.Itoa(a.status))

	// JSON has no line breaks but between its words.
	if len(a.body) > 0 {
		h.Set(problemField, string(a.body))
	}

	h.Del("Content-Type")
	a.ResponseWriter.WriteHeader(http.StatusForbidden)
}

// redirecting sends nginx on to another location with a request that may pass; a refusal goes to the client as it is.
type redirecting struct {
	http.ResponseWriter

	target string
}

// WriteHeader adds where to go on. nginx then adds the Cache-Control of this answer to that of the API's, which is not ours to change.
func (a *redirecting) WriteHeader(status int) {
	if status == http.StatusNoContent {
		a.Header().Set(accelField, a.target)
		a.Header().Del("Cache-Control")

		status = http.StatusOK // as nginx has it in its own examples
	}

	a.ResponseWriter.WriteHeader(status)
}

// refuse answers a proxy that is not set up right; detail says what to do.
func refuse(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)

	_ = json.NewEncoder(w).Encode(struct { //nolint:errchkjson // texts and a number always marshal
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{http.StatusText(status), status, detail})
}
