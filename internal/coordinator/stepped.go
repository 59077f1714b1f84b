package coordinator

import (
	"context"
	"time"
)

// InTime makes c tell by clock, instead of the system's, which holders asked
// lately, for whoever moves the time himself. Before the first Acquire only.
func (c *Coordinator) InTime(clock func() time.Time) { c.presence.clock = clock }

// Beat tells the store once which holders live, as Run does every Config.Beat.
func (c *Coordinator) Beat(ctx context.Context) error { return c.presence.beat(ctx) }
