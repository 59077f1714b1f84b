// Package demo shows Leaseway at work: a coordinator and three API servers, each a process of its own on this machine, share
// the limits of many callers, over real HTTP, while the coordinator is killed and comes back. Then it judges, from what every
// single request met, whether what Leaseway promises was kept.
//
//	this process                        children, which end with it
//	┌──────────────────────────┐
//	│ traffic ──▶ sender ──────┼─HTTP──▶ api-1 ─┐
//	│    (made up, or a log)   ├─HTTP──▶ api-2 ─┼─gRPC──▶ coordinator
//	│                 │        ├─HTTP──▶ api-3 ─┘         (killed at 40 %, back at 60 %)
//	│               events     │        leasewayhttp
//	│                 │        │        over leaseway.Dial
//	│  live ◀─────────┤        │
//	│                 ▼        │
//	│       judge ──▶ Result   │
//	└──────────────────────────┘
//
// With Config.Redis there are three coordinators, and the counts are in six Redis servers that the demo starts as well; a master
// is killed at 40 %, and one of the coordinators at 60 %.
//
// The phases: before ──SIGKILL──▶ outage ──started again──▶ recovery ──every server has heard──▶ after.
//
// Each response says when its decision was made, to the microsecond, so that the judge need not guess: it holds the
// admissions of all servers together against one token bucket (internal/rate). Its neighbours are internal/cli, which has
// the command; leaseway and leasewayhttp, which the API servers use as any program would; and accesslog, for traffic that
// really happened.
package demo

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Config says what to show.
type Config struct {
	Program  string        // the leaseway executable
	Duration time.Duration // of the traffic; MinDuration at least
	Seed     uint64        // of the traffic: the same seed, the same requests
	Log      string        // path of an access log to send instead; "" for made up traffic
	Redis    bool          // three coordinators with the counts in a cluster of Redis servers, which it starts
	Watcher  Watcher       // who is told what happens
}

// The durations that a demo can take. Below the first the phases are too short to tell anything; the second bounds memory.
const (
	MinDuration = 6 * time.Second
	MaxDuration = time.Hour
	// MinRedisDuration is the least with Redis, whose failover takes some seconds.
	MinRedisDuration = 12 * time.Second
)

// Watcher is told what happens. Its methods are called one after the other, but for Follow.
type Watcher interface {
	// Say tells one thing that happened, in a sentence.
	Say(line string)
	// Follow shows what l knows until ctx ends. If it returns before, with ErrStopped, the demo stops.
	Follow(ctx context.Context, l *Live) error
}

// ErrStopped says that whoever watches has seen enough; ErrInterrupted, which is one, that it was Ctrl-C that said so.
var (
	ErrStopped     = errors.New("stopped")
	ErrInterrupted = fmt.Errorf("%w by Ctrl-C", ErrStopped)
)

// MinDuration returns the least that Duration may be.
func (c Config) MinDuration() time.Duration {
	if c.Redis {
		return MinRedisDuration
	}

	return MinDuration
}

// Run runs the demo until its end or ctx's, and judges what was seen until then. No process and no file is left behind. The
// error is for a demo that could not be run; a promise that was not kept is in the result.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	if least := cfg.MinDuration(); cfg.Duration < least || cfg.Duration > MaxDuration {
		return nil, fmt.Errorf("a duration of %v is not within %v and %v", cfg.Duration, least, MaxDuration)
	}

	t, err := newTraffic(ctx, cfg)
	if err != nil {
		return nil, err
	}

	for _, line := range append(t.about, t.notes...) {
		cfg.Watcher.Say(line)
	}

	f, err := startFleet(ctx, cfg, t.rules)
	if err != nil && ctx.Err() != nil {
		return nil, tooEarly(ErrStopped)
	}

	if err != nil {
		return nil, err
	}
	defer f.close()

	cfg.Watcher.Say(f.started())

	l := newLive(t.callers, cfg.Duration)
	l.redis = cfg.Redis
	show := &show{cfg: cfg, fleet: f, traffic: t, live: l, sender: newSender(f, l)}

	if err := show.run(ctx); err != nil {
		return nil, err
	}

	return newResult(show), nil
}

// tooEarly is the error of a demo that was stopped before there was anything to show.
func tooEarly(cause error) error {
	if !errors.Is(cause, ErrStopped) {
		cause = ErrStopped
	}

	return fmt.Errorf("%w before the first answer", cause)
}

func newTraffic(ctx context.Context, cfg Config) (*traffic, error) {
	if cfg.Log != "" {
		return replay(ctx, cfg)
	}

	return synthetic(cfg.Duration, cfg.Seed)
}
