package redis

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/leaseway/leaseway/internal/proctest"
	"github.com/leaseway/leaseway/internal/store/redis/redistest"
)

// behind is how a store finds a master by its sentinels.
func behind(s *redistest.Sentinels) Config {
	return Config{Addresses: s.Addresses(), Sentinel: &Sentinel{Master: redistest.MasterName}}
}

// The master dies, its sentinels promote the replica, and the store goes on with what the replica has heard: nobody gets a
// full budget again.
func TestSentinelFailover(t *testing.T) {
	group := redistest.NewSentinels(t)
	s := openWith(t, behind(group))
	q := &taker{T: t, store: s}
	if got := q.drain("k", hourly(100), 40); got != 40 {
		t.Fatalf("%d of 40", got)
	}

	id := s.ID()

	group.Heard(t)
	group.Master.Kill()
	group.Notice(t)

	began, failed := time.Now(), 0

	until(t, "a new master is used", func() bool {
		_, err := q.brief("probe")
		if err != nil {
			failed++
		}

		return err == nil
	})

	t.Logf("after %v and %d failures the new master is used", time.Since(began), failed)

	if got := q.drain("k", hourly(100), 100); got != 60 || s.ID() != id {
		t.Errorf("%d more after the failover, want the 60 that were left; data %d, was %d", got, s.ID(), id)
	}

	if failed == 0 {
		t.Error("nothing failed, so there was no failover")
	}
}

// Sentinels move the master while both live: what a demoted one is still sent it refuses, and the store finds the new one.
func TestSentinelSwitch(t *testing.T) {
	group := redistest.NewSentinels(t)
	s := openWith(t, behind(group))
	q := &taker{T: t, store: s}
	taken := q.drain("k", hourly(100), 30)

	group.Heard(t)

	if err := group.Sentinels[0].Do(t.Context(), "SENTINEL", "FAILOVER", redistest.MasterName); err != nil {
		t.Fatal(err)
	}

	until(t, "the replica is the master", func() bool {
		role, err := group.Replica.Ask(t.Context(), "INFO", "replication")

		return err == nil && strings.Contains(role, "role:master")
	})
	until(t, "the old one is none any more", func() bool { // what it took in between is lost
		role, err := group.Master.Ask(t.Context(), "INFO", "replication")

		return err == nil && strings.Contains(role, "role:slave")
	})
	until(t, "the store uses it", func() bool {
		_, err := q.take(t.Context(), "probe", hourly(10_000))

		return err == nil
	})

	if taken += q.drain("k", hourly(100), 100); taken != 100 {
		t.Errorf("%d of 100 were taken in all", taken)
	}
}

// Sentinels that know no such master are an error that says so.
func TestSentinelOfAnother(t *testing.T) {
	group := redistest.NewSentinels(t)
	config := behind(group)
	config.Sentinel.Master = "other"

	ctx, cancel := context.WithTimeout(t.Context(), proctest.Patience)
	defer cancel()

	s, err := New(ctx, config)
	if err == nil {
		_ = s.Close(ctx)

		t.Fatal("it was used")
	}

	if got := Diagnose(ctx, &config, err); got != TroubleMaster {
		t.Errorf("trouble %d: %v", got, err)
	}
}
