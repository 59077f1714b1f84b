package ledger

import "github.com/leaseway/leaseway/internal/rate"

// settle takes in what the holder spent and owes.
func (s *State) settle(l *Lease, ask Ask) {
	out := s.others + l.left()

	if ask.Spent > l.Spent && s.Terms.bucket() {
		// The tokens occupied the bucket until they were spent: lift to what
		// was outstanding then, which is never more than now's.
		began := s.after(s.lagging(ask), ask.unspent(l.Granted)+s.others)
		s.TAT = s.TAT.Max(began.Min(s.after(rate.At(s.Now), out)))
	} else {
		s.lift(s.Now, out)
	}

	s.spend(l, ask.Spent)
	s.lift(s.Now, s.others+l.left()) // before the debt, which would vanish in it otherwise
	s.owe(l, ask)
	s.lift(s.Now, s.others+l.left())

	if l.Version < s.Terms.Version {
		l.Version = s.Terms.Version
		s.cut(l)
	}
}

// cut takes back what a lease has under an older version of the rule, if more
// is used than the newer one allows. What was spent of it meanwhile is charged when it is told.
func (s *State) cut(l *Lease) {
	if over := s.used() > s.Terms.Bucket.Burst; over && l.left() > 0 {
		s.credit(l.left())
		l.Granted = l.Spent
	}
}

// lagging returns the instant that ask tells of. A fraction of other terms rounds up.
func (s *State) lagging(ask Ask) rate.Time {
	if ask.LagFrac < 0 || ask.LagFrac >= s.Terms.Bucket.Q {
		return rate.At(s.Now - ask.Lag + 1)
	}

	return rate.Time{Micros: s.Now - ask.Lag, Frac: ask.LagFrac}
}

// spend notes the holder's total. More than was granted, which a store that
// lost a grant can hear, is charged now.
func (s *State) spend(l *Lease, spent int64) {
	l.Spent = max(l.Spent, spent)

	if over := l.Spent - l.Granted; over > 0 {
		s.charge(over)
		l.Granted = l.Spent
	}
}

// owe charges debt, or credits a refund when the total went down. A credit
// counts only on a lease that the ask names, so that a late copy finds nothing to credit.
func (s *State) owe(l *Lease, ask Ask) {
	more := ask.Debt - l.Debt
	if more < 0 && l.ID != ask.Lease {
		return
	}

	if more > 0 {
		s.charge(more)
	} else {
		s.credit(-more)
	}

	l.Debt = ask.Debt

	// What this window was charged or credited with is no matter of the next one.
	for i := range s.Ahead.Leases {
		if next := &s.Ahead.Leases[i]; next.Holder == l.Holder {
			next.Debt = ask.Debt
		}
	}
}

// giveBack takes back what the holder struck from its balance.
func (s *State) giveBack(l *Lease, ask Ask) {
	if r := l.Granted - max(ask.RaiseTo, l.Spent); r > 0 {
		l.Granted -= r
		s.credit(r)
	}
}

// grant gives the takes and the needs, in order, each whole or not at all, and
// then leases up to the fair share of what is left. It returns the first cost
// that was refused, 0 if none was.
func (s *State) grant(l *Lease, ask Ask) (taken uint64, refused int64) {
	avail := s.Avail()
	left := avail

	for i, cost := range ask.Takes {
		if i >= MaxTakes || cost < 0 || cost > left {
			refused = first(refused, cost)

			continue
		}

		left -= cost
		taken |= 1 << i
	}

	for i, cost := range ask.Needs {
		// What an answer that was lost has granted already is not granted again.
		cost = min(cost, max(0, ask.RaiseTo-l.Granted))
		if i >= MaxTakes || cost < 0 || cost > left {
			refused = first(refused, cost)

			continue
		}

		left -= cost
		l.Granted += cost
	}

	leased := max(0, min(ask.RaiseTo-l.Granted, s.share(l, left)))
	l.Granted += leased
	s.consume(avail - left + leased)

	return taken, refused
}

// first returns refused if there is one, else cost.
func first(refused, cost int64) int64 {
	if refused > 0 {
		return refused
	}

	return max(1, cost)
}
