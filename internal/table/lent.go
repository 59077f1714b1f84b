package table

import "github.com/leaseway/leaseway/rule"

// TakeLent is Quick for a request that other rules must agree to, too, by a bucket that is here, whole. Untake undoes it.
func (r *Rule) TakeLent(key string, n int64, out *Outcome) bool {
	if r.table.lender == nil || !rule.IsCompact(key) {
		return false
	}

	l := r.lent.find(key).loan()

	return l != nil && out.told(r.quickLoan(l, n))
}

// Untake gives back what TakeLent took for a request of n tokens, and has the request
// count no more. (It is not told the key, which would have to outlive the request.)
func (r *Rule) Untake(n int64, out *Outcome) {
	if out.Kind != Allowed {
		r.own.Load().count(out, -1)

		return
	}

	l := out.Charge.of.loan()
	if out.Origin == FromLease && l.credit(n, false) {
		return
	}

	l.limits.count(out, -1)
	r.table.Refund(out.Charge)
}
