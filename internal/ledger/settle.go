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

// share is how much of avail holder l may lease. Alone it may have all. With
// others, each leaves a part for everybody and for one that comes new; once the
// bucket is scarce nobody has more than a fair part, and then what its turn
// brings. Of a fixed window nothing comes any more: the last quarter is cut into
// ever smaller parts. In all, at most four fifths of the burst are leased, so that
// takes always find something.
func (s *State) share(l *Lease, avail int64) int64 {
	if !s.Terms.Algorithm.Leases() {
		return 0
	}

	burst := s.Terms.Bucket.Burst
	most := min(avail, burst*4/5-s.others-l.left())

	switch others := int64(len(s.Leases) - 1); {
	case others == 0:
		return most
	case s.Terms.Algorithm == rate.SlidingWindow:
		return min(s.ofSliding(l, avail), most)
	case s.Terms.Algorithm == rate.FixedWindow && avail < burst/4:
		return min((avail+others)/(others+1), most)
	case avail >= burst/2:
		return min(avail/(others+2), most)
	case avail >= burst/4:
		return min(s.fair()-l.left(), most)
	default:
		return min(s.fair()-l.left(), s.ofTurn(l, avail), most)
	}
}

// ofSliding is share in a sliding window, which is nearly full whenever the
// limit is in use: what one holder has and does not spend, the others lack.
func (s *State) ofSliding(l *Lease, avail int64) int64 {
	part := 3 * avail / int64(2*len(s.Leases)+2)
	if part == 0 || s.waiting(l) > 1 {
		return max(part, s.ofTurn(l, avail))
	}

	return part
}

// fair is one holder's part of what may be leased in all.
func (s *State) fair() int64 {
	return max(1, s.Terms.Bucket.Burst*4/5/int64(len(s.Leases)))
}

// ofTurn is how much of avail holder l gets when others wait for their turns: a
// quarter more than its part of what collects meanwhile, so that who comes late
// has hardly more than who came early. Of many that wait, each leaves the more,
// since chance has them come in bunches.
func (s *State) ofTurn(l *Lease, avail int64) int64 {
	b := s.Terms.Bucket
	waiting := s.waiting(l)
	part := 1 + waiting/10

	return max(1, min((avail+part-1)/part, 5*s.collect()*b.Q/4/b.P/waiting))
}

// waiting counts the holders that wait for their turn, and l.
func (s *State) waiting(l *Lease) int64 {
	waiting := int64(1)

	for i := range s.Leases {
		if o := &s.Leases[i]; o != l && o.Due > s.Now {
			waiting++
		}
	}

	return waiting
}
