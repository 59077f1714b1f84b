package holder

import "github.com/leaseway/leaseway/internal/rate"

// What follows is how a holder notices that a key has gone quiet. Of a fixed window nothing comes back before it ends:
// what lies idle where a key was busy is refused where it is busy now. The moving average is slow to fall, and a renewal
// comes late; so the holder looks in between, and gives back what it will not need once its own forecast was far too high.

const (
	lookRequests = 24     // foretold between two looks
	lookLeast    = 30_000 // µs between two looks
	quietPart    = 4      // a key is quiet that asked for less than one part in so many of what was foretold
)

// looks notes when a window's lease was last looked at, and what S was then: the lower halves of both.
type looks struct{ at, spent uint32 }

func lookedAt(at, spent int64) looks { return looks{at: uint32(at), spent: uint32(spent)} }

// since returns the µs and the tokens since the last look.
func (k *looks) since(now, spent int64) (gone, asked int64) {
	return int64(uint32(now) - k.at), int64(uint32(spent) - k.spent)
}

// LookAt returns when to look at the lease next, 0 for never: it is of a fixed window that others use, too, and
// so fast that a look is cheap beside the requests between two of them.
func (l *Lease) LookAt() int64 {
	h := &l.heard
	if l.id == 0 || l.demand.holders < 2 || l.demand.rate <= 0 || h.terms().Algorithm != rate.FixedWindow {
		return 0
	}

	every := lookRequests * l.demand.cost / l.demand.rate
	if every > refreshPart*float32(h.terms().TTL) {
		return 0
	}

	w := h.counted()
	looked := w.asked + int64(int32(w.looks.at-uint32(w.asked)))

	return looked + max(lookLeast, int64(every)+1)
}

// Look looks at the lease, and reports whether it should ask at once to give back what is idle. Under the lock.
func (l *Lease) Look(now int64) bool {
	at := l.LookAt()
	if at == 0 || now < at {
		return false
	}

	if _, _, quiet := l.quiet(now, l.Spent()); quiet {
		l.hasten()

		return true
	}

	l.heard.counted().looks = lookedAt(now, l.Spent())

	return false
}

// quiet returns the µs since the last look and the tokens spent in it, and whether a look is due now and finds these
// far fewer than foretold. A key that has nothing, or that refuses what costs more than it has, says nothing of the kind.
func (l *Lease) quiet(now, spent int64) (gone, asked int64, quiet bool) {
	at, d := l.LookAt(), &l.demand
	if at == 0 || now < at || l.unmet() > 0 || float32(l.balance.Load()) < holdFrom*d.cost {
		return 0, 0, false
	}

	gone, asked = l.heard.counted().looks.since(now, spent)

	return gone, asked, float32(quietPart*asked) < d.rate*float32(gone)
}
