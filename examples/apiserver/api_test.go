package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/leaseway/leaseway"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const workers = 8

// rig is the API as it is served, in virtual time.
type rig struct {
	t       *testing.T
	limiter *leaseway.Limiter
	handler http.Handler
	wg      sync.WaitGroup
}

// play runs a test against the rules beside it. At its end nothing may be in flight.
func play(t *testing.T, test func(r *rig)) {
	t.Helper()

	synctest.Test(t, func(t *testing.T) {
		c := &config{rules: "rules.yaml", workers: workers, docs: "https://docs.example.com/limits"}

		limiter, err := open(t.Context(), c, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}

		r := &rig{t: t, limiter: limiter, handler: protect(limiter, c, slog.New(slog.DiscardHandler))}

		for limiter.Stats().Shedders[1].Capacity != workers { // the server has announced its workers
			time.Sleep(time.Second)
		}

		test(r)
		r.wg.Wait()

		s := limiter.Stats()
		for _, slots := range s.Slots {
			if slots.InFlight != 0 || slots.Queued != 0 {
				t.Errorf("in the end: %+v", slots)
			}
		}

		if fleet := s.Shedders[1]; fleet.InFlight != 0 || s.Panics != 0 {
			t.Errorf("in the end: %+v, %d panics", fleet, s.Panics)
		}

		if err := limiter.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// send sends a request with a key, and returns the answer.
func (r *rig) send(key, method, target string) *httptest.ResponseRecorder {
	req := httptest.NewRequestWithContext(r.t.Context(), method, target, http.NoBody)
	req.Header.Set("Authorization", "Bearer "+key)

	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, req)

	return w
}

// hold sends n requests that are under way when it returns.
func (r *rig) hold(n int, key, method, target string) {
	for range n {
		r.wg.Go(func() {
			if w := r.send(key, method, target); w.Code >= http.StatusMultipleChoices {
				r.t.Errorf("%s %s by %s: %d %s", method, target, key, w.Code, w.Body)
			}
		})
	}

	synctest.Wait()
}

// refused holds an answer against what a refusal must say.
func (r *rig) refused(w *httptest.ResponseRecorder, status int, reason string) {
	r.t.Helper()

	if w.Code != status || w.Header().Get("Leaseway-Reason") != reason || w.Header().Get("Retry-After") == "" ||
		w.Header().Get("Content-Type") != "application/problem+json" || !strings.Contains(w.Body.String(), "docs.example.com/limits") {
		r.t.Errorf("want %d %s, got %d %v %s", status, reason, w.Code, w.Header(), w.Body)
	}
}

func TestACallerHasItsRate(t *testing.T) {
	play(t, func(r *rig) {
		t := r.t

		for i := range 50 {
			if w := r.send("sk_live_a", "GET", "/v1/charges"); w.Code != http.StatusOK {
				t.Fatalf("request %d: %d %s", i, w.Code, w.Body)
			}
		}

		r.refused(r.send("sk_live_a", "GET", "/v1/charges"), http.StatusTooManyRequests, "over_limit")

		if w := r.send("sk_live_b", "GET", "/v1/charges"); w.Code != http.StatusOK {
			t.Errorf("another caller: %d", w.Code)
		}
	})
}

// The test-mode key of a shop gets the answers that its live key would get, and each leaves the other its budget.
func TestTestModeKeysGetTheSameAnswers(t *testing.T) {
	play(t, func(r *rig) {
		t := r.t

		transcript := func(key string) (lines []string) {
			for i := range 120 {
				target, method := "/v1/charges", "GET"
				if i%10 == 5 { // five pass, in 100 ms: half a token's time from where another one comes
					target, method = "/v1/charges?amount=5", "POST"
				}

				w := r.send(key, method, target)
				lines = append(lines, fmt.Sprint(
					w.Code, w.Header().Get("Ratelimit-Policy"), w.Header().Get("Leaseway-Reason"), w.Header().Get("Retry-After") != ""))
			}

			return lines
		}

		live, test := transcript("sk_live_shop"), transcript("sk_test_shop")
		for i := range live {
			if live[i] != test[i] {
				t.Errorf("request %d: %s with the live key, %s with the test key", i, live[i], test[i])
			}
		}

		if all := strings.Join(live, " "); !strings.Contains(all, "201") || !strings.Contains(all, "429") {
			t.Errorf("the transcript shows too little: %s", all)
		}
	})
}

func TestExportsAreBoundedInFlight(t *testing.T) {
	play(t, func(r *rig) {
		t := r.t

		r.hold(2, "sk_live_a", "POST", "/v1/exports")
		r.hold(1, "sk_live_b", "POST", "/v1/exports") // another caller has its own two

		began := time.Now()

		r.hold(0, "", "", "")

		// A third waits in the queue, and a fourth finds that full.
		var third *httptest.ResponseRecorder

		r.wg.Go(func() { third = r.send("sk_live_a", "POST", "/v1/exports") })
		synctest.Wait()
		r.refused(r.send("sk_live_a", "POST", "/v1/exports"), http.StatusTooManyRequests, "too_many_in_flight")

		if w := r.send("sk_live_a", "GET", "/v1/charges"); w.Code != http.StatusOK {
			t.Errorf("what is no export: %d", w.Code)
		}

		r.wg.Wait()
		r.refused(third, http.StatusTooManyRequests, "too_many_in_flight")

		if took := time.Since(began); took != exportWork {
			t.Errorf("the exports took %v", took)
		}

		if w := r.send("sk_live_a", "POST", "/v1/exports"); w.Code != http.StatusOK {
			t.Errorf("when they are over: %d", w.Code)
		}
	})
}

func TestAFullFleetKeepsRoomForCharges(t *testing.T) {
	play(t, func(r *rig) {
		t := r.t

		for i := range 3 {
			r.hold(2, fmt.Sprint("sk_live_", i), "POST", "/v1/exports")
		}

		r.refused(r.send("sk_live_x", "GET", "/v1/charges"), http.StatusServiceUnavailable, "shed_fleet")

		if w := r.send("sk_live_x", "POST", "/v1/charges?amount=100"); w.Code != http.StatusCreated {
			t.Errorf("a charge: %d %s", w.Code, w.Body)
		}
	})
}

// Charges alone keep all workers busy: tests are dropped, and as nothing gets better reads; every charge is taken.
func TestABusyServerShedsWhatMattersLeast(t *testing.T) {
	play(t, func(r *rig) {
		t := r.t

		ctx, stop := context.WithTimeout(t.Context(), 8*time.Second)
		defer stop()

		for i := range 2 * workers {
			r.wg.Go(func() {
				for ctx.Err() == nil {
					if w := r.send(fmt.Sprint("sk_live_", i), "POST", "/v1/charges?amount=1"); w.Code != http.StatusCreated {
						t.Errorf("a charge: %d %s", w.Code, w.Body)
					}

					time.Sleep(5 * time.Millisecond) // below its rate
				}
			})
		}

		time.Sleep(7 * time.Second)
		r.refused(r.send("sk_test_a", "GET", "/v1/charges"), http.StatusServiceUnavailable, "shed_worker")
		r.refused(r.send("sk_live_z", "GET", "/v1/charges"), http.StatusServiceUnavailable, "shed_worker")
		r.wg.Wait()

		time.Sleep(20 * time.Second)

		if w := r.send("sk_test_a", "GET", "/v1/charges"); w.Code != http.StatusOK {
			t.Errorf("a test when it is over: %d %s", w.Code, w.Body)
		}
	})
}

func TestStrangersAreTurnedAway(t *testing.T) {
	play(t, func(r *rig) {
		t := r.t

		if w := r.send("nobody", "GET", "/v1/charges"); w.Code != http.StatusUnauthorized {
			t.Errorf("got %d", w.Code)
		}

		if w := r.send("sk_live_a", "POST", "/v1/charges?amount=-1"); w.Code != http.StatusBadRequest {
			t.Errorf("got %d for a charge of -1", w.Code)
		}
	})
}

// The program serves on a port, takes a charge, and ends when it is told to.
func TestTheProgramServes(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	said, log := io.Pipe()
	ended := make(chan error, 1)

	go func() {
		ended <- run(ctx, &config{listen: "127.0.0.1:0", operators: "127.0.0.1:0", rules: "rules.yaml", workers: workers}, slog.New(slog.NewTextHandler(log, nil)))
		log.Close()
	}()

	address := make(chan string, 2) // the API's, and the operators'

	go func() {
		for lines := bufio.NewScanner(said); lines.Scan(); {
			if found := regexp.MustCompile(`http=(\S+)`).FindStringSubmatch(lines.Text()); found != nil {
				address <- found[1]
			}
		}
	}()

	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+<-address+"/v1/charges?amount=100", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}

	req.Header.Set("Authorization", "Bearer sk_live_a")

	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}

	var c charge
	if err := json.NewDecoder(resp.Body).Decode(&c); err != nil || resp.StatusCode != http.StatusCreated || c.Amount != 100 || !c.LiveMode {
		t.Errorf("%v: %d %+v", err, resp.StatusCode, c)
	}

	resp.Body.Close()

	operators := "http://" + <-address
	for path, part := range map[string]string{
		"/metrics": `leaseway_decisions_total{rule="requests-per-key",outcome="allowed",mode="enforce",source="store"} 1`,
		"/shadow":  `{"shedders":[],"keys":[]}`,
	} {
		if text := pageAt(t, operators+path); !strings.Contains(text, part) {
			t.Errorf("%s has no %s: %s", path, part, text)
		}
	}

	http.DefaultClient.CloseIdleConnections()
	stop()

	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func pageAt(t *testing.T, url string) string {
	t.Helper()

	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}

	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()

	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}

	return string(text)
}

// What the page has to show is what the rules say.
func TestThePageNamesTheRules(t *testing.T) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}

	for _, word := range []string{"requests-per-key", "exports-in-flight", "too_many_in_flight", "over_limit", "shed_fleet", "shed_worker", "Leaseway-Reason"} {
		if !strings.Contains(string(page), word) {
			t.Errorf("README.md does not say %s", word)
		}
	}
}
