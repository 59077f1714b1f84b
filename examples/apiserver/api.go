package main

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// What the work of a request takes.
const (
	chargeWork = 20 * time.Millisecond
	searchWork = 50 * time.Millisecond
	exportWork = 3 * time.Second
)

// Which keys there are. Test-mode keys have the same API over data of their own.
const (
	liveKeys = "sk_live_"
	testKeys = "sk_test_"
)

// api takes charges and finds them again. It knows nothing of limits.
type api struct {
	pool *pool
	last atomic.Int64

	mu      sync.Mutex
	charges map[string][]charge // by API key
}

type charge struct {
	ID       string `json:"id"`
	Amount   int64  `json:"amount"`   // in cents
	LiveMode bool   `json:"livemode"` // not by a test-mode key
}

// maxCharges bounds how many charges of a key are remembered.
const maxCharges = 1000

func newAPI(p *pool) *api { return &api{pool: p, charges: map[string][]charge{}} }

func (a *api) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/charges", a.withKey(a.create))
	mux.HandleFunc("GET /v1/charges", a.withKey(a.list))
	mux.HandleFunc("GET /v1/search", a.withKey(a.search))
	mux.HandleFunc("POST /v1/exports", a.withKey(a.export))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok") })

	return mux
}

// withKey turns away whoever has no key of this API.
func (a *api) withKey(next func(w http.ResponseWriter, r *http.Request, key string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !strings.HasPrefix(key, liveKeys) && !strings.HasPrefix(key, testKeys) {
			answer(w, http.StatusUnauthorized, "Authorization: Bearer sk_live_… or sk_test_…")

			return
		}

		next(w, r, key)
	}
}

// create takes a charge. It is the request that matters: a shop waits at its till.
func (a *api) create(w http.ResponseWriter, r *http.Request, key string) {
	amount, err := strconv.ParseInt(r.FormValue("amount"), 10, 64)
	if err != nil || amount <= 0 {
		answer(w, http.StatusBadRequest, "amount: a whole number of cents")

		return
	}

	if a.pool.do(r.Context(), chargeWork) != nil {
		return
	}

	c := charge{ID: "ch_" + strconv.FormatInt(a.last.Add(1), 10), Amount: amount, LiveMode: strings.HasPrefix(key, liveKeys)}

	a.mu.Lock()
	a.charges[key] = append(a.charges[key], c)
	a.charges[key] = a.charges[key][max(0, len(a.charges[key])-maxCharges):]
	a.mu.Unlock()

	answer(w, http.StatusCreated, c)
}

// list needs no worker: it is what an API has most of.
func (a *api) list(w http.ResponseWriter, _ *http.Request, key string) {
	a.mu.Lock()
	all := append([]charge{}, a.charges[key]...)
	a.mu.Unlock()

	answer(w, http.StatusOK, all)
}

// search looks for charges of an amount.
func (a *api) search(w http.ResponseWriter, r *http.Request, key string) {
	if a.pool.do(r.Context(), searchWork) != nil {
		return
	}

	found := []charge{}

	a.mu.Lock()
	for _, c := range a.charges[key] {
		if strconv.FormatInt(c.Amount, 10) == r.FormValue("amount") {
			found = append(found, c)
		}
	}
	a.mu.Unlock()

	answer(w, http.StatusOK, found)
}

// export is the expensive endpoint.
func (a *api) export(w http.ResponseWriter, r *http.Request, key string) {
	if a.pool.do(r.Context(), exportWork) != nil {
		return
	}

	a.list(w, r, key)
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) //nolint:errchkjson // these always encode; and the caller may have gone away
}
