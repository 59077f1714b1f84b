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
// whose instants a cell will not tell for as long again.
func (r *Rule) checkLoans(now int64, part int) {
	brief, most := r.table.brief.Load(), holder.MostQ(now)

	r.eachLoan(part, func(l *loan) {
		_, v := l.At()
		used := l.fold() || !l.Idle(now, idleAfter)

		if !used || brief || v == holder.Closed || r.retired.Load() || l.outdated() || l.limits.bucket.Q > most {
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
	r.lending[part].Lock()
	defer r.lending[part].Unlock()

	r.lent.of(part, func(n *name) { do(n.loan()) })
}

// crowd notes that several processors want l at once. A loan is one line of a
// cache, which they then fetch from each other for each request, once to find
// the key and once to take the token. Of a lease only the balance is; so the key of
// every so many such requests, which is a busy one, is leased until it is idle.
func (r *Rule) crowd(l *loan) {
	if r.crowds.Add(1)%mostCrowds == 0 {
		r.lease(l)
	}
}

// mostCrowds is few for a key that processors compete for, and more than all others have in a while.
const mostCrowds = 1_000

// lease gives back l, and has its key leased instead.
func (r *Rule) lease(l *loan) {
	key := l.key()
	s := r.lent.secret.seek(key)
	mu := &r.lending[s.hash>>partShift]

	mu.Lock()
	defer mu.Unlock()

	if r.lent.at(s, key) == &l.name && !r.retired.Load() {
		l.giveBack()
		r.entryOf(key) // while it is there, borrow lends nothing
	}
}
