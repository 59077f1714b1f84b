package coordinator

import "context"

// Beat tells the store once which holders live, as Run does every Config.Beat.
func (c *Coordinator) Beat(ctx context.Context) error { return c.presence.beat(ctx) }
