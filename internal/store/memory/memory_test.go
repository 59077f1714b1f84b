package memory

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/leaseway/leaseway/internal/store"
	"github.com/leaseway/leaseway/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStore(t *testing.T) {
	storetest.Run(t, storetest.Backend{
		Open: func(t *testing.T, site storetest.Site) store.Store {
			t.Helper()

			s, err := New(Config{MaxKeys: 100_000, Clock: site.Clock, Dir: site.Dir})
			if err != nil {
				t.Fatal(err)
			}

			return s
		},
		Virtual: true,
		Keeps:   true,
		Crash:   func(_ *testing.T, s store.Store) { s.(*Store).crash() },
	})
}

// A store without a directory, on the system's clock.
func TestStoreInRealTime(t *testing.T) {
	storetest.Run(t, storetest.Backend{
		Open: func(t *testing.T, _ storetest.Site) store.Store {
			t.Helper()

			s, err := New(Config{})
			if err != nil {
				t.Fatal(err)
			}

			return s
		},
	})
}

// crash ends the store as a killed process would: nothing is saved.
func (s *Store) crash() {
	s.stop()
	s.marker.Wait()
	s.dir.release()
	s.closing.Do(func() {})
}
