package leasewayhttp

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/leaseway/leaseway"
)

// goneAfter is how long a request whose client has gone still counts as in flight while its handler goes on. Most handlers
// see the end of their context and return before that. It is not 0, or else a client that opens and aborts requests as fast
// as it can would have any number of handlers at work.
const goneAfter = 900 * time.Millisecond

// occupant is a request in flight under a concurrency rule. Its slot comes back once: when the handler returns or panics,
// when a connection that it has hijacked is closed, or soon after the client has gone.
type occupant struct {
	limiter  decider
	decision leaseway.Decision
	hijacked atomic.Bool
	stop     func() bool // do not look for the client any more
}

// occupy serves a request that holds a slot.
func (m *Middleware) occupy(next http.Handler, w http.ResponseWriter, r *http.Request, d *leaseway.Decision) {
	o := &occupant{limiter: m.limiter, decision: *d}
	o.stop = context.AfterFunc(r.Context(), func() { time.AfterFunc(goneAfter, o.done) })
	returned := false
	defer func() {
		o.stop()
		// Who hijacks and panics has nobody left to close the connection.
		if !returned || !o.hijacked.Load() {
			o.done()
		}
	}()
	m.serve(next, o.watch(w), r)
	returned = true
}

// done gives the slot back; the limiter sees to it that this happens once.
func (o *occupant) done() { o.limiter.Done(o.decision) }

// watch returns a writer that tells when the connection is hijacked, and is in all else like w. One that cannot be hijacked,
// as in HTTP/2, is returned as it is.
func (o *occupant) watch(w http.ResponseWriter) http.ResponseWriter {
	if !canHijack(w) {
		return w
	}
	watched := watchedWriter{ResponseWriter: w, occupant: o}
	flusher, flushes := w.(http.Flusher)
	from, reads := w.(io.ReaderFrom)
	text, writes := w.(io.StringWriter)
	switch {
	case flushes && reads && writes: // as in net/http
		return struct {
			watchedWriter
			http.Flusher
			io.ReaderFrom
			io.StringWriter
		}{watched, flusher, from, text}
	case flushes:
		return struct {
			watchedWriter
			http.Flusher
		}{watched, flusher}
	}
	return watched
}

// canHijack looks for a Hijacker where http.ResponseController would.
func canHijack(w http.ResponseWriter) bool {
	for {
		if _, ok := w.(http.Hijacker); ok {
			return true
		}
		u, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return false
		}
		w = u.Unwrap()
	}
}

// watchedWriter is a writer whose connection may be hijacked.
type watchedWriter struct {
	http.ResponseWriter

	occupant *occupant
}

// Unwrap is for http.ResponseController.
func (w watchedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Hijack hands the connection over with the slot, which comes back when it is closed.
func (w watchedWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	o := w.occupant
	o.stop() // the request's context ends with the handler now, and not with the connection
	o.hijacked.Store(true)
	held := heldConn{Conn: conn, occupant: o}
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		return halfConn{held, half}, buffered, nil
	}
	return held, buffered, nil
}

// heldConn is a connection that occupies a slot until it is closed.
type heldConn struct {
	net.Conn

	occupant *occupant
}

// Close closes the connection and gives the slot back.
func (c heldConn) Close() error {
	defer c.occupant.done()
	return c.Conn.Close()
}

// ReadFrom copies as the connection itself does, which may be in the kernel.
func (c heldConn) ReadFrom(r io.Reader) (int64, error) { return io.Copy(c.Conn, r) }

// halfConn can end its sending alone, as TCP and TLS can.
type halfConn struct {
	heldConn

	half interface{ CloseWrite() error }
}

// CloseWrite ends the sending. The slot stays occupied.
func (c halfConn) CloseWrite() error { return c.half.CloseWrite() }
