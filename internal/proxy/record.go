package proxy

import (
	"bufio"
	"encoding/json"
	"net"
	"net/http"
	"time"

	"github.com/leaseway/leaseway/internal/accesslog"
)

// Recorder takes the lines of an access log. It is called by many goroutines at once, and must not block for long.
type Recorder interface {
	Record(s accesslog.Served)
}

// record is a ResponseWriter that notes what was answered, and cuts off clients that do not take it.
type record struct {
	http.ResponseWriter

	grpc      string // the content type of a client that speaks gRPC, and reads no problem documents; "" for others
	foreign   bool   // the answer is an upstream's
	mute      bool   // what follows of the answer is no use to it
	status    int
	bytes     int64
	timeout   time.Duration
	deadlines bool      // over HTTP/1; in HTTP/2 a deadline would be one of the stream, and pings find dead peers
	extended  time.Time // when the deadline for writing was set last
}

// Unwrap is for http.ResponseController, which so finds flushing and full duplex.
func (w *record) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader notes the status, the last of them: those below 200 are interim.
func (w *record) WriteHeader(status int) {
	if w.status < http.StatusOK {
		w.status = status
	}
	w.extend()
	if w.grpc != "" && !w.foreign && status >= http.StatusBadRequest {
		w.Header().Set("Content-Type", w.grpc)
		sayGRPC(w.Header(), status)
		w.mute, status = true, http.StatusOK
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write counts bytes.
func (w *record) Write(b []byte) (int, error) {
	if w.status < http.StatusOK {
		w.status = http.StatusOK
	}
	if w.mute {
		return len(b), nil
	}
	w.extend()
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}

// Flush sends what was written.
func (w *record) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

// Hijack hands the connection over.
func (w *record) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.status = http.StatusSwitchingProtocols
	}
	return conn, buffered, err
}

// extend gives the client its time anew. A deadline costs a timer, so it is moved now and then, not for each write.
func (w *record) extend() {
	if !w.deadlines {
		return
	}
	now := time.Now()
	if now.Sub(w.extended) < w.timeout/4 {
		return
	}
	w.extended = now
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(now.Add(w.timeout)) // a writer of a test has none
}

// writeProblem answers with a problem document (RFC 9457). A refusal by a limit has Leaseway-Reason, which this has not.
func writeProblem(w http.ResponseWriter, status int, detail string) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	text, err := json.Marshal(struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{"about:blank", http.StatusText(status), status, detail})
	w.WriteHeader(status)
	if err == nil { // strings and a number always marshal
		_, _ = w.Write(text)
	}
}
