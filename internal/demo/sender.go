package demo

import (
	"context"
	"io"
	"math"
	"net/http"
	"sync"
	"time"
)

const (
	senders     = 32    // requests under way to one server, at most
	backlog     = 4_096 // requests to one server that wait for a sender; beyond it the schedule falls behind
	answerIn    = 10 * time.Second
	discardMost = 64 << 10 // bytes of an answer
)

// event is one request and what became of it.
type event struct {
	before int64 // when the server began to decide, µs since the Unix epoch
	nanos  int32 // how long that took
	late   int32 // how far behind its schedule it was sent, µs
	caller int32
	status int16 // 0: no answer
	server uint8
}

func (e event) admitted() bool { return e.status >= 200 && e.status < 300 }
func (e event) denied() bool   { return e.status == http.StatusTooManyRequests }

// after returns when the decision was certainly made, µs since the Unix epoch.
func (e event) after() int64 { return e.before + int64(e.nanos)/1000 + 1 }

// sender sends traffic over HTTP as it is scheduled, whatever the answers are: the callers do not slow down for a server that
// does. Connections are kept alive.
type sender struct {
	hosts     [servers]string
	transport *http.Transport
	live      *Live

	mu     sync.Mutex
	events []event
}

func newSender(f *fleet, l *Live) *sender {
	s := &sender{live: l, transport: &http.Transport{
		MaxIdleConnsPerHost: senders, DisableCompression: true, ResponseHeaderTimeout: answerIn,
	}}

	for i, api := range f.apis {
		s.hosts[i] = api.address()
	}

	return s
}

// run sends all of t, the first request at start, until its end or ctx's, and returns when every answer is in.
func (s *sender) run(ctx context.Context, t *traffic, start time.Time) {
	var (
		queues  [servers]chan shot
		workers sync.WaitGroup
	)

	for i := range queues {
		queues[i] = make(chan shot, backlog)

		for range senders {
			workers.Go(func() { s.work(ctx, start, queues[i]) })
		}
	}

	s.schedule(ctx, t, start, &queues)

	for _, q := range queues {
		close(q)
	}

	workers.Wait()
	s.transport.CloseIdleConnections()
}

// schedule hands out each request at its time.
func (s *sender) schedule(ctx context.Context, t *traffic, start time.Time, queues *[servers]chan shot) {
	timer := time.NewTimer(0)
	defer timer.Stop()

	for {
		next, more := t.next()
		if !more {
			return
		}

		if wait := time.Until(start.Add(next.at)); wait > 0 {
			timer.Reset(wait)

			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
		}

		select {
		case <-ctx.Done():
			return
		case queues[next.server] <- next:
		}
	}
}

// work sends one request after the other, and keeps what became of them.
func (s *sender) work(ctx context.Context, start time.Time, queue <-chan shot) {
	var own []event

	// What ctx ends is not waited for, but what is under way is answered.
	detached := context.WithoutCancel(ctx)

	for next := range queue {
		if ctx.Err() != nil {
			continue
		}

		e := s.send(detached, start, next)
		s.live.count(e)

		own = append(own, e)
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	s.events = append(s.events, own...)
}

func (s *sender) send(ctx context.Context, start time.Time, next shot) event {
	began := time.Now()
	late := began.Sub(start.Add(next.at)).Microseconds()
	s.live.late.Store(late)

	e := event{
		before: began.UnixMicro(), late: int32(max(0, min(late, math.MaxInt32))),
		caller: int32(next.caller), server: uint8(next.server),
	}

	resp, err := s.transport.RoundTrip(next.target.request(s.hosts[next.server]).WithContext(ctx))
	if err != nil {
		return e
	}

	_, _ = io.CopyN(io.Discard, resp.Body, discardMost) // it is shorter, and nobody reads it
	_ = resp.Body.Close()                               // as before

	if before, nanos, err := readStamp(resp.Header); err == nil {
		e.before, e.nanos, e.status = before, int32(min(nanos, math.MaxInt32)), int16(resp.StatusCode)
	}

	return e
}
