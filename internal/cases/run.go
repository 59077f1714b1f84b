package cases

import (
	"context"
	"fmt"

	"github.com/leaseway/leaseway"
)

// Run plays the test on servers of its own, and judges what came. An error
// means that it could not be played to the end.
func (t *Test) Run(ctx context.Context) (result *Result, err error) {
	w, err := newWorld(t)
	if err != nil {
		return nil, fmt.Errorf("test %q: %w", t.Name, err)
	}
	defer w.close(context.WithoutCancel(ctx))

	played := make([]*outcome, len(t.Steps))
	for i, s := range t.Steps {
		played[i] = &outcome{step: s, letters: make([]byte, s.Requests)}
	}

	if err = w.apply(t.Rules); err == nil {
		err = w.play(ctx, played)
	}

	if err != nil {
		return nil, fmt.Errorf("test %q: %w", t.Name, err)
	}

	return t.judge(played, w.now), nil
}

// outcome is what came of a step.
type outcome struct {
	step    *Step
	sent    int
	letters []byte // A or D for each request
	last    leaseway.Decision
}

// next is when the next request goes out; of a change, when it is made.
func (o *outcome) next() int64 { return o.step.At + int64(o.sent)*o.step.Every }

func (o *outcome) done() bool { return o.sent >= max(1, o.step.Requests) }

// play sends all requests in order of time, and those of one moment in order of
// the file. Steps may overlap: one that goes on does not hold up the next.
func (w *world) play(ctx context.Context, steps []*outcome) error {
	var under []*outcome // under way, in order of the file

	for len(steps) > 0 || len(under) > 0 {
		o := earliest(under)
		if len(steps) > 0 && (o == nil || steps[0].next() < o.next()) {
			o, under = steps[0], append(under, steps[0])
			steps = steps[1:]
		}

		if err := w.to(ctx, o.next()); err != nil {
			return err
		}

		if err := w.send(ctx, o); err != nil {
			return err
		}

		if o.done() {
			under = without(under, o)
		}
	}

	return w.settle(ctx)
}

func earliest(steps []*outcome) *outcome {
	var first *outcome

	for _, o := range steps {
		if first == nil || o.next() < first.next() {
			first = o
		}
	}

	return first
}

func without(steps []*outcome, gone *outcome) []*outcome {
	rest := steps[:0]

	for _, o := range steps {
		if o != gone {
			rest = append(rest, o)
		}
	}

	return rest
}

// send sends the next request of o, puts its rules in force, or changes the load.
func (w *world) send(ctx context.Context, o *outcome) error {
	i := o.sent
	o.sent++

	if o.step.Rules != nil {
		return w.apply(o.step.Rules)
	}

	if load := o.step.Load; load != nil {
		for _, s := range w.servers {
			s.do(func() { s.limiter.SetLoad(*load) })
		}

		return nil
	}

	s := w.servers[o.step.Holder]
	s.do(func() {
		d := s.limiter.Decide(ctx, o.step.Request)

		s.hold(d, o.step.Hold)

		o.letters[i] = denied
		if d.Allowed {
			o.letters[i] = allowed
		}

		if i == o.step.Requests-1 {
			o.last = d
		}
	})

	return nil
}

// The letters of a request.
const (
	allowed = 'A'
	denied  = 'D'
)
