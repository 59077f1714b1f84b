package demo

import (
	"math"
	"slices"
	"testing"
	"time"
)

func TestTheSameSeedIsTheSameTraffic(t *testing.T) {
	list := func(seed uint64) (at []time.Duration) {
		tr, err := synthetic(MinDuration, seed)
		if err != nil {
			t.Fatal(err)
		}

		for s, more := tr.next(); more; s, more = tr.next() {
			at = append(at, s.at, time.Duration(s.caller), time.Duration(s.server))
		}

		return at
	}

	one := list(1)
	if !slices.Equal(one, list(1)) {
		t.Error("seed 1 gives one traffic now and another one then")
	}

	if slices.Equal(one, list(2)) {
		t.Error("seeds 1 and 2 give the same traffic")
	}
}

func TestTheTrafficIsWhatItSays(t *testing.T) {
	const whole = 60 * time.Second

	tr, err := synthetic(whole, 7)
	if err != nil {
		t.Fatal(err)
	}

	var (
		wanted    = map[string]int{}
		perServer [servers]int
		idle      int
		last      time.Duration
	)

	for s, more := tr.next(); more; s, more = tr.next() {
		if s.at < last || s.at >= whole {
			t.Fatalf("a request at %v, after one at %v", s.at, last)
		}

		last = s.at
		key := tr.callers[s.caller].key
		wanted[key]++
		perServer[s.server]++

		if key != s.target.header.Get("X-Api-Key") {
			t.Fatalf("%s calls as %s", key, s.target.header.Get("X-Api-Key"))
		}

		if key == "acme" && !inBurst(whole, s.at) {
			idle++
		}
	}

	near := func(what string, got, want float64) {
		if math.Abs(got-want) > 0.1*want {
			t.Errorf("%s: %.0f, want about %.0f", what, got, want)
		}
	}

	seconds := whole.Seconds()
	near("acme", float64(wanted["acme"]), seconds*(payrollIdle/4+payrollBurst*3/4))
	near("acme when idle", float64(idle), seconds/4*payrollIdle)
	near("wild-script", float64(wanted["wild-script"]), seconds*wildDemand)
	near("crawler-2", float64(wanted["crawler-2"]), seconds*crawlDemand)
	near("tenant-01", float64(wanted["tenant-01"]), seconds*largest)

	for i, n := range perServer {
		near(apiName(i), float64(n), float64(perServer[0]+perServer[1]+perServer[2])/3)
	}

	for _, c := range tr.callers {
		want := 50.0
		if c.key == "acme" {
			want = 200
		}

		if c.limit != want || c.bucket.Burst != int64(want) {
			t.Errorf("%s: %v/s, burst %d", c.key, c.limit, c.bucket.Burst)
		}
	}
}

func TestInBurst(t *testing.T) {
	const whole = 100 * time.Second // phases from 0, 40 and 60 s

	for _, test := range []struct {
		at   time.Duration
		want bool
	}{
		{0, false}, {9 * time.Second, false}, {10 * time.Second, true}, {39 * time.Second, true},
		{40 * time.Second, false}, {44 * time.Second, false}, {45 * time.Second, true}, {59 * time.Second, true},
		{60 * time.Second, false}, {69 * time.Second, false}, {70 * time.Second, true}, {99 * time.Second, true},
	} {
		if got := inBurst(whole, test.at); got != test.want {
			t.Errorf("at %v: %v", test.at, got)
		}
	}
}
