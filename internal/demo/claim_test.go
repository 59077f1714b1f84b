package demo

import (
	"strings"
	"testing"
)

// staged is a run of one caller, with 50/s and a burst of 50, of which everything is known beforehand: 10 s before the outage,
// 5 s without a coordinator, 1 s to find it, 10 s after. Only polls and events are made up; the judge is the real one.
func staged(t *testing.T, change func(s *stage)) *Result {
	t.Helper()

	s := &stage{show: show{
		marks:   marks{start: 0, kill: 10 * second, killed: 10*second + 1, up: 15 * second, recovered: 16 * second, end: 26 * second},
		traffic: &traffic{callers: []caller{{key: "ada", limit: 50, bucket: bucket(t, 50, 50)}}},
		sender:  &sender{}, polls: map[Phase]*[2]poll{},
	}}

	for i, p := range []Phase{Before, Outage, Recovery, After} {
		s.polls[p] = &[2]poll{s.poll(int64(i)), s.poll(int64(i) + 1)}
	}

	s.polls[Outage][0].to = s.marks.killed

	// A central bucket's answers to 100 requests/s, or with four fifths of the rate in the outage. After it
	// the bucket is empty.
	s.send(0, 10*second, 50*second)
	s.send(10*second+2, 15*second, 40*second)
	s.send(15*second, 16*second, 50*second)
	s.send(16*second, 26*second, 50*second)
	change(s)

	return newResult(&s.show)
}

type stage struct{ show }

// poll is one of servers that each made 4 calls, one about ada, for each n.
func (s *stage) poll(n int64) (p poll) {
	p.to = 1
	for i := range p.stats {
		p.stats[i] = apiStats{Calls: 4 * n, Asks: 4 * n, Keys: []keyStats{{Asks: n}}}
	}

	return p
}

// send sends 100 requests/s, of which perSecond/s (in millionths) are admitted.
func (s *stage) send(from, to, perSecond int64) {
	var tokens int64

	for at := from; at < to; at += 10 * msec {
		status := int16(429)

		if tokens += perSecond / 100; tokens >= second {
			tokens -= second
			status = 200
		}

		s.sender.events = append(s.sender.events, event{before: at, nanos: 2000, status: status, server: uint8(at / (10 * msec) % servers)})
	}
}

func (s *stage) admit(at int64, n int) {
	for range n {
		s.sender.events = append(s.sender.events, event{before: at, nanos: 2000, status: 200})
	}
}

// missedBy returns the claims that were missed.
func missedBy(r *Result) (missed []string) {
	for _, c := range r.Claims {
		if !c.Held {
			missed = append(missed, string(c.Phase)+": "+c.Claim)
		}
	}

	return missed
}

func TestClaims(t *testing.T) {
	// The central bucket is full at the start; without its first 50 the caller would be below its limit.
	full := func(s *stage) { s.admit(0, 49) }

	for name, test := range map[string]struct {
		change func(s *stage)
		missed []string
	}{
		"all as promised": {func(*stage) {}, nil},
		"above the limit in the calm": {func(s *stage) { s.admit(5*second, 20) },
			[]string{"before: no caller is ever admitted more"}},
		"above the limit by what shares admitted": {func(s *stage) {
			s.admit(5*second, 20)
			s.polls[Before][1].stats[0].Local = 20
		}, nil},
		"above the limit by more than shares admitted": {func(s *stage) {
			s.admit(5*second, 20)
			s.polls[Before][1].stats[0].Local = 18
		}, []string{"before: no caller is ever admitted more"}},
		"above the limit after the outage": {func(s *stage) { s.admit(20*second, 51) },
			[]string{"after: no caller is ever admitted more"}},
		"a server error in the calm": {func(s *stage) { s.sender.events[7].status = 503 },
			[]string{"before: every request is answered"}},
		"no answer in the outage": {func(s *stage) { s.sender.events[1200].status = 0 },
			[]string{"outage: every request is answered"}},
		"more than the share": {func(s *stage) { s.admit(14*second, 45) },
			[]string{"outage: no caller gets more than what was leased"}},
		"the share and what was leased": {func(s *stage) {
			s.admit(14*second, 45)
			s.polls[Outage][0].stats[1].Keys[0].Balance = 10
		}, nil},
		"too many messages": {func(s *stage) {
			s.polls[Before][1].stats[2].Keys[0].Asks = 30
		}, []string{"before: a hot caller"}},
		"too little after the outage": {func(s *stage) {
			admitted := 0

			for i := range s.sender.events {
				// Every tenth admission of the last phase is taken away.
				if e := &s.sender.events[i]; e.before >= 16*second && e.status == 200 {
					admitted++

					if admitted%10 == 0 {
						e.status = 429
					}
				}
			}
		}, []string{"after: every caller above its limit"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := staged(t, func(s *stage) {
				full(s)
				test.change(s)
			})

			missed := missedBy(r)
			if len(missed) != len(test.missed) || r.Held != (len(missed) == 0) {
				t.Fatalf("held %v, missed %q, want %q", r.Held, missed, test.missed)
			}

			for i := range missed {
				if !strings.HasPrefix(missed[i], test.missed[i]) {
					t.Errorf("missed %q, want %q", missed[i], test.missed[i])
				}
			}
		})
	}
}

func TestAMissedClaimIsPlainToSee(t *testing.T) {
	var text strings.Builder

	staged(t, func(s *stage) { s.admit(5*second, 70) }).Write(&text, UsualWidth)

	for _, want := range []string{
		"MISSED  No caller is ever admitted", "missed by ada:", "and its burst is 50",
		"NOT every promise was kept: 1 of 11",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the results do not say %q:\n%s", want, text.String())
		}
	}
}

// In the first moments asks are many and admissions few: that says nothing.
func TestWhatWasStoppedTooEarlyIsShownAndNotJudged(t *testing.T) {
	stopped := func(end int64) *Result {
		return staged(t, func(s *stage) {
			s.stopped, s.marks.kill, s.marks.up, s.marks.recovered, s.marks.end = true, 0, 0, 0, end
			s.polls[Before][1].stats[2].Keys[0].Asks = 1000
		})
	}

	var text strings.Builder

	r := stopped(second)
	r.Write(&text, UsualWidth)

	if len(r.Phases) != 1 || r.Phases[0].Judged || len(r.Claims) != 0 || !r.Held ||
		!strings.Contains(text.String(), "Stopped too early to judge: 1.0 s") || strings.Contains(text.String(), "romise was kept") {
		t.Errorf("%d claims, held %v:\n%s", len(r.Claims), r.Held, text.String())
	}

	for end, judged := range map[int64]bool{3 * second: false, 5 * second: false, 11 * second: true} {
		if r := stopped(end); r.Phases[0].Judged != judged || r.Held == judged {
			t.Errorf("after %d s: judged %v, held %v", end/second, r.Phases[0].Judged, r.Held)
		}
	}

	// It can be over before its first request was due.
	if r := stopped(-second); r.Seconds < 0 || r.Phases[0].Seconds != 0 || r.Phases[0].Judged {
		t.Errorf("%v s in all, the phase %v s, judged %v", r.Seconds, r.Phases[0].Seconds, r.Phases[0].Judged)
	}
}

func TestALongPhaseIsJudgedByAdmissionsAlone(t *testing.T) {
	p := PhaseResult{Phase: Before, lines: []Line{
		{Caller: "ada", Demand: 9000, Admitted: 970, Ideal: 1000, Waiting: 12, bucket: bucket(t, 50, 50)},
	}}

	for seconds, held := range map[float64]bool{strictFrom - 1: true, strictFrom: false} {
		p.Seconds = seconds
		if c := p.claimIdeal(); c.Held != held || held != strings.Contains(c.Found, "970 admitted and 12 waiting, and at least 980 were due") {
			t.Errorf("%v s: %+v", seconds, c)
		}
	}
}

func TestWhichLimitsAreLeased(t *testing.T) {
	for line, want := range map[*Line]bool{
		{Limit: 50, Burst: 50}: true, {Limit: 5, Burst: 10}: false, {Limit: 5, Burst: 50}: false, {Limit: 50, Burst: 10}: false,
		{Limit: 5, Burst: 100}: true, {Limit: 14, Burst: 12}: true, {Limit: 13, Burst: 12}: false,
	} {
		if line.leased() != want {
			t.Errorf("%v/s with a burst of %d: want %v", line.Limit, line.Burst, want)
		}
	}
}

func TestWhatWasStoppedIsJudgedAsFarAsItCame(t *testing.T) {
	r := staged(t, func(s *stage) {
		s.admit(0, 49)

		s.stopped, s.marks.up, s.marks.recovered, s.marks.end = true, 0, 0, 15*second
		delete(s.polls, Recovery)
		delete(s.polls, After)
	})

	if len(r.Phases) != 2 || !r.Held || !r.Stopped {
		t.Errorf("%d phases, held %v, stopped %v: %q", len(r.Phases), r.Held, r.Stopped, missedBy(r))
	}
}
