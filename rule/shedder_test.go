package rule

import (
	"testing"
	"time"
)

func TestSheddersAreRead(t *testing.T) {
	t.Parallel()
	set := parsed(t, "rules: []\nshedders: {worker: {}, fleet: {}}")
	want := WorkerShedder{High: 90, Low: 75, Rise: 2 * time.Second, Fall: 10 * time.Second, Stale: 5 * time.Second}
	if w := set.Shedders.Worker; w == nil || *w != want {
		t.Errorf("got %+v, want %+v", w, want)
	}
	if f := set.Shedders.Fleet; f == nil || *f != (FleetShedder{Reserve: 20}) {
		t.Errorf("got %+v", f)
	}
	if text := string(set.Marshal()); text != `{"shedders":{"worker":{},"fleet":{}},"rules":[]}` {
		t.Errorf("got %s", text)
	}
	roundTrip(t, set)
	all := parsed(t, `
rules: []
shedders:
  worker: {mode: shadow, high: 80%, low: 60%, rise: 1s, fall: 1s, stale: 2s, inFlight: 200, queueWait: 50ms}
  fleet: {mode: off, reserve: 30%, capacity: 5_000}
`)
	if w := all.Shedders.Worker; w.InFlight != 200 || w.QueueWait != 50*time.Millisecond || w.Mode != Shadow || w.Low != 60 {
		t.Errorf("got %+v", w)
	}
	if f := all.Shedders.Fleet; *f != (FleetShedder{Mode: Off, Reserve: 30, Capacity: 5000}) {
		t.Errorf("got %+v", f)
	}
	roundTrip(t, all.Next(nil, 4))
	held := parsed(t, "rules: []\nshedders: {worker: {high: 90%, low: 80%, hold: 2s}}")
	if w := held.Shedders.Worker; w.Hold != 2*time.Second || w.Rise != 2*time.Second {
		t.Errorf("got %+v", w)
	}
	roundTrip(t, held)
	if none := parsed(t, "rules: []"); none.Shedders != (Shedders{}) {
		t.Errorf("a document without shedders has %+v", none.Shedders)
	}
}
