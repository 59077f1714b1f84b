package demo

import (
	"context"
	"time"
)

const (
	failoverIn = 20 * time.Second       // what the cluster is given to put a replica in the master's place, and the servers to notice
	quietFor   = 500 * time.Millisecond // without a decision that was made without the store
)

// directRedis is what happens beside the traffic when the counts are in Redis, until ctx ends.
func (s *show) directRedis(ctx context.Context, start time.Time) error {
	if err := s.open(ctx, Before); err != nil {
		return err
	}

	if err := s.watch(ctx, start.Add(part(s.cfg.Duration, killAt))); err != nil {
		return err
	}

	if err := s.killMaster(ctx); err != nil {
		return err
	}

	settled := time.Now().Add(leaseTTLs * leaseTTL)
	if then := start.Add(part(s.cfg.Duration, restartAt)); then.After(settled) {
		settled = then
	}

	if err := s.watch(ctx, settled); err != nil {
		return err
	}

	if err := s.killCoordinator(ctx); err != nil {
		return err
	}

	return s.watch(ctx, start.Add(s.cfg.Duration+time.Hour)) // to the end of ctx
}

// killMaster kills the master that is asked most, and waits until all servers lease again.
func (s *show) killMaster(ctx context.Context) error {
	redis := s.fleet.redis
	worst := 0

	redis.calls(ctx)

	for i, n := range redis.masters {
		if n.calls > redis.masters[worst].calls {
			worst = i
		}
	}

	master, replica := redis.masters[worst], redis.replicas[worst]

	s.sayf("Killing a Redis master (SIGKILL, %s), the one that was asked most. Until its replica takes over, its keys have an outage: "+
		"each server decides them by its share. The others' keys do not notice.", master.at)

	s.marks.kill = time.Now().UnixMicro()
	master.end()

	if err := s.open(ctx, Failover); err != nil {
		return err
	}

	s.marks.killed = s.polls[Failover][0].to

	return s.failover(ctx, replica)
}

// failover waits until the replica is the master, and then until for a while no server has admitted anything without the
// store, or ctx ends. Meanwhile it notes who has an outage.
func (s *show) failover(ctx context.Context, replica *redisNode) error {
	var (
		began = time.Now()
		led   bool
		last  int64 = -1
		since time.Time
	)

	s.out = make([]bool, len(s.traffic.callers))

	for {
		p, err := s.poll(ctx)
		if err != nil {
			return err
		}

		s.live.called(p.stats)
		s.noteOutages(&p)

		if !led && replica.leads(ctx) {
			led = true
			s.sayf("Its replica (%s) has taken over, %.1f s after the kill.", replica.at, time.Since(began).Seconds())
		}

		switch now, sum := time.Now(), p.local(); {
		case sum != last:
			last, since = sum, now
		case led && now.Sub(since) >= quietFor:
			s.sayf("All keys are leased again, %.1f s after the kill.", since.Sub(began).Seconds())

			s.marks.healed = since.UnixMicro()

			return nil
		case now.Sub(began) >= failoverIn:
			s.lost = true
			s.sayf("Not all keys are leased again after %v, which they should be.", failoverIn)

			return nil
		}

		if err := s.watch(ctx, time.Now().Add(probeEvery)); err != nil {
			return err
		}
	}
}

// noteOutages notes whose requests a server decides by its share now.
func (s *show) noteOutages(p *poll) {
	for _, api := range p.stats {
		for i, key := range api.Keys {
			s.out[i] = s.out[i] || key.Local
		}
	}
}

// local returns how many requests servers have admitted by their shares.
func (p *poll) local() (sum int64) {
	for _, api := range p.stats {
		sum += api.Local
	}

	return sum
}

// killCoordinator kills one coordinator of several, for good.
func (s *show) killCoordinator(ctx context.Context) error {
	s.sayf("Killing one of the three coordinators (SIGKILL, pid %d). The others know all that it knew; its servers turn to them.",
		s.fleet.coordinators[0].pid())

	s.marks.up = time.Now().UnixMicro()
	s.fleet.coordinators[0].kill()

	if err := s.open(ctx, Switch); err != nil {
		return err
	}

	if err := s.watch(ctx, time.Now().Add(leaseTTLs*leaseTTL)); err != nil {
		return err
	}

	s.marks.recovered = time.Now().UnixMicro()

	return s.open(ctx, After)
}
