package rpc

import (
	"testing"
	"time"
)

const msec = time.Millisecond

// few are the pauses of a small fleet.
var few = (&crowd{}).pauses()

// opened returns a breaker that three failures at 0 have opened, and when it lets a probe through.
func opened(t *testing.T) (*breaker, time.Duration) {
	t.Helper()

	b := &breaker{}
	for n := range breakAfter {
		if ok, probe := b.enter(0); !ok || probe {
			t.Fatalf("closed, it let call %d through: %v, as a probe: %v", n, ok, probe)
		}

		if got := b.fail(0, false, few); got != (n == breakAfter-1) {
			t.Fatalf("failure %d opened it: %v", n, got)
		}
	}

	due := time.Duration(b.until.Load())
	if due < minBackoff/2 || due > minBackoff {
		t.Fatalf("the first probe is due after %v", due)
	}

	return b, due
}

func TestABreakerOpensAndLetsOneProbeThrough(t *testing.T) {
	b, due := opened(t)

	if ok, _ := b.enter(due - 1); ok || !b.refuses(due-1) || !b.open() {
		t.Error("a call went through before the probe was due")
	}

	if b.refuses(due) {
		t.Error("it refuses the probe that is due")
	}

	if ok, probe := b.enter(due); !ok || !probe {
		t.Error("no probe when it is due")
	}

	if ok, _ := b.enter(due); ok {
		t.Error("a second call went with the probe")
	}

	b.succeed()

	if ok, probe := b.enter(due); !ok || probe || b.open() {
		t.Error("still open after a success")
	}
}

func TestSuccessesBetweenFailuresKeepItClosed(t *testing.T) {
	b := &breaker{}
	for range 10 {
		b.fail(0, false, few)
		b.fail(0, false, few)
		b.succeed()
	}

	if b.open() {
		t.Error("opened by failures that were not in a row")
	}
}

func TestTheBackoffDoublesUpToItsBound(t *testing.T) {
	b, now := opened(t)

	for _, want := range []time.Duration{200 * msec, 400 * msec, maxBackoff, maxBackoff} {
		ok, probe := b.enter(now)
		if !ok || !probe || b.fail(now, probe, few) {
			t.Fatalf("at %v: let through %v as probe %v", now, ok, probe)
		}

		next := time.Duration(b.until.Load())
		if d := next - now; d < want/2 || d > want {
			t.Fatalf("the next probe is due after %v, want %v to %v", d, want/2, want)
		}

		now = next
	}
}

// A hundred calls were on their way when the breaker opened; that they fail too says nothing new.
func TestLateFailuresDoNotLengthenTheBackoff(t *testing.T) {
	b, due := opened(t)

	for range 100 {
		if b.fail(due, false, few) {
			t.Error("opened twice")
		}
	}

	if ok, probe := b.enter(due); !ok || !probe {
		t.Error("the probe was put off")
	}
}

// A probe whose caller went away reports nothing; another one follows.
func TestALostProbeIsFollowedByAnother(t *testing.T) {
	b, due := opened(t)
	b.enter(due)

	if ok, probe := b.enter(due + minBackoff); !ok || !probe {
		t.Error("no further probe")
	}
}

func TestLinesAreRare(t *testing.T) {
	var r rarely

	start := time.Unix(1_000, 0)
	for _, step := range []struct {
		after time.Duration
		want  bool
	}{{0, true}, {time.Second, false}, {logEvery, true}, {logEvery + 1, false}, {0, true}} { // the last: the clock stepped back
		if got := r.allow(start.Add(step.after)); got != step.want {
			t.Errorf("after %v: %v, want %v", step.after, got, step.want)
		}
	}
}

func TestAReplicaThatWantsRestIsNotBroken(t *testing.T) {
	b := &breaker{}
	b.spare(100 * msec)
	b.spare(50 * msec) // the later one holds

	if ok, _ := b.enter(99 * msec); ok || !b.refuses(99*msec) {
		t.Error("a call went through before it was wanted")
	}

	if b.open() {
		t.Error("it counts as broken")
	}

	if ok, probe := b.enter(100 * msec); !ok || probe {
		t.Errorf("the call that was wanted went through: %v, as a probe: %v", ok, probe)
	}
}

// What failed while nobody was there says nothing of one who is: it does not keep a holder away for the longest pause.
func TestASignOfLifeEndsLongPauses(t *testing.T) {
	b, now := opened(t)

	for range 5 {
		_, probe := b.enter(now)
		b.fail(now, probe, few)
		now = time.Duration(b.until.Load())
	}

	b.hasten(now, minBackoff)

	_, probe := b.enter(now)
	b.fail(now, probe, few)

	if d := time.Duration(b.until.Load()) - now; !probe || d > 2*minBackoff {
		t.Errorf("the next probe is due after %v, want %v at most", d, 2*minBackoff)
	}
}

func TestASignOfLifeHastensTheProbe(t *testing.T) {
	b, due := opened(t)
	b.hasten(due+msec, minBackoff)

	if b.refuses(due) {
		t.Error("the probe has to wait longer than before")
	}

	b.hasten(10*msec, minBackoff)

	if ok, _ := b.enter(10*msec - 1); ok {
		t.Error("a call went through before the probe was due")
	}

	if ok, probe := b.enter(10 * msec); !ok || !probe {
		t.Error("the probe was not hastened")
	}

	b.succeed()
	b.hasten(20*msec, minBackoff)

	if b.open() {
		t.Error("a sign of life opened a breaker")
	}
}
