package coordinator

import (
	"testing"
	"time"

	"github.com/leaseway/leaseway/internal/ledger"
)

// A name counts while one incarnation after the other has it, and does not while two live ones do.
func TestANameOfOneHolderAtATime(t *testing.T) {
	t.Parallel()

	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	p := newPresence(nil, func() time.Time { return now })
	hear := func(holder uint64, name string) uint64 {
		id := p.nameOf(&ledger.Batch{Holder: holder, Name: name})
		p.note(&ledger.Batch{Holder: holder}, nil)

		return id
	}

	if hear(9, "") != 0 {
		t.Error("no name has an id")
	}

	id := hear(1, "api-1")
	if id == 0 || hear(2, "api-2") == id || hear(1, "api-1") != id {
		t.Error("a name has no id, or that of another")
	}

	for range 2 {
		if hear(3, "api-1") != id {
			t.Error("a process that started again has lost its name")
		}
	}

	now = now.Add(time.Minute) // the one before has been silent for long
	hear(3, "api-1")
	hear(4, "api-1")

	if hear(3, "api-1") != 0 || hear(4, "api-1") != 0 || hear(5, "api-1") != 0 {
		t.Error("a name that two live holders have still counts")
	}

	now = now.Add(sharedFor)

	if hear(5, "api-1") != id {
		t.Error("a name that was shared long ago does not count")
	}
}
