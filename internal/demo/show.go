package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	beginIn    = 200 * time.Millisecond // from the decision to begin until the first request
	watchEvery = 500 * time.Millisecond
	probeEvery = 20 * time.Millisecond
	recoverIn  = 2 * time.Second // what the servers are given to find the coordinator again, in all
	leaseTTLs  = 2               // and of it, after the last one has
	leaseTTL   = 500 * time.Millisecond
)

// poll is what the API servers said of themselves at one time.
type poll struct {
	from, to int64 // the question and the last answer, µs since the Unix epoch
	stats    [servers]apiStats
	runs     int64 // of functions in Redis since the start, if there is one
}

// show is one run: the traffic, and beside it what happens to the coordinator.
type show struct {
	cfg     Config
	fleet   *fleet
	traffic *traffic
	live    *Live
	sender  *sender

	marks   marks
	polls   map[Phase]*[2]poll // at the beginning and at the end of each
	lost    bool               // a server did not find the coordinator again in time
	out     []bool             // which callers had an outage while a master was gone
	stopped bool               // before its end

	interrupted bool // by Ctrl-C
}

// run runs until the traffic is over, parent ends or the watcher has seen enough. The error is that of a child or of a question.
func (s *show) run(parent context.Context) error {
	s.polls = map[Phase]*[2]poll{}

	ctx, stop := context.WithCancelCause(parent)
	defer stop(nil)

	start := time.Now().Add(beginIn)
	s.marks.start = start.UnixMicro()
	s.live.begin(start)

	sent, endSending := context.WithCancel(ctx)
	defer endSending()

	var tasks sync.WaitGroup

	tasks.Go(func() {
		defer endSending()

		s.sender.run(ctx, s.traffic, start)
	})

	shown, endShow := context.WithCancel(context.WithoutCancel(ctx))

	var follower sync.WaitGroup

	follower.Go(func() {
		if err := s.cfg.Watcher.Follow(shown, s.live); err != nil {
			stop(err)
		}
	})

	direct := s.direct
	if s.cfg.Redis {
		direct = s.directRedis
	}

	err := direct(sent, start)
	if err != nil && sent.Err() == nil {
		stop(err)
	}

	tasks.Wait()

	s.marks.end = time.Now().UnixMicro()
	last, pollErr := s.poll(context.WithoutCancel(ctx))
	if s.fleet.redis != nil {
		last.runs = s.fleet.redis.calls(context.WithoutCancel(ctx))
	}

	s.close(last)
	endShow()
	follower.Wait()

	cause := context.Cause(ctx)
	s.interrupted = errors.Is(cause, ErrInterrupted)
	s.stopped = errors.Is(cause, ErrStopped) || parent.Err() != nil

	switch {
	case cause != nil && !s.stopped:
		return cause
	case pollErr != nil && !s.stopped:
		return pollErr
	case s.stopped && len(s.sender.events) == 0:
		return tooEarly(cause)
	}

	return nil
}

// direct is what happens beside the traffic, until ctx ends.
func (s *show) direct(ctx context.Context, start time.Time) error {
	if err := s.open(ctx, Before); err != nil {
		return err
	}

	if err := s.watch(ctx, start.Add(part(s.cfg.Duration, killAt))); err != nil {
		return err
	}

	if err := s.kill(ctx); err != nil {
		return err
	}

	if err := s.watch(ctx, start.Add(part(s.cfg.Duration, restartAt))); err != nil {
		return err
	}

	if err := s.restart(ctx); err != nil {
		return err
	}

	return s.watch(ctx, start.Add(s.cfg.Duration+time.Hour)) // to the end of ctx
}

func (s *show) sayf(format string, args ...any) { s.cfg.Watcher.Say(fmt.Sprintf(format, args...)) }

// open begins a phase, and ends the one before.
func (s *show) open(ctx context.Context, p Phase) error {
	now, err := s.poll(ctx)
	if err != nil {
		return err
	}

	if s.fleet.redis != nil {
		now.runs = s.fleet.redis.calls(ctx)
	}

	s.close(now)
	s.polls[p] = &[2]poll{0: now}
	s.live.enter(p, p == Outage || p == Failover)

	return nil
}

func (s *show) close(now poll) {
	for _, p := range s.polls {
		if p[1].to == 0 {
			p[1] = now
		}
	}
}

// kill kills the coordinator. What is polled afterwards is what the servers had in hand: nobody gives them more.
func (s *show) kill(ctx context.Context) error {
	s.sayf("Killing the coordinator (SIGKILL, pid %d). The servers go on with the leases they have, and then each with its share of "+
		"every limit.", s.fleet.coordinators[0].pid())

	s.marks.kill = time.Now().UnixMicro()
	s.fleet.coordinators[0].kill()

	if err := s.open(ctx, Outage); err != nil {
		return err
	}

	s.marks.killed = s.polls[Outage][0].to

	return nil
}

// restart starts the coordinator again, and waits until all servers have heard of it.
func (s *show) restart(ctx context.Context) error {
	if err := s.fleet.startCoordinator(ctx, 0); err != nil {
		return err
	}

	s.marks.up = time.Now().UnixMicro()
	s.sayf("The coordinator runs again (pid %d), with the data directory of the first. What it had in memory is lost; the servers "+
		"will tell it what they admitted.", s.fleet.coordinators[0].pid())

	if err := s.open(ctx, Recovery); err != nil {
		return err
	}

	limit := time.Now().Add(recoverIn)

	heard, err := s.heard(ctx, limit)
	if err != nil {
		return err
	}

	until := limit
	if !heard.IsZero() {
		s.sayf("All servers have found it, %.0f ms after it was up.", float64(heard.UnixMicro()-s.marks.up)/1e3)

		if settled := heard.Add(leaseTTLs * leaseTTL); settled.Before(limit) {
			until = settled
		}
	} else {
		s.lost = true
		s.sayf("Not all servers have found it after %v, which they should have.", recoverIn)
	}

	if err := s.watch(ctx, until); err != nil {
		return err
	}

	s.marks.recovered = time.Now().UnixMicro()

	return s.open(ctx, After)
}

// heard waits until no server is without a coordinator, and returns when that was; the zero time if it was not until limit.
func (s *show) heard(ctx context.Context, limit time.Time) (time.Time, error) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()

	for time.Now().Before(limit) {
		all, err := s.fleet.stats(ctx, statsQuestion{Rule: s.traffic.rule})
		if err != nil {
			return time.Time{}, err
		}

		if !slices.ContainsFunc(all[:], func(api apiStats) bool { return api.Degraded }) {
			return time.Now(), nil
		}

		select {
		case <-ctx.Done():
			return time.Time{}, ctx.Err()
		case <-tick.C:
		}
	}

	return time.Time{}, nil
}

// watch keeps the live figures fresh until then, or until a process ends that should not.
func (s *show) watch(ctx context.Context, then time.Time) error {
	timer := time.NewTimer(time.Until(then))
	defer timer.Stop()

	tick := time.NewTicker(watchEvery)
	defer tick.Stop()

	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			return nil
		case <-tick.C:
			all, err := s.fleet.stats(ctx, statsQuestion{Rule: s.traffic.rule})
			if err != nil {
				return err
			}

			s.live.called(all)
		}
	}
}

// poll asks the servers about every caller.
func (s *show) poll(ctx context.Context) (poll, error) {
	q := statsQuestion{Rule: s.traffic.rule, Keys: make([]string, len(s.traffic.callers))}
	for i, c := range s.traffic.callers {
		q.Keys[i] = c.key
	}

	p := poll{from: time.Now().UnixMicro()}

	var err error

	p.stats, err = s.fleet.stats(ctx, q)
	p.to = time.Now().UnixMicro()

	return p, err
}
