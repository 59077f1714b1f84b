package holder_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/leaseway/leaseway/internal/holder"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
)

// explorer tries every order of events breadth first, so that the first world
// that breaks the bound is one that the fewest events lead to.
type explorer struct {
	bounds

	terms        ledger.Terms
	seq          uint64
	ids          uint64
	incarnations uint64
	canon        *canon
	seen         map[fingerprint]struct{}
	path         []stone
	transitions  int
}

// stone marks how a world was come to.
type stone struct {
	from  int32
	event event
}

// found is a world at the edge of what was explored.
type found struct {
	world world
	stone int32
}

// sideOf returns whose incarnation it is: see explorer.start.
func sideOf(incarnation uint64) int { return int(incarnation & 1) }

func newExplorer(b bounds) *explorer {
	return &explorer{bounds: b, terms: b.terms(), canon: newCanon(b.holders == 1), seen: map[fingerprint]struct{}{}}
}

func (x *explorer) first() world {
	w := world{
		now: 1_000_000_000 * tick, ledger: &ledger.State{},
		twin: twin{kind: x.kind, bucket: x.terms.Bucket, length: x.terms.Length, slack: x.slack * x.holders},
	}

	for i := range w.sides {
		w.sides[i].lease = holder.New()
	}

	for i := range w.sides {
		x.start(&w, i)
	}

	return w
}

// run explores, and returns how the bound was broken, if it was.
func (x *explorer) run() error {
	first := x.first()
	x.seen[x.canon.print(&first)] = struct{}{}
	x.path = append(x.path, stone{from: -1})
	edge := []found{{first, 0}}

	var list []event

	for depth := range x.events {
		var next []found

		for _, f := range edge {
			list = x.choices(&f.world, list[:0])
			for _, e := range list {
				x.transitions++

				w, err := x.after(f.world, e)
				if err != nil {
					return x.tell(f.stone, e, err)
				}

				last := depth == x.events-1
				p := x.canon.print(&w)
				if _, ok := x.seen[p]; ok {
					continue
				}

				x.seen[p] = struct{}{}

				if err := x.check(&w); err != nil {
					return x.tell(f.stone, e, err)
				}

				if last {
					continue
				}

				x.path = append(x.path, stone{f.stone, e})
				next = append(next, found{w, int32(len(x.path) - 1)})
			}
		}

		edge = next
	}

	return nil
}

// stranger is a holder that comes by only to see what is left.
const stranger = 1 << 40

// check looks ahead from w: what if everything in hand were spent now, and
// everything that is left taken? And is everything there again once all leases
// have ended and a bucket's time has passed?
func (x *explorer) check(w *world) error {
	if err := x.worst(*w); err != nil {
		return fmt.Errorf("then all that is in hand is spent, and what is left is taken: %w", err)
	}

	late := *w
	late.ledger = cloneLedger(w.ledger)
	full := x.terms.Bucket.Add(rate.Time{}, x.burst).Micros
	late.now += x.terms.TTL + ledger.Guard + 2*full

	if a := late.ledger.Apply(late.now, x.terms, ledger.Ask{Holder: stranger, Seq: 1, Takes: []int64{x.burst}}); a.Taken != 1 {
		return fmt.Errorf("then nothing happens for %d ticks, and there are not %d tokens to be had: %+v", (late.now-w.now)/tick, x.burst, a)
	}

	return nil
}

func (x *explorer) worst(w world) error {
	for i := range w.sides {
		// Twice, since the first can begin a lease that was waiting for its window.
		for range 2 {
			l := w.sides[i].lease
			if l.Balance() == 0 && l.Begins() == 0 {
				break
			}

			if err := x.spend(&w, i, max(1, l.Balance())); err != nil {
				return err
			}
		}
	}

	ask := ledger.Ask{Holder: stranger, Seq: 1}
	for n := x.burst; n > 0; n-- {
		ask.Takes = append(ask.Takes, n)
	}

	w.ledger = cloneLedger(w.ledger)
	a := w.ledger.Apply(w.now, x.terms, ask)

	for i, n := range ask.Takes {
		if a.Taken&(1<<i) != 0 {
			if err := w.twin.take(w.now, n); err != nil {
				return err
			}
		}
	}

	return nil
}

// tell returns err with what led to it.
func (x *explorer) tell(at int32, last event, err error) error {
	events := []event{last}
	for ; x.path[at].from >= 0; at = x.path[at].from {
		events = append(events, x.path[at].event)
	}

	slices.Reverse(events)

	var b strings.Builder

	w := x.first()
	for _, e := range events {
		fmt.Fprintf(&b, "%3d  %v", w.now/tick-1_000_000_000, e)

		switch e.op {
		case delivered:
			fmt.Fprintf(&b, ": %+v", w.asks[e.i].ask)
		case hears:
			fmt.Fprintf(&b, ": %+v", w.answers[e.i].answer)
		default:
		}

		w, _ = x.after(w, e)
		b.WriteByte('\n')
	}

	return fmt.Errorf("%w, after\n%s", err, b.String())
}
