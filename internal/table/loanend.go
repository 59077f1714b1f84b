package table

import (
	"context"
	"time"

	"github.com/leaseway/leaseway/internal/holder"
)

// walkEvery is how long it takes to look at all loans once: 1 s, a part of the keys of each rule at a time.
const walkEvery = int64(1_000_000) // µs

// walk looks at the loans, part by part, until ctx ends.
func (t *Table) walk(ctx context.Context) {
	const step = time.Duration(walkEvery/keyParts) * time.Microsecond

	ticker := time.NewTicker(step)
	defer ticker.Stop()

	for part := 0; ; part = (part + 1) % keyParts {
		select {
		case <-ctx.Done():
			return
		case <-t.lent:
			ticker.Reset(step)
		case <-ticker.C:
			for _, r := range t.allRules() {
				r.checkLoans(t.clock.Now(), part)
			}

			if t.loans.Load() == 0 {
				ticker.Stop() // what is lent from now on says so
			}
		}
	}
}

// walkAll is walk in virtual time, all parts at once.
func (t *Table) walkAll(now int64) {
	at, ok := t.walks()
	if !ok || now < at {
		return
	}

	t.walked = now

	for _, r := range t.allRules() {
		for part := range keyParts {
			r.checkLoans(now, part)
		}
	}
}

// walks returns when walkAll has something to do next; ok is false while nothing is lent.
func (t *Table) walks() (at int64, ok bool) { return t.walked + walkEvery, t.loans.Load() > 0 }

// checkLoans gives back the loans of a part that nobody has used for as long as
// an idle key is remembered, whose limits are not in force any more, which may be under others by now, or
// whose instants a cell will not tell for as long again, or that have stripes and are not busy any more.
func (r *Rule) checkLoans(now int64, part int) {
	brief, most := r.table.brief.Load(), holder.MostQ(now)

	r.eachLoan(part, func(l *loan) {
		v := l.State()
		used := l.fold() || !l.Idle(now, idleAfter)

		calm := l.limits.bucket.Stripes != nil && !l.Busy()

		if !used || brief || calm || v == holder.Closed || r.retired.Load() || l.outdated() || l.limits.bucket.Q > most {
			l.giveBack()
		}
	})
}

// returnLoans gives all loans back.
func (r *Rule) returnLoans() {
	for part := range keyParts {
		r.eachLoan(part, (*loan).giveBack)
	}
}

// countLoans brings the rule's counts up to date, and returns how many loans it has.
func (r *Rule) countLoans() (loans int64) {
	for part := range keyParts {
		r.eachLoan(part, func(l *loan) {
			l.fold()

			loans++
		})
	}

	return loans
}

// eachLoan calls do with the loans of a part, under its lock.
func (r *Rule) eachLoan(part int, do func(l *loan)) {
	r.lending[part].mu.Lock()
	defer r.lending[part].mu.Unlock()

	r.lent.of(part, func(n *name) { do(n.loan()) })
}

// stripe has l, which several processors are busy with, lent anew with stripes. A loan is one line of a cache, which
// they fetch from each other for each request, to find the key and to take the token. It does nothing if too many are.
func (r *Rule) stripe(l *loan) {
	key := l.key()
	s := r.lent.secret.seek(key)
	p := &r.lending[s.hash>>partShift]

	p.mu.Lock()
	defer p.mu.Unlock()

	if r.lent.at(s, key) != &l.name || r.table.striped.Load() >= mostStriped {
		return
	}

	l.giveBack()

	if _, ok := r.standingNow(s, key); ok {
		r.lend(s, key, &holder.Stripes{})
	}
}

// mostStriped is how many loans of a table have stripes at once, about: more keys hardly keep processors waiting for each other.
const mostStriped = 64
