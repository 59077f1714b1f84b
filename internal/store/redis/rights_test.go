package redis

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/proctest"
	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/internal/store"
	"github.com/leaseway/leaseway/internal/store/redis/redistest"
)

// The users of docs/redis.md, in its order.
const (
	ofRedis = iota
	ofSentinels
	ofLookers
)

// documented returns the words that make a user which the documentation names.
func documented(t *testing.T, user int) []string {
	t.Helper()

	text, err := os.ReadFile("../../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}

	blocks := strings.Split(string(text), "```\nACL SETUSER")
	if len(blocks) != 4 {
		t.Fatalf("docs/redis.md has %d users, want 3", len(blocks)-1)
	}

	line, _, _ := strings.Cut(blocks[user+1], "```")

	return append([]string{"ACL", "SETUSER"}, strings.Fields(strings.ReplaceAll(line, "PASSWORD", "secret"))...)
}

func do(t *testing.T, words []string, servers ...*redistest.Server) {
	t.Helper()

	for _, s := range servers {
		if err := s.Do(t.Context(), words...); err != nil {
			t.Fatal(err)
		}
	}
}

// useAll does all that a store does.
func useAll(t *testing.T, s *Store) {
	t.Helper()

	if _, err := s.Beat(t.Context(), []uint64{1}, time.Second); err != nil {
		t.Error(err)
	}

	if err := s.renewMarks(t.Context()); err != nil {
		t.Error(err)
	}

	q := &taker{T: t, store: s}

	for i := range 200 { // enough of them that groups are swept
		for _, terms := range []ledger.Terms{hourly(2), {Algorithm: rate.SlidingLog, Bucket: hourly(2).Bucket, Length: 1000, Version: 2}} {
			if _, err := q.patiently(strconv.Itoa(i), terms); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A user with the rights of the documentation can do all that a store does, and one that looks all that a reader does, but no more.
func TestLeastRights(t *testing.T) {
	server := redistest.NewServer(t)
	do(t, documented(t, ofRedis), server)
	do(t, documented(t, ofLookers), server)

	s := openWith(t, Config{Addresses: []string{server.Address}, Username: "leaseway", Password: "secret"})
	useAll(t, s)
	(&taker{T: t, store: s, last: 1}).drain("looked at", hourly(2), 1)

	for _, command := range [][]string{{"FLUSHALL"}, {"KEYS", "*"}, {"CONFIG", "GET", "*"}, {"GET", "other"}, {"FUNCTION", "FLUSH"}} {
		if err := s.client.Do(t.Context(), s.client.B().Arbitrary(command...).Build()).Error(); err == nil {
			t.Errorf("the user may %v", command)
		}
	}

	r := openReader(t, Config{Addresses: []string{server.Address}, Username: "leaseway-looks", Password: "secret"})

	survey, err := r.Survey(t.Context())
	if err != nil || survey.Data.Err != nil || len(survey.Nodes) != 1 || survey.Nodes[0].Settings == nil || survey.Nodes[0].Libraries == nil || survey.Data.ID != s.ID() {
		t.Errorf("who looks sees %+v (%v)", survey, err)
	}

	if found, err := r.Ledger(t.Context(), store.Key{Rule: "r", Key: "looked at"}); err != nil || found.Kept == KeptNowhere {
		t.Errorf("who looks finds %+v (%v)", found, err)
	}

	if err := r.client.Do(t.Context(), r.client.B().Del().Key(r.names.id()).Build()).Error(); err == nil {
		t.Error("who looks may delete")
	}
}

// The same in a cluster, of which a slot moves.
func TestLeastRightsInACluster(t *testing.T) {
	cluster := redistest.New(t)
	for _, user := range []int{ofRedis, ofLookers} {
		do(t, documented(t, user), cluster.Masters...)
		do(t, documented(t, user), cluster.Replicas...)
	}

	s := openWith(t, Config{Addresses: cluster.Addresses(), Username: "leaseway", Password: "secret"})
	q := &taker{T: t, store: s}
	slot := slotOf(s.names.place(store.Key{Rule: "r", Key: "k"}).mark, DefaultPrefix)
	from := slot * 3 / clusterSlots

	q.drain("k", hourly(100), 10)

	move := redistest.Move{From: cluster.Masters[from], To: cluster.Masters[(from+1)%3], During: func() {
		if _, err := q.take(t.Context(), "k", hourly(100)); err != nil && strings.Contains(err.Error(), "NOPERM") {
			t.Error(err)
		}
	}}
	if err := cluster.MoveSlot(t.Context(), slot, move); err != nil {
		t.Fatal(err)
	}

	useAll(t, s)

	r := openReader(t, Config{Addresses: cluster.Addresses(), Username: "leaseway-looks", Password: "secret"})

	survey, err := r.Survey(t.Context())
	if err != nil || survey.Data.Err != nil || survey.Cluster["cluster_state"] != "ok" || survey.Data.ID != s.ID() {
		t.Errorf("who looks sees %+v (%v)", survey, err)
	}
}

// The same behind sentinels, that have users as well.
func TestLeastRightsBehindSentinels(t *testing.T) {
	group := redistest.NewSentinels(t)
	do(t, documented(t, ofRedis), group.Master, group.Replica)
	do(t, documented(t, ofSentinels), group.Sentinels...)

	for _, sentinel := range group.Sentinels { // nobody without a password
		do(t, []string{"ACL", "SETUSER", "default", "resetpass", ">other"}, sentinel)
	}

	config := behind(group)
	config.Username, config.Password = "leaseway", "secret"
	config.Sentinel.Username, config.Sentinel.Password = "leaseway", "secret"

	useAll(t, openWith(t, config))

	config.Sentinel.Password = "guess"

	ctx, cancel := context.WithTimeout(t.Context(), proctest.Patience)
	defer cancel()

	s, err := New(ctx, config)
	if err == nil {
		_ = s.Close(ctx)

		t.Fatal("sentinels with a password let anyone in")
	}

	if got := Diagnose(ctx, &config, err); got != TroublePassword {
		t.Errorf("trouble %d: %v", got, err)
	}
}
