package leaseway

import (
	"context"
	"math"

	"github.com/leaseway/leaseway/internal/table"
	"github.com/leaseway/leaseway/rule"
)

// Stepped is a Limiter whose time stands still until it is moved: it has no
// goroutine, and its requests call the source themselves. Rules are tested with
// it, and logs replayed. Only programs of this module can make one, since its
// clock is internal.
type Stepped struct{ *Limiter }

// NewStepped returns a Limiter over source in the time of clock, which must be
// a virtual one. It has no rules until SetRules. Close it like any other.
func NewStepped(source Source, clock *table.Clock, opts ...Option) *Stepped {
	inTime := optionFunc(func(o *options) { o.clock = clock })

	l := newLimiter(source, true, append(opts, inTime))
	l.stop = func() {} // nothing was started

	return &Stepped{l}
}

// SetRules puts set in force, whole, where another Limiter would hear of it
// from its source. The error, of CodeInvalid, is for a set older than the present one.
func (s *Stepped) SetRules(set *rule.Set) error {
	if err := s.table.SetRules(set); err != nil {
		return &Error{Code: CodeInvalid, Message: "these rules cannot be put in force", Err: err}
	}

	return nil
}

// Next returns when the Limiter has something to do by itself, such as to renew
// a lease, µs on its clock; ok is false while it remembers no key.
func (s *Stepped) Next() (at int64, ok bool) { return s.table.Next() }

// Advance does what is due at now, to which the clock must have been moved.
func (s *Stepped) Advance(now int64) { s.table.Advance(now) }

// SetLoad tells the worker shedder how busy the process is from now on, as a
// share of 1; NaN for a load that is not known.
func (s *Stepped) SetLoad(share float64) {
	s.measure()
	s.shedder.told.Store(math.Float64bits(share))
	s.shedder.tells.Store(true)
	s.measure()
}

// Decide decides as a Limiter does, after a look at the load.
func (s *Stepped) Decide(ctx context.Context, req Request) Decision {
	s.measure()

	return s.Limiter.Decide(ctx, req)
}

// DecideInto is Decide for those who have the memory for both.
func (s *Stepped) DecideInto(ctx context.Context, req *Request, d *Decision) {
	s.measure()
	s.Limiter.DecideInto(ctx, req, d)
}

// measure looks at the load as often as a Limiter would have until now.
func (s *Stepped) measure() {
	const most = 36_000 // after an hour of one load nothing moves any more

	now, config := s.table.Now(), s.table.Set().Shedders.Worker
	every := sampleEvery.Microseconds()

	at := s.shedder.stepped.Load()
	if at == 0 || config == nil {
		s.shedder.sample(context.Background(), now, config)

		return
	}

	for at = max(at, now-most*every); at+every <= now; {
		at += every
		s.shedder.sample(context.Background(), at, config)
	}
}
