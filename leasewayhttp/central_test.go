package leasewayhttp

import (
	"context"
	"sync"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/rule"
)

// central decides by one counter for each rule and key, as a single server without leases would.
type central struct {
	set *rule.Set

	mu  sync.Mutex
	tat map[string]rate.Time
}

func newCentral(set *rule.Set) *central { return &central{set: set, tat: map[string]rate.Time{}} }

func (c *central) Rules() *rule.Set { return c.set }

// spend is what a request would take from one counter.
type spend struct {
	rule   *rule.Rule
	ledger string
	bucket rate.Bucket
	quota  rule.Quota
	status rule.KeyStatus
}

func (c *central) Decide(_ context.Context, req leaseway.Request) leaseway.Decision {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now().UnixMicro()
	spends := c.spends(&req)
	if len(spends) == 0 {
		return leaseway.Decision{Allowed: true}
	}
	d := leaseway.Decision{Allowed: true}
	for i := range spends {
		// The most severe wins: a refusal, and of several the longest.
		if one := c.look(&spends[i], now); i == 0 || d.Allowed && !one.Allowed || !one.Allowed && one.RetryAfter > d.RetryAfter {
			d = one
		}
	}
	if !d.Allowed {
		return d
	}
	for _, s := range spends {
		c.tat[s.ledger], _ = s.bucket.Take(now, c.tat[s.ledger], 1)
		if s.rule.ID == d.Rule {
			d.Remaining = s.bucket.Avail(now, c.tat[s.ledger])
			d.Reset = time.Duration(s.bucket.Full(now, c.tat[s.ledger])) * time.Microsecond
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
		s := spend{rule: m.Rule, quota: m.Rule.Quota(key), ledger: m.Rule.ID + "\x00" + string(key), status: status}
		if !m.Rule.Block {
			s.bucket, _ = rate.NewBucket(s.quota.Limit, s.quota.Window.Microseconds(), s.quota.Burst)
		}
		spends = append(spends, s)
	}
	return spends
}

// look says what one counter makes of a request of cost 1, and takes nothing.
func (c *central) look(s *spend, now int64) leaseway.Decision {
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
	tat := c.tat[s.ledger]
	d.Remaining = s.bucket.Avail(now, tat)
	d.Reset = time.Duration(s.bucket.Full(now, tat)) * time.Microsecond
	if d.Allowed = d.Remaining > 0; !d.Allowed {
		d.Reason, d.RetryAfter = leaseway.ReasonOverLimit, time.Duration(s.bucket.Wait(now, tat, 1))*time.Microsecond
	}
	return d
}
