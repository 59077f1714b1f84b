package redis

import (
	"context"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leaseway/leaseway/internal/store"
	"github.com/leaseway/leaseway/internal/store/redis/redistest"
	"github.com/leaseway/leaseway/internal/store/storetest"
)

var servers redistest.Servers // one cluster for the binary, which TestMain ends

func TestMain(m *testing.M) {
	code := m.Run()
	servers.Stop()

	if code == 0 {
		if err := goleak.Find(redistest.DriverNaps()...); err != nil {
			_, _ = os.Stderr.WriteString(err.Error() + "\n")
			code = 1
		}
	}

	os.Exit(code)
}

// open opens a store on the shared cluster; clock may be nil.
func open(tb testing.TB, prefix string, clock func() int64) *Store {
	tb.Helper()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	s, err := New(ctx, Config{Addresses: servers.Shared(tb).Addresses(), Prefix: prefix, Clock: clock})
	if err != nil {
		tb.Fatal(err)
	}

	tb.Cleanup(func() { _ = s.Close(context.Background()) })

	return s
}

// The suite of all stores, in virtual time. Losing everything while no
// coordinator looks cannot be told from a first start, so Crash is not shown here.
func TestStore(t *testing.T) {
	prefixes := map[string]string{}

	storetest.Run(t, storetest.Backend{
		Open: func(t *testing.T, site storetest.Site) store.Store {
			t.Helper()

			if prefixes[site.Dir] == "" {
				prefixes[site.Dir] = servers.Prefix()
			}

			return open(t, prefixes[site.Dir], site.Clock)
		},
		Virtual: true,
		Keeps:   true,
	})
}

// The same at Redis's own time.
func TestStoreInRealTime(t *testing.T) {
	storetest.Run(t, storetest.Backend{
		Open: func(t *testing.T, _ storetest.Site) store.Store {
			t.Helper()

			return open(t, servers.Prefix(), nil)
		},
	})
}
