package proxy

import (
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// bodyError is an error of reading a request's body from its client, to tell it from one of the upstream.
type bodyError struct{ cause error }

func (e *bodyError) Error() string { return "the request's body: " + e.cause.Error() }

// Unwrap returns the cause.
func (e *bodyError) Unwrap() error { return e.cause }

// clientBody is a request's body whose sender must not fall silent.
type clientBody struct {
	body     io.ReadCloser
	control  *http.ResponseController
	timeout  time.Duration // 0: it may
	extended time.Time
	silent   *atomic.Bool // set when it did
}

// bounded returns the body of r with its bounds. gRPC has none: a stream may be as long, and as silent, as its ends like, and
// they have means of their own to find out whether the other one lives.
func (p *Proxy) bounded(e *exchange, r *http.Request) io.ReadCloser {
	b := &clientBody{body: r.Body, silent: &e.silent}
	if isGRPC(r.Header) {
		return b
	}
	if p.config.MaxBody > 0 {
		b.body = http.MaxBytesReader(&e.record, r.Body, p.config.MaxBody)
	}
	b.control, b.timeout = http.NewResponseController(&e.record), p.config.BodyTimeout
	return b
}

// Read reads, and gives the client its time anew now and then.
func (b *clientBody) Read(p []byte) (int, error) {
	if b.timeout > 0 {
		if now := time.Now(); now.Sub(b.extended) >= b.timeout/4 {
			b.extended = now
			_ = b.control.SetReadDeadline(now.Add(b.timeout)) // a writer of a test has none
		}
	}
	n, err := b.body.Read(p)
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		// From here on net/http reads to see whether the client goes away, for as long as the answer takes.
		if b.timeout > 0 {
			_ = b.control.SetReadDeadline(time.Time{})
		}
	default:
		if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
			b.silent.Store(true)
		}
		err = &bodyError{err}
	}
	return n, err
}

// Close closes the body.
func (b *clientBody) Close() error { return b.body.Close() }
