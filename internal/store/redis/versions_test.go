package redis

import (
	"context"
	_ "embed"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/store"
	"github.com/leaseway/leaseway/internal/store/redis/redistest"
)

// earlierText is the functions of a version before this one, as it loaded them: ledgers, groups and calls are laid out alike,
// and it read and wrote them by other code. A change of the layout needs another one. What turns bring, and how long they are
// waited for, is as now, so that one plain ledger can tell the answers of both.
//
//go:embed testdata/earlier.lua
var earlierText string

// earlier opens a store of that version: other functions over the same data.
func earlier(t *testing.T, cfg Config) *Store {
	t.Helper()

	s := openWith(t, cfg)
	s.library = libraryOf(earlierText + // which had no function for several ops, and sent each by itself
		"local function number() return 0 end\nlocal function ops(_, argv)\nlocal none = {}\n" +
		"for i = 3, #argv, 3 do none[#none + 1] = {err = 'non local key'} end\nreturn none\nend\n")

	return s
}

// inTurn is two stores over the same data, of which each call takes the other one.
type inTurn struct {
	store.Store

	other store.Store
	calls int
}

// Apply lets the stores take turns.
func (s *inTurn) Apply(ctx context.Context, ops []store.Op, results []store.Result) {
	s.calls++

	if s.calls%2 == 0 {
		s.other.Apply(ctx, ops, results)
	} else {
		s.Store.Apply(ctx, ops, results)
	}
}

// While a fleet is upgraded coordinators of two versions share a Redis, each with its own functions. Together they give
// the answers of one plain ledger, and whatever one wrote the other goes on with, back and forth.
func TestTwoVersionsShareLedgers(t *testing.T) {
	server := redistest.NewServer(t)
	p := newPlayer(0)
	config := Config{Addresses: []string{server.Address}, Clock: func() int64 { return p.now }}
	both := &inTurn{Store: openWith(t, config), other: earlier(t, config)}
	run := uint64(0)

	rapid.Check(t, func(t *rapid.T) {
		run++
		*p = *newPlayer(run)
		// The earlier version forgot what was spent of the next window when nobody had a lease, knew no long ones, and left
		// leases that had ended in their window as spent.
		p.present = true
		twins := twins{}

		play(t, p, both, func(op store.Op) ledger.Answer { return twins.apply(p.now, &op) })
	})

	r := openReader(t, config)

	survey, err := r.Survey(t.Context())
	if err != nil || len(survey.Nodes) != 1 || len(survey.Nodes[0].Libraries) != 2 {
		t.Errorf("there are not the functions of both: %+v (%v)", survey, err)
	}
}

// Both see who lives, and whose data it is.
func TestTwoVersionsCountHolders(t *testing.T) {
	server := redistest.NewServer(t)
	config := Config{Addresses: []string{server.Address}}
	old, fresh := earlier(t, config), openWith(t, config)

	for i, s := range []*Store{old, fresh, old} {
		if live := beat(t, s, []uint64{uint64(i + 1)}, time.Minute); live != int64(i+1) {
			t.Errorf("beat %d: %d live", i, live)
		}
	}

	if old.ID() != fresh.ID() {
		t.Errorf("data %d and %d", old.ID(), fresh.ID())
	}
}

// What a version does not know how to read it neither answers from nor overwrites: the key has an outage until
// a coordinator that can read it is asked.
func TestALaterLayoutIsLeftAlone(t *testing.T) {
	server := redistest.NewServer(t)
	s := openAt(t, []string{server.Address})
	q := &taker{T: t, store: s}
	at := s.names.place(store.Key{Rule: "r", Key: "k"})
	kept := "\x02" + strings.Repeat("x", 300)

	if err := server.Do(t.Context(), "SET", at.held, kept, "PX", "60000"); err != nil {
		t.Fatal(err)
	}

	if ok, err := q.take(t.Context(), "k", hourly(10)); ok || err == nil || !strings.Contains(err.Error(), "another version of Leaseway") {
		t.Errorf("allowed %v (%v)", ok, err)
	}

	if got, err := server.Ask(t.Context(), "GET", at.held); err != nil || got != kept {
		t.Errorf("it became %q (%v)", got, err)
	}

	if got := q.drain("other", hourly(10), 12); got != 10 {
		t.Errorf("%d of 10 of another key", got)
	}
}
