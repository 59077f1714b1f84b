package slots_test

import (
	"fmt"
	"slices"

	"github.com/leaseway/leaseway/internal/slots"
)

// A fleet is the store, some processes and a bad network between them, all in
// virtual time. What happens next is chosen by choose(n), from 0 to n-1.
type fleet struct {
	choose func(n int) int

	now   int64
	store slots.State
	terms slots.Terms
	procs []*process
	mail  []message
	born  uint64
	most  int64 // in flight at one time beyond what is excused
}

// process is one holder, by the production code; in flight is counted apart from it, dumbly.
type process struct {
	id, name uint64
	pool     slots.Pool
	seq      uint64
	inFlight []int64
	orphans  int64 // in flight when its holding ended: they go on, and nothing covers them
}

// message is an ask on its way, or the answer to one.
type message struct {
	proc   *process
	ask    slots.Ask
	answer *slots.Answer
}

const (
	procs   = 3
	fleetN  = 5
	fleetMs = 1000
)

func newFleet(choose func(n int) int) *fleet {
	f := &fleet{choose: choose, now: 1_000_000, terms: slots.Terms{N: fleetN, TTL: slots.TTL}}
	for i := range procs {
		f.procs = append(f.procs, f.start(uint64(i+1)))
	}

	return f
}

func (f *fleet) start(name uint64) *process {
	f.born++

	return &process{id: f.born, name: name}
}

// step does one thing.
func (f *fleet) step() {
	p := f.procs[f.choose(len(f.procs))]

	switch f.choose(12) {
	case 0, 1, 2:
		f.request(p)
	case 3, 4:
		f.finish(p)
	case 5, 6:
		f.send(p)
	case 7:
		p.pool.Lost()
	case 8, 9:
		f.deliver()
	case 10:
		f.pass()
	case 11:
		f.rarely(p)
	}

	f.check()
}

// pass lets time pass, mostly little beside the TTL.
func (f *fleet) pass() {
	if f.choose(4) > 0 {
		f.now += []int64{fleetMs, 700 * fleetMs, 2_000 * fleetMs}[f.choose(3)]
	} else {
		f.now += []int64{slots.TTL / 2, slots.TTL - 1, slots.TTL, slots.TTL + slots.Guard}[f.choose(4)]
	}
}

// rarely crashes a process, and starts it anew under its name.
func (f *fleet) rarely(p *process) {
	if f.choose(4) == 0 {
		f.procs[slices.Index(f.procs, p)] = f.start(p.name)
	}
}

func (f *fleet) request(p *process) {
	n := int64(1 + f.choose(2))
	if p.pool.Take(f.now, n) {
		p.inFlight = append(p.inFlight, n)
	}
}

func (f *fleet) finish(p *process) {
	if len(p.inFlight) == 0 {
		return
	}

	i := f.choose(len(p.inFlight))
	p.pool.Put(p.inFlight[i])
	p.inFlight = slices.Delete(p.inFlight, i, i+1)
	p.orphans = min(p.orphans, p.busy())
}

func (p *process) busy() (n int64) {
	for _, one := range p.inFlight {
		n += one
	}

	return n
}

// send builds an ask and puts it on its way, perhaps twice, perhaps not at all.
func (f *fleet) send(p *process) {
	if _, flying := p.pool.Asked(); flying {
		return
	}

	p.seq++

	var needs []int64
	for range f.choose(3) {
		needs = append(needs, int64(1+f.choose(2)))
	}

	ask := p.pool.Ask(f.now, slots.Need{Seq: p.seq, Needs: needs, Spare: int64(f.choose(3))})
	ask.Holder, ask.Name = p.id, p.name

	for range f.choose(3) {
		f.mail = append(f.mail, message{proc: p, ask: ask})
	}
}

// deliver brings one message to its end, whichever was sent first.
func (f *fleet) deliver() {
	if len(f.mail) == 0 {
		return
	}

	i := f.choose(len(f.mail))
	m := f.mail[i]
	f.mail = slices.Delete(f.mail, i, i+1)

	if m.answer == nil {
		a := f.store.Apply(f.now, f.terms, m.ask)
		for range f.choose(3) {
			f.mail = append(f.mail, message{proc: m.proc, ask: m.ask, answer: &a})
		}

		return
	}

	m.proc.pool.Hear(m.ask.Seq, f.terms.TTL, *m.answer)
}

// check counts what is in flight, and what of it is excused: what a process had
// when its holding ended before it could ask again.
func (f *fleet) check() {
	var all, excused int64

	for _, p := range f.procs {
		if until := p.pool.Until(); until != 0 && f.now >= until {
			p.pool.Expire(f.now)
			p.orphans = p.busy()
		}

		all += p.busy()
		excused += p.orphans
	}

	f.most = max(f.most, all-excused)
}

// verdict says what went wrong, "" if nothing.
func (f *fleet) verdict() string {
	if f.most > fleetN {
		return fmt.Sprintf("%d in flight beyond what is excused, where %d may be", f.most, fleetN)
	}

	for _, p := range f.procs {
		if p.pool.Busy() != p.busy() {
			return fmt.Sprintf("a pool says %d are in flight, and there are %d", p.pool.Busy(), p.busy())
		}
	}

	return ""
}
