package redis

import (
	"os"
	"path/filepath"
	"testing"

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
		if err := goleak.Find(append(redistest.DriverNaps(), redistest.ProxyRemains()...)...); err != nil {
			_, _ = os.Stderr.WriteString(err.Error() + "\n")
			code = 1
		}
	}

	os.Exit(code)
}

// open opens a store on the shared cluster; clock may be nil.
func open(tb testing.TB, prefix string, clock func() int64) *Store {
	tb.Helper()

	return openWith(tb, Config{Addresses: servers.Shared(tb).Addresses(), Prefix: prefix, Clock: clock})
}

// The suite of all stores, in virtual time. A loss is dated when it is found, and
// not when it was, so Crash is shown in real time.
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

// The same at Redis's own time, by coordinators that remember on their disk where there was data.
func TestStoreInRealTime(t *testing.T) {
	prefixes := map[string]string{}

	storetest.Run(t, storetest.Backend{
		Open: func(t *testing.T, site storetest.Site) store.Store {
			t.Helper()

			if prefixes[site.Dir] == "" {
				prefixes[site.Dir] = servers.Prefix()
			}

			s := openWith(t, Config{
				Addresses: servers.Shared(t).Addresses(), Prefix: prefixes[site.Dir], Seen: filepath.Join(site.Dir, "new", "redis.json"),
			})

			return s
		},
		Keeps: true,
		Crash: func(t *testing.T, kept store.Store) {
			t.Helper()

			s, ok := kept.(*Store)
			if !ok {
				t.Fatalf("it is a %T", kept)
			}

			s.loseAll(t)

			if err := s.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
	})
}

// loseAll deletes every key of the prefix, on every node.
func (s *Store) loseAll(t *testing.T) {
	t.Helper()

	for _, node := range s.client.Nodes() {
		names, err := node.Do(t.Context(), node.B().Keys().Pattern(s.names.prefix+"*").Build()).AsStrSlice()
		if err != nil {
			t.Fatal(err)
		}

		for _, name := range names {
			if err := s.client.Do(t.Context(), s.client.B().Del().Key(name).Build()).Error(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
