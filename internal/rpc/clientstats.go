package rpc

// ClientStats are counts since the start, but for what says that it is of now.
type ClientStats struct {
	Replicas []ReplicaStats
	Refused  []RefusedStats // one for each Cause
	Mixed    bool           // now: coordinators have different stores, and nothing is leased
}

// ReplicaStats are one coordinator's counts.
type ReplicaStats struct {
	URL      string
	State    string // now: closed, open or probing, of its breaker
	Calls    int64  // batches sent
	Failures int64  // calls that failed, or whose answer was refused
	Late     int64  // of them: missed the deadline
	Watched  bool   // now: rules come from here
}

// RefusedStats counts the answers that were refused for one cause; for CauseValue, the keys.
type RefusedStats struct {
	Cause Cause
	Count int64
}

// Stats returns the present counts.
func (c *Client) Stats() ClientStats {
	s := ClientStats{Mixed: c.binding.mixed.Load() != nil}

	for _, r := range c.replicas {
		state := "closed"

		switch {
		case r.dead(c.now()):
			state = "open"
		case r.open():
			state = "probing"
		}

		s.Replicas = append(s.Replicas, ReplicaStats{
			URL: r.url, State: state, Calls: r.calls.Load(), Failures: r.failures.Load(), Late: r.late.Load(),
			Watched: r.watch.Load() != nil,
		})
	}

	for cause := range c.refused {
		s.Refused = append(s.Refused, RefusedStats{Cause: Cause(cause), Count: c.refused[cause].Load()})
	}

	return s
}
