package holder_test

import (
	"fmt"
	"slices"

	"github.com/leaseway/leaseway/internal/holder"
	"github.com/leaseway/leaseway/internal/ledger"
)

// event is one thing that happens.
type event struct {
	op   op
	i, n int64
}

type op uint8

const (
	passes op = iota
	spends
	takes
	needs
	trips
	returns
	looksAhead
	delivered
	hears
	repays
	borrows
	restarts
	swept
	forgotten
)

func (e event) String() string {
	switch e.op {
	case passes:
		return fmt.Sprintf("%d ticks pass", e.n)
	case delivered, hears:
		return fmt.Sprintf("message %d is %s", e.i, [...]string{delivered: "delivered", hears: "heard"}[e.op])
	case swept, forgotten:
		return [...]string{swept: "the store sweeps", forgotten: "the store forgets the ledger"}[e.op]
	case spends, takes, needs, trips, returns, looksAhead, repays, borrows, restarts:
	}

	return fmt.Sprintf("%c %s %d", 'A'+rune(e.i), [...]string{
		spends: "spends", takes: "asks to take", needs: "asks to have in hand", trips: "asks and hears at once, to have in hand",
		returns: "gives back what it has, to keep", looksAhead: "asks of the next window for", repays: "refunds", borrows: "borrows", restarts: "restarts",
	}[e.op], e.n)
}

// choices appends what can happen next to list.
func (x *explorer) choices(w *world, list []event) []event {
	for _, n := range x.steps {
		list = append(list, event{passes, 0, n})
	}

	for i := range w.asks {
		list = append(list, event{delivered, int64(i), 0})
	}

	for i := range w.answers {
		list = append(list, event{hears, int64(i), 0})
	}

	for i := range x.holders {
		s := &w.sides[i]
		if s.lease.Balance() > 0 || s.lease.Holds() || s.lease.Begins() > 0 {
			list = append(list, event{spends, i, 1})
		}

		if s.lease.Holds() || s.lease.Owes() {
			list = append(list, event{returns, i, 0})

			if x.holders > 1 {
				list = append(list, event{restarts, i, 0})
			}
		}

		if _, ok := s.lease.WantsAhead(0); ok {
			list = append(list, event{looksAhead, i, x.burst})
		}

		if s.paid != nil {
			list = append(list, event{repays, i, 1})
		}

		if x.slack > 0 && !s.lease.Known() {
			list = append(list, event{borrows, i, 1})
		}

		list = append(list, event{takes, i, 1})

		for _, n := range x.needs {
			list = append(list, event{needs, i, n}, event{trips, i, n})
		}
	}

	switch {
	case w.ledger.Idle(w.now):
		list = append(list, event{forgotten, 0, 0})
	case slices.ContainsFunc(w.ledger.Leases, func(l ledger.Lease) bool { return l.Exp <= w.now }):
		list = append(list, event{swept, 0, 0})
	}

	return list
}

// after returns the world after e, and what it did against the bound, if anything.
func (x *explorer) after(w world, e event) (world, error) {
	var err error

	switch i := int(e.i); e.op {
	case passes:
		w.now += e.n * tick
	case spends:
		err = x.spend(&w, i, e.n)
	case takes:
		x.ask(&w, i, holder.Need{Takes: []int64{e.n}})
	case needs:
		x.ask(&w, i, holder.Need{Needs: []int64{e.n}})
	case returns:
		x.ask(&w, i, holder.Need{Return: true})
	case trips:
		x.ask(&w, i, holder.Need{Needs: []int64{e.n}})

		answers := len(w.answers)
		err = x.deliver(&w, len(w.asks)-1)

		if len(w.answers) > answers {
			x.hear(&w, len(w.answers)-1)
		}
	case looksAhead:
		l := w.sides[i].own()
		x.send(&w, i, l.AskAhead(w.now, x.need(&w, i, holder.Need{})))
	case delivered:
		err = x.deliver(&w, i)
	case hears:
		x.hear(&w, i)
	case repays:
		x.refund(&w, i)
	case borrows:
		if w.sides[i].own().Borrow(e.n, x.slack) {
			w.tab(w.sides[i].incarnation).pending -= e.n
		}
	case restarts:
		x.start(&w, i)
	case swept:
		w.ledger = cloneLedger(w.ledger)
		w.ledger.Expire(w.now)
	case forgotten:
		w.ledger = &ledger.State{}
	}

	return w, err
}
