package leasewayhttp

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
)

// maxHosts bounds how many hosts are remembered. Past it the one that was used least lately is forgotten, and starts anew.
const maxHosts = 1024

// hosts are the servers that a Transport has sent to.
type hosts struct {
	mu   sync.Mutex
	each map[string]*host
}

// host is what is known of one server.
type host struct {
	mu      sync.Mutex
	history history
	used    int64 // when, µs; under the lock of hosts
}

// of returns the host of a name, at now.
func (hs *hosts) of(name string, now int64) *host {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	h := hs.each[name]
	if h == nil {
		if hs.each == nil {
			hs.each = map[string]*host{}
		}
		if len(hs.each) >= maxHosts {
			hs.forget()
		}
		h = &host{}
		hs.each[name] = h
	}
	h.used = now
	return h
}

// forget makes room for one. It looks at all of them, which is rare, and cheap beside a connection to a new host.
func (hs *hosts) forget() {
	oldest := ""
	for name, h := range hs.each {
		if oldest == "" || h.used < hs.each[oldest].used {
			oldest = name
		}
	}
	delete(hs.each, oldest)
}

// hostOf is the server that a request goes to; names are compared without regard to case.
func hostOf(r *http.Request) string { return strings.ToLower(r.URL.Host) }

// enter counts an attempt, and holds it back if chance, from 0 to below 1, falls into the share that is to be.
// k is that of tally.throttled; 0 holds nothing back.
func (h *host) enter(now int64, k, chance float64) *ThrottledError {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.history.sum(now)
	share := all.throttled(k)
	if k <= 0 || chance >= share {
		return nil
	}
	h.history.at(now).requests++
	return &ThrottledError{Share: share}
}

// heard counts what became of an attempt that was sent. One without an answer says nothing about refusals.
func (h *host) heard(now int64, refused, answered bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.history.at(now)
	if !answered {
		return
	}
	t.requests++
	if !refused {
		t.accepts++
	}
}

// begin counts the first attempt of a request.
func (h *host) begin(now int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.history.at(now).firsts++
}

// pay counts a retry, if the budget has it.
func (h *host) pay(now int64, ratio, floor float64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.history.sum(now)
	if !all.canPay(ratio, floor) {
		return false
	}
	h.history.at(now).retries++
	return true
}

// ThrottledError says that a request was not sent, since its server has lately refused most of what it was sent. Later ones
// may be sent: some always are.
type ThrottledError struct {
	// Host is the server, with its port if the URL has one.
	Host string
	// Share is the part of requests that are not sent at present, from 0 to 1.
	Share float64
}

// Error says what happened and what to do.
func (e *ThrottledError) Error() string {
	return fmt.Sprintf("leasewayhttp: the request was not sent: %s has refused most requests of the last two minutes, "+
		"and %.0f %% are held back until it takes more; send fewer, or try again in a minute", e.Host, 100*e.Share)
}
