package coordinator

import (
	"testing"
	"time"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/store/memory"
)

func TestPresenceIsInTheTimeThatIsGiven(t *testing.T) {
	t.Parallel()

	now := time.Unix(1000, 0)

	clock := func() time.Time { return now }

	store, err := memory.New(memory.Config{Clock: func() int64 { return clock().UnixMicro() }})
	if err != nil {
		t.Fatal(err)
	}

	c, err := New(Config{Store: store, Book: NewBook(nil), Clock: clock})
	if err != nil {
		t.Fatal(err)
	}

	live := func(holder uint64) int64 {
		t.Helper()

		answers, err := c.Acquire(t.Context(), &ledger.Batch{Holder: holder, Seq: 1})
		if err != nil {
			t.Fatal(err)
		}

		return answers.Live
	}

	if got := live(1); got != 1 {
		t.Errorf("the first: %d live", got)
	}

	if got := live(2); got != 2 {
		t.Errorf("the second: %d live", got)
	}

	now = now.Add(presenceTTL - time.Second)

	live(2)

	now = now.Add(2 * time.Second) // the first was last seen more than a TTL ago

	if err := c.Beat(t.Context()); err != nil {
		t.Fatal(err)
	}

	if got := live(2); got != 1 {
		t.Errorf("after the first went away: %d live", got)
	}
}
