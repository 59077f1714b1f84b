package sim

import (
	"context"
	"fmt"
	"path"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/rule"
)

// Run is a load under one algorithm, to be run.
type Run struct {
	Load      Load
	Algorithm rate.Algorithm
}

// Plan is which runs to make, and how.
type Plan struct {
	Runs []Run
	Seed uint64
	Draw bool            // the one run, into Report.Picture
	Done func(r *Result) // hears of each result, in any order, one at a time; may be nil
}

// Choose returns the runs of the loads whose names match one of the patterns
// (path.Match; none: all) under one of the algorithms (none: all). The error names
// the pattern or the algorithm that nothing fits.
func Choose(patterns, algorithms []string) (runs []Run, err error) {
	unknown := slices.Clone(algorithms)
	unmet := slices.Clone(patterns)

	for _, l := range Loads() {
		met, err := matches(patterns, l.Name)
		if err != nil {
			return nil, err
		}

		unmet = slices.DeleteFunc(unmet, func(p string) bool { return slices.Contains(met, p) })

		for _, a := range l.Algorithms() {
			name := rule.Algorithm(a).String()
			unknown = slices.DeleteFunc(unknown, func(n string) bool { return n == name })

			if (len(patterns) == 0 || len(met) > 0) && (len(algorithms) == 0 || slices.Contains(algorithms, name)) {
				runs = append(runs, Run{l, a})
			}
		}
	}

	switch {
	case len(unmet) > 0:
		return nil, fmt.Errorf("no load has a name that matches %q (--list shows them)", unmet[0])
	case len(unknown) > 0:
		return nil, fmt.Errorf("no load is run with the algorithm %q (write token_bucket, fixed_window or sliding_window)", unknown[0])
	case len(runs) == 0:
		return nil, fmt.Errorf("none of the loads is run with %q", algorithms)
	}

	return runs, nil
}

// run makes one run.
func (p *Plan) run(ctx context.Context, one Run) (*Result, []byte, error) {
	if p.Draw {
		return one.Load.Draw(ctx, one.Algorithm, p.Seed)
	}

	r, err := one.Load.Run(ctx, one.Algorithm, p.Seed)

	return r, nil, err
}

// matches returns the patterns that name matches.
func matches(patterns []string, name string) (met []string, err error) {
	for _, p := range patterns {
		ok, err := path.Match(p, name)
		if err != nil {
			return nil, fmt.Errorf("%q is no pattern: %w", p, err)
		}

		if ok {
			met = append(met, p)
		}
	}

	return met, nil
}

// Results makes the runs, as many at a time as there are processors, and returns
// what came of them, in order. The error is of a run that could not be made.
func (p *Plan) Results(ctx context.Context) (*Report, error) {
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex
		failed  error
		began   = time.Now()
		report  = &Report{Seed: p.Seed, Results: make([]*Result, len(p.Runs))}
		waiting = make(chan int)
	)

	for range min(runtime.GOMAXPROCS(0), len(p.Runs)) {
		wg.Go(func() {
			for i := range waiting {
				r, picture, err := p.run(ctx, p.Runs[i])

				mu.Lock()

				if picture != nil {
					report.Picture = picture
				}

				report.Results[i] = r
				if failed == nil {
					failed = err
				}

				if err == nil && p.Done != nil {
					p.Done(r)
				}

				mu.Unlock()
			}
		})
	}

	for i := range p.Runs {
		waiting <- i
	}

	close(waiting)
	wg.Wait()

	if failed != nil {
		return nil, failed
	}

	report.Millis = time.Since(began).Milliseconds()

	return report, nil
}
