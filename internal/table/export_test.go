package table

// QuickTurn is what a request does that has read tick, and finds that the lease of key was turned for another one.
func (r *Rule) QuickTurn(key string, tick int64) bool { return r.quickTurn(r.keys.find(key), tick) }

// TickNow reads the clock as a request does.
func (c *Clock) TickNow() int64 { return c.tick.Load() }
