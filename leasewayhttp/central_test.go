package leasewayhttp

import (
	"context"
	"sync"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/rule"
)

// central decides by one counter for each rule and key, as a single server without leases would.
type central struct {
	set *rule.Set

	mu       sync.Mutex
	counters map[string]*counter
}

func newCentral(set *rule.Set) *central { return &central{set: set, counters: map[string]*counter{}} }

func (c *central) Rules() *rule.Set { return c.set }

// Refund is for those who leave while they are held, whom only tests of the real limiter have.
func (c *central) Refund(leaseway.Decision) { panic("nobody leaves this one") }

func (*central) Done(leaseway.Decision) {}

func (*central) TimeIn(d time.Duration) time.Time { return time.Now().Add(d) }

// spend is what a request would take from one counter.
type spend struct {
	rule    *rule.Rule
	quota   rule.Quota
	status  rule.KeyStatus
	counter *counter
}

func (c *central) Decide(_ context.Context, req leaseway.Request) leaseway.Decision {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now().UnixMicro()
	spends := c.spends(&req)
	d := leaseway.Decision{Allowed: true}
	for i := range spends {
		// The most severe wins: a refusal, and of several the longest.
		if one := spends[i].look(now); i == 0 || d.Allowed && !one.Allowed || !one.Allowed && one.RetryAfter > d.RetryAfter {
			d = one
		}
	}
	if !d.Allowed {
		return d
	}
	for _, s := range spends {
		d.Delay = max(d.Delay, time.Duration(s.counter.take(now))*time.Microsecond)
		if s.rule.ID == d.Rule {
			d.Remaining = s.counter.avail(now)
			d.Reset = time.Duration(s.counter.reset(now)) * time.Microsecond
		}
	}
	return d
}

func (c *central) spends(req *leaseway.Request) []spend {
	var spends []spend
	for _, m := range c.set.Match(req, nil) {
		key, status := m.Rule.AppendKey(nil, req)
		if status == rule.KeySkip {
			continue
		}
		name := m.Rule.ID + "\x00" + string(key)
		if c.counters[name] == nil {
			c.counters[name] = newCounter(m.Rule, m.Rule.Quota(key))
		}
		spends = append(spends, spend{rule: m.Rule, quota: m.Rule.Quota(key), status: status, counter: c.counters[name]})
	}
	return spends
}

// look says what one counter makes of a request of cost 1, and takes nothing.
func (s *spend) look(now int64) leaseway.Decision {
	d := leaseway.Decision{
		Origin: leaseway.OriginStore, Rule: s.rule.ID, Limit: s.quota.Burst, Quota: s.quota.Limit, Window: s.quota.Window,
	}
	switch {
	case s.status == rule.KeyDeny:
		d.Reason = leaseway.ReasonMissingKey
		return d
	case s.rule.Block:
		d.Reason, d.Limit = leaseway.ReasonBlocked, 0
		return d
	}
	d.Remaining = s.counter.avail(now)
	d.Reset = time.Duration(s.counter.reset(now)) * time.Microsecond
	if d.Allowed = d.Remaining > 0; !d.Allowed {
		d.Reason, d.RetryAfter = leaseway.ReasonOverLimit, time.Duration(s.counter.wait(now))*time.Microsecond
	}
	return d
}
