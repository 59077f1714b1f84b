package table

// QuickTurn is what a request does that has read tick, and finds that the lease of key was turned for another one.
func (r *Rule) QuickTurn(key string, tick int64) bool {
	return r.quickTurn(r.keys.find(key).entry(), tick)
}

// TickNow reads the clock as a request does.
func (c *Clock) TickNow() int64 { return c.tick.Load() }

// Turned is how often the wheel has been turned, or could have been.
func (t *Table) Turned() int64 {
	t.wheel.mu.Lock()
	defer t.wheel.mu.Unlock()

	return t.wheel.at
}

// ReturnLoans gives all loans of the rule back.
func (r *Rule) ReturnLoans() { r.returnLoans() }

// StripeLent has a key that is lent striped, unless it is, as if several processors were busy with it.
func (r *Rule) StripeLent(key string) {
	if l := r.lent.find(key).loan(); l != nil && l.limits.bucket.Stripes == nil {
		r.stripe(l)
	}
}

// MostStriped is how many keys are striped at once.
const MostStriped = mostStriped

// Striped reports whether a key is lent with stripes.
func (r *Rule) Striped(key string) bool {
	l := r.lent.find(key).loan()

	return l != nil && l.limits.bucket.Stripes != nil
}

// Lent reports whether a key is lent.
func (r *Rule) Lent(key string) bool { return r.lent.find(key) != nil }
