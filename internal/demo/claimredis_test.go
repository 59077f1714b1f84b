package demo

import "testing"

// A caller of another master has its burst and no more; one whose master died has the shares on top, and once what was lost.
func TestClaimsOfAFailover(t *testing.T) {
	for _, test := range []struct {
		name           string
		line           Line
		others, failed bool // whether the claim about them is held
	}{
		{"well, within its burst", Line{Burst: 10, Fullest: 10}, true, true},
		{"well, beyond it", Line{Burst: 10, Fullest: 11}, false, true},
		{"out, and nothing was lost", Line{Burst: 10, Fullest: 14, Share: 4}, true, true},
		{"out, and all that may be was lost", Line{Burst: 10, Fullest: 24, Share: 4}, true, true},
		{"out, and more", Line{Burst: 10, Fullest: 25, Share: 4}, true, false},
	} {
		p := PhaseResult{Phase: Failover, redis: true, lines: []Line{test.line}}
		if others, failed := p.claimOthers(), p.claimFailover(); others.Held != test.others || failed.Held != test.failed {
			t.Errorf("%s: %v and %v, want %v and %v", test.name, others, failed, test.others, test.failed)
		}
	}
}
