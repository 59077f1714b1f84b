package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"go.uber.org/goleak"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/rest"
	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/internal/rulestore/postgres/postgrestest"
	"github.com/leaseway/leaseway/internal/rulestore/sqlite"
	"github.com/leaseway/leaseway/rule"
)

// servers starts the Postgres that these tests share.
var servers postgrestest.Servers

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		servers.Stop()
		os.Exit(code)
	}), goleak.IgnoreAnyFunction("github.com/leaseway/leaseway/internal/rulestore/postgres/postgrestest.(*Server).run.func1"),
		goleak.IgnoreAnyFunction("os/exec.(*Cmd).Start.func2"), goleak.IgnoreAnyFunction("os/exec.(*Cmd).writerDescriptor.func1"))
}

// start is the time in tests, until they move it.
var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// rig is a door over a real rule store, on a real listener.
type rig struct {
	t      *testing.T
	store  rulestore.Store
	door   *Door
	path   string // of the store
	mux    *http.ServeMux
	api    huma.API
	server *httptest.Server
	fleet  *fleet
	token  string

	mu  sync.Mutex
	now time.Time
}

// fleet is a Limiter of the store's rules, as the server would have one, and who is in its fleet.
type fleet struct {
	roster Roster
	used   Use

	mu      sync.Mutex
	set     func() *rule.Set
	version uint64 // of the set that the limiter has
	limiter *leaseway.Limiter
	charges map[string][]leaseway.Decision
}

func (f *fleet) follow() error {
	set := f.set()
	if f.limiter != nil && f.version == set.Version {
		return nil
	}

	f.version = set.Version

	if f.limiter != nil {
		_ = f.limiter.Close(context.Background())
	}

	var err error
	f.limiter, err = leaseway.Embedded(set)

	return err
}

func (f *fleet) rule(id string) (*leaseway.Rule, error) {
	if err := f.follow(); err != nil {
		return nil, err
	}

	r, err := f.limiter.Rule(id)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnknownRule, err)
	}

	return r, nil
}

// take charges a key, as requests do.
func (f *fleet) take(t *testing.T, id, key string, cost int64) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()

	r, err := f.rule(id)
	if err != nil {
		t.Fatal(err)
	}

	d := r.TakeN(key, cost)
	if !d.Allowed {
		t.Fatalf("%s %s: refused: %s", id, key, d.Reason)
	}

	f.charges[id+key] = append(f.charges[id+key], d)
}

func (f *fleet) Instances(context.Context) (Roster, error) { return f.roster, nil }

func (f *fleet) Level(_ context.Context, id, key string) (Level, error) {
	f.mu.Lock()
	defer f.mu.Unlock()

	r, err := f.rule(id)
	if err != nil {
		return Level{}, err
	}

	d := r.Peek(key)

	return Level{
		Allowed: d.Allowed, Limit: d.Limit, Remaining: d.Remaining, Reset: d.Reset, RetryAfter: d.RetryAfter, Reason: string(d.Reason),
	}, nil
}

func (f *fleet) Used(_ context.Context, ids ...string) (map[string]Use, error) {
	used := map[string]Use{}
	for _, id := range ids {
		used[id] = f.used
	}

	return used, nil
}

func (f *fleet) Reset(_ context.Context, id, key string) error {
	f.mu.Lock()
	defer f.mu.Unlock()

	for _, d := range f.charges[id+key] {
		f.limiter.Refund(d)
	}

	delete(f.charges, id+key)

	return nil
}

// Refund gives back whole charges, which is all that this fleet knows of.
func (f *fleet) Refund(ctx context.Context, id, key string, _ int64) error {
	return f.Reset(ctx, id, key)
}

// newRig makes one over SQLite.
func newRig(t *testing.T, change ...func(*Config)) *rig {
	t.Helper()

	r := &rig{t: t, now: start, path: filepath.Join(t.TempDir(), "rules.db")}

	store, err := sqlite.Open(t.Context(), sqlite.Config{Path: r.path, Now: r.clock})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = store.Close() })
	r.over(store, change...)

	return r
}

func (r *rig) clock() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()

	return r.now
}

func (r *rig) after(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = r.now.Add(d)
}

// over opens the door over a store.
func (r *rig) over(store rulestore.Store, change ...func(*Config)) {
	r.t.Helper()
	r.store = store
	r.fleet = &fleet{charges: map[string][]leaseway.Decision{}, roster: Roster{Version: 7}}

	config := Config{Store: store, Latest: func() *rulestore.State { return nil }, Fleet: r.fleet, Now: r.clock}
	for _, do := range change {
		do(&config)
	}

	door, err := New(config)
	if err != nil {
		r.t.Fatal(err)
	}

	r.door = door
	r.fleet.set = func() *rule.Set {
		state, err := door.view.state(context.Background())
		if err != nil {
			return &rule.Set{}
		}

		return state.Set
	}

	mux := http.NewServeMux()
	r.mux, r.api = mux, rest.New(mux, "v0.0.0")
	door.Register(r.api)
	door.RegisterLimits(r.api)
	r.server = httptest.NewServer(mux)
	server, fleet := r.server, r.fleet
	r.t.Cleanup(func() {
		server.Client().CloseIdleConnections()
		server.Close()

		if fleet.limiter != nil {
			_ = fleet.limiter.Close(context.Background())
		}
	})
}

// got is an answer.
type got struct {
	t      *testing.T
	what   string
	status int
	header http.Header
	body   string
}

// send calls the API with the token of the rig, if it has one; headers are names and values in turn.
func (r *rig) send(method, path, body string, headers ...string) got {
	r.t.Helper()

	request, err := http.NewRequestWithContext(r.t.Context(), method, r.server.URL+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}

	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}

	if r.token != "" {
		request.Header.Set("Authorization", "Bearer "+r.token)
	}

	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}

	response, err := r.server.Client().Do(request)
	if err != nil {
		r.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer response.Body.Close()

	text, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatalf("%s %s: %v", method, path, err)
	}

	return got{r.t, method + " " + path, response.StatusCode, response.Header, string(text)}
}

// want fails unless the status is right, and the body has each of the texts.
func (g got) want(status int, texts ...string) got {
	g.t.Helper()

	if g.status != status {
		g.t.Fatalf("%s: got %d, want %d: %s", g.what, g.status, status, g.body)
	}

	for _, text := range texts {
		if !strings.Contains(g.body, text) {
			g.t.Errorf("%s: the answer has no %q: %s", g.what, text, g.body)
		}
	}

	if problem := status >= 400; problem != (g.header.Get("Content-Type") == "application/problem+json") {
		g.t.Errorf("%s: %d with %s", g.what, status, g.header.Get("Content-Type"))
	}

	return g
}

// lacks fails if the body has one of the texts.
func (g got) lacks(texts ...string) got {
	g.t.Helper()

	for _, text := range texts {
		if strings.Contains(g.body, text) {
			g.t.Errorf("%s: the answer has %q: %s", g.what, text, g.body)
		}
	}

	return g
}

// read decodes the body.
func read[T any](g got) (v T) {
	g.t.Helper()

	decoder := json.NewDecoder(bytes.NewReader([]byte(g.body)))
	decoder.DisallowUnknownFields()

	if err := decoder.Decode(&v); err != nil {
		g.t.Fatalf("%s: %v: %s", g.what, err, g.body)
	}

	return v
}

// createToken makes a token, with the rights of the one that the rig has.
func (r *rig) createToken(body string) string {
	r.t.Helper()

	return r.createdToken(body).Token
}

// created is what the API answers about a new token.
type created struct {
	TokenView

	Token    string   `json:"token"`
	Required bool     `json:"required"`
	Without  []string `json:"without"`
}

// createdToken makes a token and returns all that is said of it.
func (r *rig) createdToken(body string) created {
	r.t.Helper()

	return read[created](r.send(http.MethodPost, "/admin/tokens", body).want(http.StatusCreated))
}

// sometimes is a store that is out of reach now and then.
type sometimes struct {
	rulestore.Store

	down atomic.Bool
}

func (s *sometimes) gone() error {
	if !s.down.Load() {
		return nil
	}

	return &rulestore.Error{Code: rulestore.Unavailable, Message: "the rule store does not answer", Fix: "see to the database"}
}

func (s *sometimes) Load(ctx context.Context) (*rulestore.State, error) {
	if err := s.gone(); err != nil {
		return nil, err
	}

	return s.Store.Load(ctx)
}

func (s *sometimes) Write(ctx context.Context, change *rulestore.Change) (*rulestore.Record, error) {
	if err := s.gone(); err != nil {
		return nil, err
	}

	return s.Store.Write(ctx, change)
}
