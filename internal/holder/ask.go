package holder

import "github.com/leaseway/leaseway/internal/ledger"

// See margin; µs, and a part of the window.
const (
	edgeMargin  = 5_000
	edgePart    = 10
	exactMargin = 500 // for those who read the real clock
)

// Need says why a lease asks.
type Need struct {
	Seq     uint64  // the process's next
	Holder  uint64  // its incarnation
	Takes   []int64 // costs of requests that wait for this key alone
	Needs   []int64 // costs of requests that wait for other rules, too
	Holders int64   // live holders of the fleet
	TTL     int64   // of a lease of this rule, µs
	Brief   bool    // lease nothing for long: its terms may be others soon
	Return  bool    // give everything back: the process stops, or the rule went away
}

// Ask builds the message to the ledger, and remembers it as the one on its way.
func (l *Lease) Ask(now int64, ticks Ticks, need Need) ledger.Ask {
	l.gather()

	if l.over != 0 && now >= l.over {
		l.closeTick(ticks)
	}

	l.stop(now)

	l.begin(now)

	if e := l.owed().ended; e != nil && now >= e.until {
		l.dues.ended = nil
	}

	if need.Return {
		l.endLocal(now)
	}

	l.closeTick(ticks)
	l.tick.Store(0) // the next spend opens a tick of its own

	spent := l.Spent()
	balance, long := l.want(now, spent, need)
	bucket := &l.heard.terms().Bucket

	if b := l.balance.Load(); balance < b && !l.strike(b-balance) {
		balance = b
	}

	named := l.named()
	if named != l.id {
		l.forgetRefunds() // the window may turn on the way
	}

	l.oweLocal(now)

	if l.long {
		l.shorten(now)
	}

	sized := spent
	spent = max(spent, l.Spent())
	l.demand.later(spent - sized)

	d := l.owed()
	ask := ledger.Ask{
		Holder: need.Holder, Seq: need.Seq, Lease: named,
		Spent: spent, Debt: d.debt, DebtAcked: d.acked, Takes: need.Takes, Needs: need.Needs,
		// At least what is held: reservations come and go while this is added up.
		RaiseTo: max(l.held(), spent+balance+l.reserved.Load()),
		Keep:    d.debt < d.acked, Long: long,
	}

	switch l.returns = need.Return; {
	case d.next == nil:
	case l.id == 0 && need.Return:
		d.next = nil // all of it is given back, whether its window begins on the way or not
	case l.id == 0 && ask.Lease != 0:
		ask.RaiseTo = max(ask.RaiseTo, d.next.granted) // its window may begin on the way: nothing of it is given back
	}

	if d.ended != nil {
		ask.Ended, ask.EndedSpent = d.ended.id, d.ended.spent
	}

	l.send(sent{seq: need.Seq, at: now, sized: now, lease: ask.Lease, ended: ask.Ended})
	l.report(bucket, spent)

	s := l.sent()
	if p := s.before; p.ok() {
		end := p.time(*bucket, spent-s.base)
		ask.Lag, ask.LagFrac = now-end.Micros, end.Frac
	}

	l.dues.credit = l.dues.credit || l.id != 0 && d.debt < d.acked

	return ask
}

// send has s be the ask on its way. What those before it reported, and no answer has confirmed, it reports as well.
func (l *Lease) send(s sent) {
	s.base = l.base()

	if d := l.owe(); d.sent == nil {
		d.sent = &s
	} else {
		s.before = d.sent.before
		*d.sent = s
	}
}

// named returns the lease that an ask names. Between the end of one window, as
// the fastest clock has it, and the start of the next, as the slowest has it, that
// is the one leased ahead, if there is one.
func (l *Lease) named() uint64 {
	if next := l.owed().next; l.id == 0 && next != nil && next.granted > 0 {
		return next.id
	}

	return l.id
}

// giveBack has n tokens, which have left the balance, be given back.
func (l *Lease) giveBack(n int64) {
	if n != 0 {
		l.owe().struck += n
		l.mark.shift(-n)
	}
}

// strike takes n tokens off the balance to give them back.
func (l *Lease) strike(n int64) bool {
	for {
		b := l.balance.Load()
		if b < n {
			return false
		}

		if l.balance.CompareAndSwap(b, b-n) {
			l.giveBack(n)

			return true
		}
	}
}

// strikeUpTo is strike for as many of n tokens as there are, and returns how many that were.
func (l *Lease) strikeUpTo(n int64) int64 {
	for {
		b := l.balance.Load()
		struck := min(n, b)

		if l.balance.CompareAndSwap(b, b-struck) {
			l.giveBack(struck)

			return struck
		}
	}
}

// Hear takes in the answer to the ask on its way. It reports false for one that
// is not awaited, or that came when nothing can be done with it any more.
func (l *Lease) Hear(now int64, a *ledger.Answer) bool {
	if !l.awaits() || a.Seq != l.sent().seq || a.Ahead != l.sent().ahead || a.Status != ledger.OK || a.Terms.Bucket.Burst == 0 {
		return false
	}

	l.gather()

	sent := *l.dues.sent
	l.dues.sent.seq = 0

	if sent.ahead {
		l.hearAhead(now, a)

		return true
	}

	l.dues.sent = nil

	if e := l.owed().ended; e != nil && sent.ended == e.id {
		l.dues.ended = nil
	}

	l.tick.Store(0) // the next spend looks at the lease's end, which may be past, and opens a mark of its own

	if sent.late && a.Lease != 0 && a.Lease == sent.lease {
		l.hearLate(now, sent.at, a)

		return true
	}

	if sent.early && now+a.Window.Left < l.over {
		l.hearEarly(now, sent.at, a)

		return true
	}

	if a.Lease != l.id {
		l.end()
		l.id = a.Lease

		if next := l.owed().next; next != nil && a.Lease == next.id {
			l.dues.next = nil // its window has begun
		}
	}

	// What was struck is gone from G now; what is more is new. What is less was taken back under a lower limit: some of it
	// may have been spent on the way, which the next ask tells.
	more := a.Granted - l.held()
	if more > 0 {
		l.balance.Add(more)
	} else if more < 0 {
		more += l.strikeUpTo(-more)
	}

	held := l.held()
	l.granted = a.Granted + max(0, -more)

	if l.dues != nil {
		l.dues.struck = 0
	}

	l.mark.shift(l.held() - held)

	l.over, l.edge, l.long = 0, 0, a.TTL > a.Terms.TTL

	if l.id != 0 {
		l.over, l.edge = sent.at+min(a.TTL, mostTTL), margin(&a.Terms)
	}

	turned := a.Terms.Algorithm.Windowed() && now+a.Window.Left-l.heard.counted().end > max(1, a.Terms.Length)/2
	l.takeIn(now, sent.at, a)
	l.mark.others = a.Others
	l.settleDebt(now, a)

	if turned {
		l.forgetRefunds()
	}

	l.scarce(a, sent.at)

	l.settle()

	return true
}

// hearLate takes in an answer that goes on with a lease which has ended here
// meanwhile: its takes are given, but what was spent of it can't be told any more.
func (l *Lease) hearLate(now, sentAt int64, a *ledger.Answer) {
	l.takeIn(now, sentAt, a)
	l.mark.others = a.Others + a.Granted - a.Spent
	l.settleDebt(now, a)
	l.settle()
}

// hearEarly takes in an answer about the window before that of the lease which the ask named, and which has
// begun here meanwhile: the ledger was asked before it had begun there, and has kept it. What the answer leased is over.
func (l *Lease) hearEarly(now, sentAt int64, a *ledger.Answer) {
	l.heard.at = max(1, sentAt)
	l.settleDebt(now, a)
	l.settle()
}

// margin is how long before the end of a window its lease is not spent any
// more, since requests see a coarse clock: other leases have the ledger's Guard
// for that. It does not shrink with what is left of the window.
func margin(t *ledger.Terms) uint16 {
	if !t.Algorithm.Windowed() {
		return 0
	}

	if t.Length > 0 {
		return uint16(min(edgeMargin, t.Length/edgePart))
	}

	return edgeMargin
}

// settleDebt notes what the ledger has charged.
func (l *Lease) settleDebt(now int64, a *ledger.Answer) {
	l.endLocal(now)
	l.dues.credit, l.dues.acked = false, a.Debt
}

// Lost gives up waiting for the answer to the ask on its way. The next ask names
// the lease as it was known before. Until again, 0 for now, it would be lost as well.
func (l *Lease) Lost(again int64) {
	if s := l.sent(); s != nil {
		s.seq, s.again = 0, max(s.again, again)
	}
}

// Again returns from when on another ask may be answered after one that was lost, 0 for now.
func (l *Lease) Again() int64 {
	if s := l.sent(); s != nil {
		return s.again
	}

	return 0
}

// Missed reports whether the last ask was lost, and nothing that was heard since makes up for it.
func (l *Lease) Missed() bool { return l.sent() != nil && !l.awaits() }

// Asked returns when the ask on its way was sent, and whether there is one.
func (l *Lease) Asked() (at int64, ok bool) {
	if !l.awaits() {
		return 0, false
	}

	return l.sent().at, true
}
