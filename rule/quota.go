package rule

import "time"

// Quota is what one key may spend under a rule.
type Quota struct {
	// Limit is in tokens a Window; 0 is a blocked rule.
	Limit int64
	// Window is from 1 ms to 366 days; nominal where the rule has a Calendar, whose windows Rule.Span gives.
	Window time.Duration
	// Burst is the capacity in tokens.
	Burst int64
	// LeaseTTL is how long a holder may spend a lease of this key.
	LeaseTTL time.Duration
	// Revision is 0 for the rule's own quota, else a stable hash of the override's content.
	Revision uint64
	// Overridden says that an override gave this quota.
	Overridden bool
}

// Override is another limit for one key of a rule. A zero field is the rule's own, but for Burst: with a Limit it is that Limit.
type Override struct {
	Limit    int64
	Window   time.Duration
	Burst    int64
	LeaseTTL time.Duration
}

// Quota is what key, as Compact gives it, may spend: the rule's own quota, or the override's. It does not allocate.
func (r *Rule) Quota(key []byte) Quota {
	if r.bringing {
		return r.broughtQuota(key)
	}
	if q, ok := r.quotas[string(key)]; ok {
		return q
	}
	return r.own
}

// HasQuotas reports whether some keys of the rule have quotas that are not its own.
func (r *Rule) HasQuotas() bool { return len(r.Overrides) > 0 || r.bringing }

// plainQuota is the quota of a key without an override.
func (r *Rule) plainQuota() Quota {
	return Quota{Limit: r.Limit, Window: r.Window, Burst: r.Burst, LeaseTTL: r.LeaseTTL}
}

// resolve gives the quota of an override of r.
func (r *Rule) resolve(o Override) Quota {
	q := r.own
	if o.Limit != 0 {
		q.Limit, q.Burst = o.Limit, o.Limit
	}
	if o.Window != 0 {
		q.Window = o.Window
	}
	if o.Burst != 0 {
		q.Burst = o.Burst
	}
	if o.LeaseTTL != 0 {
		q.LeaseTTL = o.LeaseTTL
	}
	q.Revision = revision(q)
	q.Overridden = true
	return q
}

// revision hashes a quota by FNV-1a, whose value is the same in every process and release.
func revision(q Quota) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for _, v := range [...]int64{q.Limit, int64(q.Window), q.Burst, int64(q.LeaseTTL)} {
		for shift := 0; shift < 64; shift += 8 {
			h ^= uint64(v) >> shift & 0xff
			h *= prime
		}
	}
	// 0 is kept for "no override".
	return max(h, 1)
}
