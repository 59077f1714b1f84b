package table_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/store/memory"
	"github.com/leaseway/leaseway/internal/table"
)

// patient has something to find out about one key, which takes until it is released.
type patient struct {
	*coordinator.Coordinator

	asked, released chan struct{}
}

func (p patient) Prepare(_, key string) {
	if key == "slow" {
		close(p.asked)
		<-p.released
	}
}

// What has to be found out about one key, such as its override in a slow rule store, holds up no other.
func TestALoanThatTakesLongHoldsUpNoOther(t *testing.T) {
	t.Parallel()

	now := rigStart
	b := newBank(t, func() int64 { return now }, memory.Config{})
	p := patient{b.coord, make(chan struct{}), make(chan struct{})}
	tb := table.New(p, table.Config{Inline: true, Clock: table.NewVirtualClock(now)})
	b.apply("rules: [{id: r, keyBy: user, limit: 10, window: 1h}]", tb)

	var slow, other table.Outcome

	waited, done := make(chan struct{}), make(chan struct{})

	go func() {
		defer close(waited)
		tb.Rule("r").Take(t.Context(), "slow", 1, &slow)
	}()
	<-p.asked

	go func() {
		defer close(done)

		for i := range 1_000 { // some are of the same part
			tb.Rule("r").Take(t.Context(), strconv.Itoa(i), 1, &other)
		}
	}()

	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Error("other keys wait for it")
	}

	close(p.released)
	<-waited
	<-done

	if slow.Kind != table.Allowed || other.Kind != table.Allowed {
		t.Errorf("%+v and %+v", slow, other)
	}
}
