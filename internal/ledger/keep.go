package ledger

// Begin makes s the ledger of a key whose past was lost at the instant loss
// (µs): empty then, under terms. A store calls it for a key that it does not
// know once it has lost data; a key that is merely new is the zero State.
func (s *State) Begin(terms Terms, loss int64) {
	*s = State{Terms: terms, Leases: s.Leases[:0]}
	s.Lost(loss)
}

// Expire moves the ledger to now without an ask: leases whose time is over are
// forfeited. A store calls it before it judges by Idle what it may forget.
func (s *State) Expire(now int64) {
	s.observe(now)
	s.forfeit()
}
