package server

import "github.com/leaseway/leaseway"

// inFlight is how things stand with one rule that bounds what is in flight.
func inFlight(s *scrape, r *leaseway.SlotStats) {
	id := ofRule(r.Rule)

	s.gauge("in_flight", "Slots of a concurrency rule that requests in flight here occupy.", r.InFlight, id)
	s.gauge("slots", "Slots of a concurrency rule that this process has, those in flight included.", r.Held, id)
	s.gauge("queued", "Requests that wait here for a slot of a concurrency rule.", r.Queued, id)
	s.gauge("in_flight_longest_seconds",
		"How long the oldest request in flight has lasted; one that only grows is a decision that is never finished.",
		int64(r.Longest.Seconds()), id)
}
