package leasewayhttp

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/rule"
)

// metered is a limiter that is told how busy its process is.
type metered struct {
	*verdict

	wants       bool
	begun, over int
	waited      time.Duration
}

func (m *metered) Measures() bool { return m.wants }

func (m *metered) Begin(waited time.Duration) { m.begun++; m.waited = waited }

func (m *metered) End() { m.over++ }

func TestWorkersAreBusyWhileHandlersRun(t *testing.T) {
	for _, wants := range []bool{true, false} {
		l := &metered{verdict: &verdict{decision: allowed()}, wants: wants}
		m := newMiddleware(l, nil)
		inside := 0
		m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { inside = l.begun - l.over })).ServeHTTP(httptest.NewRecorder(), get("/"))
		if want := map[bool]int{true: 1}[wants]; inside != want || l.begun != want || l.over != want {
			t.Errorf("wants %v: %d inside, %d began, %d ended", wants, inside, l.begun, l.over)
		}
	}
}

func TestAPanicFreesItsWorker(t *testing.T) {
	l := &metered{verdict: &verdict{decision: allowed()}, wants: true}
	h := newMiddleware(l, nil).Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	func() {
		defer func() {
			if recover() != http.ErrAbortHandler { //nolint:errorlint // the very value
				t.Error("the panic did not come through")
			}
		}()
		h.ServeHTTP(httptest.NewRecorder(), get("/"))
	}()
	if l.begun != 1 || l.over != 1 {
		t.Errorf("%d began and %d ended", l.begun, l.over)
	}
}

func TestRefusedRequestsKeepNoWorkerBusy(t *testing.T) {
	l := &metered{verdict: &verdict{decision: overLimit()}, wants: true}
	serve(newMiddleware(l, nil), get("/"))
	if l.begun != 0 || l.over != 0 {
		t.Errorf("%d began and %d ended", l.begun, l.over)
	}
}

func TestTheWaitIsWhatATrustedProxySays(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	ago := now.Add(-250 * time.Millisecond)
	trusted := []Option{WithTrustedProxies(netip.MustParsePrefix("192.0.2.0/24"))}
	for _, row := range []struct {
		field string
		opts  []Option
		want  time.Duration
	}{
		{"t=" + strconv.FormatFloat(float64(ago.UnixMilli())/1000, 'f', 3, 64), trusted, 250 * time.Millisecond},
		{strconv.FormatInt(ago.UnixMilli(), 10), trusted, 250 * time.Millisecond},
		{"t=" + strconv.FormatInt(ago.UnixMicro(), 10), trusted, 250 * time.Millisecond},
		{"t=" + strconv.FormatInt(ago.UnixMicro(), 10), nil, 0},
		{strconv.FormatInt(now.Add(time.Second).UnixMilli(), 10), trusted, 0},
		{strconv.FormatInt(now.Add(-2*time.Hour).UnixMilli(), 10), trusted, 0},
		{"yesterday", trusted, 0},
		{"NaN", trusted, 0},
		{"", trusted, 0},
	} {
		r := get("/")
		if row.field != "" {
			r.Header.Set("X-Request-Start", row.field)
		}
		got := newMiddleware(&verdict{}, row.opts).waited(r, now)
		if off := got - row.want; off < -time.Millisecond || off > time.Millisecond {
			t.Errorf("%q: got %v, want %v", row.field, got, row.want)
		}
	}
}

func TestShedRequestsGet503AndAWait(t *testing.T) {
	for reason, detail := range map[leaseway.Reason]string{
		leaseway.ReasonShedWorker: "This server is busy, and serves what matters more first; this one is of class read",
		leaseway.ReasonShedFleet:  "All servers together are busy, and what they have left is kept for critical requests; this one is of class read",
	} {
		d := leaseway.Decision{Reason: reason, Class: rule.ClassRead, RetryAfter: 4200 * time.Millisecond}
		w := serve(newMiddleware(&verdict{decision: d}, nil), get("/"))
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "5" || w.Header().Get("Ratelimit") != "" {
			t.Errorf("got %d %v", w.Code, w.Header())
		}
		for _, part := range []string{
			`"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"`, `"title":"Too busy for this request"`,
			`"reason":"` + reason.String() + `"`, `"retryAfterSec":5`,
			`"detail":"` + detail + `. It is not your doing: try again in 5 seconds."`,
		} {
			if !bytes.Contains(w.Body.Bytes(), []byte(part)) {
				t.Errorf("the body lacks %s: %s", part, w.Body)
			}
		}
	}
}
