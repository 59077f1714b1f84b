package table

import (
	"context"

	"github.com/leaseway/leaseway/rule"
)

// Peek says what a request for one token would get, and charges nothing.
func (r *Rule) Peek(ctx context.Context, key string, out *Outcome) {
	t := r.table
	until := t.until(out)

	if r.retired.Load() {
		*out = Outcome{}

		return
	}

	if r.peekLoan(key, out) {
		return
	}

	e := r.entry(key)

	for {
		w, next := e.look(out)

		switch next {
		case retry:
			e = r.entry(key)

			continue
		case wait:
			t.enqueue(e, true)

			switch t.await(ctx, e, w, until) {
			case given, again:
				*out = w.out
				t.waiters.Put(w)
			case failed:
				e.lookLocal(out)
			case quit:
				e.quit(1, out)
			}
		case refill:
			t.enqueue(e, false)
		case done:
		}

		return
	}
}

func (e *Entry) look(out *Outcome) (*waiter, next) {
	e.mu.Lock()
	defer e.mu.Unlock()

	if e.gone {
		return nil, retry
	}

	now := e.now()

	e.refresh()
	e.use(now)
	e.turn(now)

	if e.Balance() > 0 {
		e.admit(out, FromLease, standing{now, e.Remaining(now), e.Balance()})

		return nil, done
	}

	if e.limits.Load().bucket.Burst == 0 {
		e.refuse(out, now, 1, Blocked)

		return nil, done
	}

	if _, denied := e.Denied(now, 1); denied {
		e.refuse(out, now, 1, OverLimit)

		return nil, done
	}

	if down, probe := e.down(now); down {
		e.peekLocal(now, out)

		if probe {
			return nil, refill
		}

		return nil, done
	}

	return e.queue(0, byLook), wait
}

func (e *Entry) lookLocal(out *Outcome) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.peekLocal(e.now(), out)
}

// peekLocal is local without a trace; under the lock.
func (e *Entry) peekLocal(now int64, out *Outcome) {
	if e.stray {
		e = e.rule().spareEntry()

		e.mu.Lock()
		defer e.mu.Unlock()

		now = e.now()

		e.refresh()
	}

	switch def := e.def(); def.OnUnavailable {
	case rule.Allow:
		e.admit(out, FromOpen, standing{now, 0, 0})
	case rule.Deny:
		e.refuse(out, now, 1, Unavailable)
		out.Origin, out.RetryAfter = FromClosed, retryClosed
	case rule.Local:
		e.beginLocal(now, def)

		ok, left, after := e.TakeLocal(now, 1)
		if ok {
			e.UndoLocal(1)
			e.admit(out, FromLocal, standing{now, left + 1, 0})
		} else {
			e.refuse(out, now, 1, OverLimit)
			out.Origin, out.Remaining, out.RetryAfter = FromLocal, left, max(1, after)
		}
	}
}
