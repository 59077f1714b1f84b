package demo

import (
	"reflect"
	"testing"
)

const second = 1_000_000 // µs

// timeline makes a caller's arrivals, in order of time.
type timeline struct{ all []arrival }

// ask adds n requests at once, of which admitted were.
func (l *timeline) ask(micros int64, n, admitted int) *timeline {
	for i := range n {
		l.all = append(l.all, arrival{stay: stay{micros, micros + 5}, admitted: i < admitted})
	}

	return l
}

func TestTheIdealIsOneBucket(t *testing.T) {
	// 100/s, burst 10.
	a := (&timeline{}).ask(0, 15, 0).ask(50*msec, 15, 0).ask(2*second, 15, 0).all

	i := ideal{bucket: bucket(t, 100, 10)}
	if got := i.admit(a); got != 10+5+10 {
		t.Errorf("%d admitted: a full bucket gives 10, then 5 of 50 ms, then 10 again", got)
	}
}

func TestTheIdealIsChargedWhatWasReal(t *testing.T) {
	i := ideal{bucket: bucket(t, 100, 10)}
	i.charge((&timeline{}).ask(0, 20, 14).all)

	if got := i.left(0); got != 0 {
		t.Errorf("%d left of 10 after 14", got)
	}

	if got := i.left(60 * msec); got != 2 {
		t.Errorf("%d left 60 ms later, want 2: 4 were owed", got)
	}
}

func TestCompare(t *testing.T) {
	b := bucket(t, 100, 10)
	spans := []span{{Before, 0, second}, {Outage, second, 2 * second}, {Recovery, 2 * second, 3 * second}, {After, 3 * second, 4 * second}}

	for name, test := range map[string]struct {
		a    []arrival
		want []verdict
	}{
		"all that it should": {
			(&timeline{}).ask(0, 20, 10).ask(second, 20, 10).ask(2*second, 20, 10).ask(3*second, 20, 10).all,
			[]verdict{{10, 10}, {10, 10}, {0, 10}, {10, 10}},
		},
		"an outage begins with what the real admissions left": {
			(&timeline{}).ask(950*msec, 20, 8).ask(second, 20, 3).all,
			[]verdict{{10, 7}, {7, 10}, {0, 10}, {0, 10}},
		},
		"what was not given in the recovery may be asked for after it": {
			(&timeline{}).ask(2990*msec, 20, 0).ask(3*second, 20, 10).all,
			[]verdict{{0, 10}, {0, 10}, {10, 10}, {10, 10}},
		},
		// 20 ms after the counts were lost the bucket has 2 of 10, though nothing was admitted before.
		"lost counts are an empty bucket": {
			(&timeline{}).ask(2020*msec, 20, 2).ask(3*second, 20, 10).all,
			[]verdict{{0, 10}, {0, 10}, {2, 10}, {10, 10}},
		},
		// 30 were admitted in the recovery, 20 too many: for 200 ms nothing may be asked for.
		"what was given too much in the recovery is not asked for after it": {
			(&timeline{}).ask(2990*msec, 40, 30).ask(3*second, 1, 0).ask(3250*msec, 20, 6).all,
			[]verdict{{0, 10}, {0, 10}, {10, 0}, {6, 10}},
		},
	} {
		if got := compare(b, test.a, spans, false); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s:\n got %v\nwant %v (ideal, waiting)", name, got, test.want)
		}
	}
}

// With Redis a bucket counts as empty when the next phase begins, for those alone whose servers decided by themselves.
func TestCompareWithRedis(t *testing.T) {
	b := bucket(t, 100, 10)
	spans := []span{{Before, 0, second}, {Failover, second, 2 * second}, {Switch, 2 * second, 3 * second}, {After, 3 * second, 4 * second}}
	a := (&timeline{}).ask(2020*msec, 20, 2).ask(3*second, 20, 10).all

	for out, want := range map[bool]verdict{true: {2, 10}, false: {10, 10}} {
		if got := compare(b, a, spans, out)[2]; got != want {
			t.Errorf("outage %v: %v, want %v (ideal, waiting)", out, got, want)
		}
	}
}

func TestWhatIsDueInAShortPhase(t *testing.T) {
	b := bucket(t, 100, 40)

	for _, test := range []struct {
		admitted int64
		verdict  verdict
		want     bool
	}{
		{1000, verdict{1000, 0}, true},
		{980, verdict{1000, 0}, true},
		{979, verdict{1000, 0}, false},
		{979, verdict{1000, 1}, true},   // one token waits in the bucket
		{970, verdict{1000, 10}, true},  // a quarter of the burst may
		{969, verdict{1000, 40}, false}, // and no more
		{0, verdict{20, 20}, false},
		{9, verdict{10, 0}, true}, // whole requests: 98 % of 10 are 9
		{8, verdict{10, 0}, false},
		{0, verdict{0, 0}, true},
	} {
		if got := test.admitted+creditable(b, test.verdict.waiting) >= dueOf(test.verdict.ideal); got != test.want {
			t.Errorf("%d admitted, %+v: %v", test.admitted, test.verdict, got)
		}
	}
}

func TestFallbackShare(t *testing.T) {
	// 50/s, burst 50, three servers: each gets 13.3/s with a burst of 13.
	b := bucket(t, 50, 50)

	for _, test := range []struct {
		balances []int64
		micros   int64
		want     int64
	}{
		{[]int64{0, 0, 0}, 0, 39},
		{[]int64{5, 0, 7}, 0, 51},
		{[]int64{0, 0, 0}, 3 * second, 39 + 3*40},
		{[]int64{1, 1, 1}, 6 * second, 3 + 39 + 3*80},
	} {
		if got := fallbackShare(b, test.balances, test.micros); got != test.want {
			t.Errorf("in hand %v, %d µs: %d, want %d", test.balances, test.micros, got, test.want)
		}
	}

	// Every bucket has room for one.
	if got := fallbackShare(bucket(t, 1, 1), []int64{0, 0, 0}, 0); got != 3 {
		t.Errorf("of a burst of 1 three servers may admit %d, want 3", got)
	}
}

func TestSpansOfADemoThatWasStopped(t *testing.T) {
	whole := marks{start: 0, kill: 4, killed: 5, up: 6, recovered: 8, end: 10}
	if got, want := whole.spans(false), []span{{Before, 0, 4}, {Outage, 4, 6}, {Recovery, 6, 8}, {After, 8, 10}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}

	stopped := marks{start: 0, kill: 4, end: 5}
	if got, want := stopped.spans(false), []span{{Before, 0, 4}, {Outage, 4, 5}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestSpansWithRedis(t *testing.T) {
	m := marks{kill: 4, healed: 5, up: 6, recovered: 8, end: 10}
	if got, want := m.spans(true), []span{{Before, 0, 4}, {Failover, 4, 6}, {Switch, 6, 8}, {After, 8, 10}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}

	if m.out() != 1 || (marks{kill: 4, end: 9}).out() != 5 {
		t.Errorf("a master was missing for %d and %d, want 1 and 5", m.out(), (marks{kill: 4, end: 9}).out())
	}
}
