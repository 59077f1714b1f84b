package leasewayhttp

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/leaseway/leaseway"
)

func TestRefusalsNameTheirReason(t *testing.T) {
	for _, reason := range []leaseway.Reason{
		leaseway.ReasonOverLimit, leaseway.ReasonTooManyInFlight, leaseway.ReasonCostExceedsLimit, leaseway.ReasonBlocked,
		leaseway.ReasonMissingKey, leaseway.ReasonUnavailable, leaseway.ReasonShedWorker, leaseway.ReasonShedFleet, leaseway.ReasonInvalid,
	} {
		w := serve(newMiddleware(&verdict{decision: leaseway.Decision{Reason: reason}}, nil), get("/"))
		if got := w.Header().Get("Leaseway-Reason"); got != reason.String() || w.Header().Get("Link") != "" {
			t.Errorf("%s: got %v", reason, w.Header())
		}
	}
	if w := serve(newMiddleware(&verdict{decision: allowed()}, nil), get("/")); w.Header().Get("Leaseway-Reason") != "" {
		t.Errorf("an allowed request has the reason %q", w.Header().Get("Leaseway-Reason"))
	}
}

func TestRefusalsLinkTheDocs(t *testing.T) {
	m := newMiddleware(&verdict{decision: overLimit()}, []Option{WithDocs("https://docs.example/limits>\r\n; x")})
	w := serve(m, get("/"))
	const url = "https://docs.example/limits;x"
	if got := w.Header().Get("Link"); got != "<"+url+`>; rel="help"` || !bytes.Contains(w.Body.Bytes(), []byte(`"docs":"`+url+`"`)) {
		t.Errorf("got %q and %s", got, w.Body)
	}
	// What a handler before this one has linked stays.
	w2 := serveWith(m, func(h http.Header) { h.Set("Link", "</style.css>; rel=preload") })
	if got := w2.Header().Values("Link"); len(got) != 2 {
		t.Errorf("got %q", got)
	}
}

// serveWith sends a request through a middleware that comes after another, which sets header fields.
func serveWith(m *Middleware, before func(h http.Header)) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	before(w.Header())
	m.Handler(http.NotFoundHandler()).ServeHTTP(w, get("/"))
	return w
}
