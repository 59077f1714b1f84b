package leaseway_test

import (
	"runtime"
	"strconv"
	"testing"

	"github.com/leaseway/leaseway"
)

// Two hundred thousand callers who come once each, most of them refused by a rule for all, leave a server with its 10,000 keys,
// and what it did not remember is counted. Who is over the limit stays so.
func TestKeysAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("200,000 requests; run without -short")
	}

	const most = 10_000

	l := embedded(t, "rules: [{id: each, keyBy: user, limit: 1, window: 1h}, {id: all, limit: 1000, window: 1h}]", leaseway.WithMaxKeys(most))

	if d := l.Decide(t.Context(), leaseway.Request{User: "first"}); !d.Allowed {
		t.Fatalf("the first got %+v", d)
	}

	before := heap()

	for i := range 200_000 {
		l.Decide(t.Context(), leaseway.Request{User: strconv.Itoa(i)})
	}

	s := l.Stats()
	t.Logf("%d keys, %d not remembered, %d MiB more", s.Keys, s.Overflow, (heap()-before)>>20)

	if s.Keys > most+1 || s.Overflow == 0 {
		t.Errorf("%d keys are remembered, want %d at most; %d requests counted as not remembered", s.Keys, most, s.Overflow)
	}

	if grown := heap() - before; grown > 32<<20 {
		t.Errorf("the heap has grown by %d MiB", grown>>20)
	}

	each, err := l.Rule("each")
	if err != nil {
		t.Fatal(err)
	}

	if each.Take("first").Allowed {
		t.Error("who had used up a limit was admitted again")
	}
}

func heap() int64 {
	runtime.GC()

	var m runtime.MemStats

	runtime.ReadMemStats(&m)

	return int64(m.HeapAlloc)
}
