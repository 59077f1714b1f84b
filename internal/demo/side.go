package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// side is the API of a scenario, with Leaseway or without: processes of its own, and what its callers met.
type side struct {
	servers   []*child
	transport *http.Transport

	mu     sync.Mutex
	met    []meeting
	recent [2]atomic.Int64 // requests of the innocent since the last look, and those that were served
}

// meeting is one request and what became of it.
type meeting struct {
	sent   time.Duration // since the start
	took   time.Duration // until the answer was read, or the caller gave up
	late   time.Duration // behind its schedule
	crowd  int
	status int // 0: the caller gave up, or the connection broke
}

// startSide starts the servers of s. With an address of a coordinator they have Leaseway. Close what it returns, also with an error.
func startSide(ctx context.Context, program string, s *scenario, limits ...string) (*side, error) {
	all := &side{transport: &http.Transport{
		MaxIdleConnsPerHost: 1024, DisableCompression: true, // more than are ever under way
	}}

	for i := range s.shape.servers {
		name := apiName(i)
		args := append([]string{WorkplaceCommand, "--name", name, "--workers", strconv.Itoa(s.shape.workers)}, limits...)

		c, err := startChild(ctx, program, name, args...)
		if err != nil {
			return all, err
		}

		all.servers = append(all.servers, c)
	}

	return all, nil
}

func (s *side) close() {
	for _, c := range s.servers {
		c.kill()
	}

	s.transport.CloseIdleConnections()
}

// address directs request n of all to a server, each in turn.
func (s *side) address(req *http.Request, n int) {
	req.Host = s.servers[n%len(s.servers)].address()
	req.URL.Host = req.Host
}

// send sends one request, and keeps what became of it.
func (s *side) send(ctx context.Context, m meeting, to *crowd, req *http.Request) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()

	began := time.Now()

	resp, err := s.transport.RoundTrip(req.WithContext(ctx))
	if err == nil {
		_, err = io.CopyN(io.Discard, resp.Body, discardMost)
		_ = resp.Body.Close() // it was read

		if err == io.EOF { //nolint:errorlint // CopyN returns it as it is
			m.status = resp.StatusCode
		}
	}

	m.took = time.Since(began)

	if to.innocent {
		s.recent[0].Add(1)

		if m.served() {
			s.recent[1].Add(1)
		}
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	s.met = append(s.met, m)
}

func (m *meeting) served() bool { return m.status >= 200 && m.status < 300 }

// refused reports whether it was told to come back later, or less often.
func (m *meeting) refused() bool {
	return m.status == http.StatusTooManyRequests || m.status == http.StatusServiceUnavailable
}

// share returns which share of the innocent's requests was served since the last look, of 1; NaN if there was none.
func (s *side) share() float64 {
	of, served := s.recent[0].Swap(0), s.recent[1].Swap(0)
	if of == 0 {
		return math.NaN()
	}

	return float64(served) / float64(of)
}

// stats asks all servers what they know, and adds it up.
func (s *side) stats(ctx context.Context) (all workplaceStats, err error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()

	for _, c := range s.servers {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.address()+statsPath, http.NoBody)
		if err != nil {
			return all, err
		}

		resp, err := s.transport.RoundTrip(req)
		if err != nil {
			return all, fmt.Errorf("ask %s for statistics: %w", c.name, err)
		}

		var one workplaceStats

		err = json.NewDecoder(io.LimitReader(resp.Body, discardMost)).Decode(&one)
		_ = resp.Body.Close() // it was read

		if err != nil {
			return all, fmt.Errorf("ask %s for statistics: %w", c.name, err)
		}

		all.InFlight += one.InFlight
		all.Late += one.Late
		all.Panics += one.Panics
	}

	return all, nil
}

// result adds up what was sent from a time on.
func (s *side) result(crowds []crowd, from time.Duration) SideResult {
	s.mu.Lock()
	defer s.mu.Unlock()

	r := SideResult{Crowds: make([]CrowdResult, len(crowds))}
	took := make([][]time.Duration, len(crowds))

	for i := range crowds {
		r.Crowds[i] = CrowdResult{Crowd: crowds[i].name, Innocent: crowds[i].innocent}
	}

	for i := range s.met {
		m := &s.met[i]
		if m.sent < from {
			continue
		}

		c := &r.Crowds[m.crowd]
		c.Requests++

		switch {
		case m.served():
			c.Served++
		case m.refused():
			c.Refused++

			continue // how long it takes to be refused is another thing than to be served
		default:
			c.Failed++
		}

		took[m.crowd] = append(took[m.crowd], m.took)
	}

	for i := range took {
		slices.Sort(took[i])
		r.Crowds[i].P50Ms, r.Crowds[i].P99Ms = millis(took[i], 50), millis(took[i], 99)
	}

	return r
}

// millis returns a percentile of sorted durations, ms; 0 for none.
func millis(sorted []time.Duration, p int) float64 {
	if len(sorted) == 0 {
		return 0
	}

	const all = 100

	return float64(sorted[max(0, (len(sorted)*p+all-1)/all-1)].Microseconds()) / 1e3
}
