package server

import (
	"context"
	goflag "flag"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leaseway/leaseway/internal/rpc"
	"github.com/leaseway/leaseway/internal/rulestore/postgres/postgrestest"
	"github.com/leaseway/leaseway/rule"
)

var (
	watching = goflag.Int("watching", 50, "how many holders TestAChangeReachesEveryHolder has watch the rules")
	changes  = goflag.Int("changes", 10, "how many changes it makes")
	across   = goflag.Bool("across", false, "whether holders are at another coordinator than the changes, over Postgres")
	many     = goflag.Int("rules", 200, "how many rules TestManyRulesAreApplied applies")
)

// heard is when holders had a limit in force.
type heard struct {
	mu   sync.Mutex
	when map[int64][]time.Time
}

func (h *heard) note(set *rule.Set) error {
	h.mu.Lock()
	defer h.mu.Unlock()

	if r := set.Rule("things"); r != nil {
		h.when[r.Limit] = append(h.when[r.Limit], time.Now())
	}

	return nil
}

func (h *heard) of(limit int64) []time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()

	return slices.Clone(h.when[limit])
}

// A rule that is put reaches every holder, whole and in order; how soon is logged.
func TestAChangeReachesEveryHolder(t *testing.T) {
	r := start(t, "--rules-seed", file(t, thingsRules))
	watched := r

	if *across {
		store := postgrestest.New(t).Database(t)
		r = start(t, "--rule-store", store, "--rules-seed", file(t, thingsRules))
		watched = start(t, "--rule-store", store)
	}

	ctx, cancel := context.WithCancel(t.Context())

	var (
		watchers sync.WaitGroup
		all      = heard{when: map[int64][]time.Time{}}
	)

	for i := range *watching {
		client, err := rpc.Dial(rpc.Config{URLs: []string{watched.GRPC}, Name: strconv.Itoa(i), Holder: uint64(i) + 1, AllowUnsigned: true})
		must(t, err)

		watchers.Go(func() {
			last := uint64(0)
			_ = client.Watch(ctx, 0, func(set *rule.Set) error { // ends with ctx
				if set.Version <= last {
					t.Errorf("version %d after %d", set.Version, last)
				}

				last = set.Version

				return all.note(set)
			})
			_ = client.Close()
		})
	}

	t.Cleanup(func() {
		cancel()
		watchers.Wait()
	})
	eventually(t, "everybody watches", func() bool { return len(all.of(100)) == *watching })

	var first, last []time.Duration

	for i := range *changes {
		limit := int64(1000 + i)
		body := `{"limit": ` + strconv.FormatInt(limit, 10) + `, "windowSec": 43200, "keyBy": "user", "scope": "/v1/things"}`
		began := time.Now()

		r.want(t, "PUT /admin/rules/things", body, expected{http.StatusOK, "version"})
		eventually(t, "the change is everywhere", func() bool { return len(all.of(limit)) == *watching })

		when := all.of(limit)
		first, last = append(first, when[0].Sub(began)), append(last, when[len(when)-1].Sub(began))
	}

	slices.Sort(first)
	slices.Sort(last)
	t.Logf("from PUT to %d holders, %d changes: the first of them after %v (median); the last after %v (median), %v (99 %%)",
		*watching, *changes, first[len(first)/2], last[len(last)/2], last[len(last)*99/100])
}

// A document of many rules is applied whole, and applied again it changes nothing.
func TestManyRulesAreApplied(t *testing.T) {
	var doc strings.Builder

	doc.WriteString("rules:\n")

	for i := range *many {
		doc.WriteString("  - {id: r" + strconv.Itoa(i) + ", scope: /v1/r" + strconv.Itoa(i) + ", keyBy: user, limit: 100, window: 1m}\n")
	}

	r := start(t)
	r.client.Timeout = time.Minute
	began := time.Now()

	r.want(t, "PUT /admin/document", doc.String(), expected{http.StatusOK, `"created"`})
	t.Logf("%d rules applied in %v", *many, time.Since(began))
	eventually(t, "they are in force", func() bool {
		return r.call(t, http.MethodPost, "/v1/rules/r"+strconv.Itoa(*many-1)+"/check", `{"key": "ada"}`).status == http.StatusOK
	})
	t.Logf("in force after %v", time.Since(began))

	began = time.Now()

	r.want(t, "PUT /admin/document", doc.String(), expected{http.StatusOK, `"places":[]`})
	t.Logf("compared again in %v", time.Since(began))

	began = time.Now()

	r.want(t, "PUT /admin/document", strings.ReplaceAll(doc.String(), "limit: 100", "limit: 99"), expected{http.StatusOK, `"changed"`})
	t.Logf("all of them changed in %v", time.Since(began))
}
