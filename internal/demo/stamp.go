package demo

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// fieldStamp is the response field that says when a decision began, in µs since the Unix epoch, and how many ns it took.
// All processes of the demo are on one machine, so the instants of different servers compare.
const fieldStamp = "Demo-Decision"

// stamped measures what is between the request's arrival at next and its first word of an answer, and says so in the
// response: for an API that answers at once that is the middleware, with the decision in it.
func stamped(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&stampWriter{ResponseWriter: w, began: time.Now()}, r)
	})
}

// stampWriter puts the stamp on at the last moment, when the status is written.
type stampWriter struct {
	http.ResponseWriter

	began time.Time
	done  bool
}

// WriteHeader stamps the response.
func (w *stampWriter) WriteHeader(status int) {
	if !w.done {
		w.done = true

		var room [40]byte

		text := strconv.AppendInt(room[:0], w.began.UnixMicro(), 10)
		text = strconv.AppendInt(append(text, ' '), time.Since(w.began).Nanoseconds(), 10)
		w.Header()[fieldStamp] = []string{string(text)}
	}

	w.ResponseWriter.WriteHeader(status)
}

// Write stamps the response if WriteHeader was not called.
func (w *stampWriter) Write(b []byte) (int, error) {
	if !w.done {
		w.WriteHeader(http.StatusOK)
	}

	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *stampWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

var errNoStamp = errors.New("the response has no usable " + fieldStamp + " field")

// readStamp returns when the decision began (µs since the Unix epoch) and how long it took (ns).
func readStamp(h http.Header) (micros, nanos int64, err error) {
	first, second, found := strings.Cut(h.Get(fieldStamp), " ")
	if !found {
		return 0, 0, errNoStamp
	}

	micros, err1 := strconv.ParseInt(first, 10, 64)
	nanos, err2 := strconv.ParseInt(second, 10, 64)

	if err1 != nil || err2 != nil || nanos < 0 {
		return 0, 0, errNoStamp
	}

	return micros, nanos, nil
}
