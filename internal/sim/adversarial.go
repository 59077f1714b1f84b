package sim

import (
	"slices"
	"time"
)

// adversarialLoads are those in which everything happens that may break the
// limit. Nothing may pass above it, but for the excuses; after a fault, from two
// TTLs on, the fleet must admit what it should again.
func adversarialLoads() []Load {
	return slices.Concat(hoarders(), trafficAttacks(), messageFaults(), processFaults(), storeFaults(), partitions(), changes())
}

// thousand is a limit of 1,000 a second, which most attacks are on.
func thousand() []string { return []string{"limit: 1000, window: 1s"} }

// strict is the same for a fleet that admits nothing without a coordinator, so
// that nothing excuses what passes above the limit.
func strict() []string { return []string{"limit: 1000, window: 1s, onUnavailable: deny"} }

// hoarders are servers that are parted from the coordinators while they hold
// leases, and spend them at the last moment, when others ask for all there is.
func hoarders() []Load {
	rule := []string{"limit: 1000, window: 1s, onUnavailable: deny, lease: {ttl: 2s}"}
	isCut, isFree := func(s *server) bool { return s.cut }, func(s *server) bool { return !s.cut }

	// The leases of those that are cut off at 1 s end at 3 s at the latest, and with the store 50 ms later.
	hoard := func(name, about string, acts ...act) Load {
		return Load{Name: name, About: about, Lasts: 120 * sec, Holders: 4, Rules: rule, acts: append(acts,
			act{at: 0, every: 6 * sec, do: flood(240, sec)}, act{at: sec, every: 6 * sec, do: cutOff(3, 4*sec)})}
	}

	return []Load{
		hoard("hoard", "3 of 4 servers are cut off with their leases; then all spend what they can",
			act{at: 2100 * ms, every: 6 * sec, do: flood(4000, 2*sec)}),
		hoard("hoard-late", "as hoard, but all wait until about the end of the leases, each time later", sweep(0, flood(1500, 10*ms))...),
		hoard("hoard-crash", "as hoard, but those that are cut off stand still, spend all unheard and crash; the other asks a little later",
			slices.Concat(holdStill(), sweep(0, floodOf(1500, 5*ms, isCut)), sweep(10*ms, killCut(500*ms)),
				sweep(65*ms, floodOf(5000, 30*ms, isFree)))...),
	}
}

// sweep has something happen once in each cycle of 6 s, first 2.6 s and more after it begins, and each time 25 ms later.
func sweep(more time.Duration, do func(f *fleet)) (acts []act) {
	at := 2600*ms + more

	for range 20 {
		acts = append(acts, act{at: at, do: do})
		at += 6*sec + 25*ms
	}

	return acts
}

// holdStill has servers that are cut off give nothing back: they stand still until a sweep comes to them.
func holdStill() (acts []act) {
	for i, a := range sweep(0, nil) {
		at := sec + ms + 6*sec*time.Duration(i)
		acts = append(acts, act{at: at, do: stop(a.at - at)})
	}

	return acts
}

// trafficAttacks are callers that do their worst.
func trafficAttacks() []Load {
	return []Load{
		{Name: "prime", About: "a lease, silence, and everything spent just before it ends", Lasts: 20 * sec, Holders: 10,
			Rules: thousand(),
			acts: []act{
				{at: 0, every: 1500 * ms, do: flood(30, 20*ms)}, {at: 30 * ms, every: 1500 * ms, do: flood(30, 20*ms)},
				{at: 440 * ms, every: 1500 * ms, do: flood(400, 100*ms)},
			}},
		{Name: "hop", About: "3 times the limit, all of it to one server, another each 50 ms", Lasts: 10 * sec, Holders: 20,
			Rules: thousand(), demand: demand{times: 3, hot: 1, hops: 50 * ms}},
		{Name: "cold-start", About: "10,000 keys at once, each at 10 times its 10 a second", Lasts: 200 * ms, Holders: 10,
			Rules: []string{"limit: 10, window: 1s"}, demand: demand{times: 10, keys: 10_000}, bars: bars{admitted: 0.98}},
		{Name: "window-turn", About: "a flood from 50 ms before each window's turn until 50 ms after it", Lasts: 10 * sec, Holders: 20,
			Rules: thousand(), demand: demand{times: 0.2}, acts: []act{{at: 950 * ms, every: sec, do: flood(200, 100*ms)}},
			bars: bars{admitted: 0.98}},
		{Name: "window-end", About: "everything in the last 20 ms of each window", Lasts: 10 * sec, Holders: 20,
			Rules: thousand(), acts: []act{{at: 980 * ms, every: sec, do: flood(100, 20*ms)}}, bars: bars{admitted: 0.98}},
		{Name: "costs", About: "costs from 1 to nine tenths of the limit", Lasts: 200 * sec, Holders: 10,
			Rules: []string{"limit: 100, window: 1s"}, demand: demand{times: 3, costs: []int64{1, 1, 1, 2, 5, 20, 50, 90}}},
		{Name: "three-rules", About: "requests under three rules, each the tightest at times", Lasts: 20 * sec, Holders: 10,
			Rules:  []string{"limit: 1000, window: 1s", "limit: 150, window: 100ms", "limit: 8000, window: 10s"},
			demand: demand{times: 2}, bars: bars{admitted: 0.98}},
	}
}

// messageFaults are networks that lose, double, delay and repeat.
func messageFaults() []Load {
	return []Load{
		{Name: "repeats", About: "asks doubled, reordered, and replayed after seconds", Lasts: 16 * sec, Holders: 10, Rules: strict(),
			demand: demand{times: 2},
			acts: []act{{at: 0, do: weather(6*sec, func(n *network) {
				n.double, n.replay, n.lateBy, n.tail = 0.5, 0.3, 400_000, 15_000
			})}},
			bars: bars{from: 12 * sec, admitted: 0.98}},
		{Name: "losses", About: "a tenth of all messages lost, a tenth of the answers late by 400 ms", Lasts: 10 * sec, Holders: 10,
			Rules: strict(), demand: demand{times: 2},
			acts: []act{{at: sec, do: weather(5*sec, func(n *network) { n.lose, n.late, n.lateBy = 0.1, 0.1, 400_000 })}},
			bars: bars{from: 7 * sec, admitted: 0.98}},
		{Name: "slow", About: "calls that take up to their timeout, so that returns race expiry", Lasts: 10 * sec, Holders: 10,
			Rules: strict(), demand: demand{times: 1.5, on: 300 * ms, off: 300 * ms},
			acts: []act{{at: sec, do: weather(6*sec, func(n *network) { n.least, n.mean = 5_000, 60_000 })}},
			bars: bars{from: 8 * sec, admitted: 0.98}},
		{Name: "stale-answers", About: "a fifth of the answers are older ones", Lasts: 10 * sec, Holders: 10, Rules: strict(),
			demand: demand{times: 2}, acts: []act{{at: sec, do: weather(5*sec, func(n *network) { n.stale = 0.2 })}},
			bars: bars{from: 7 * sec, admitted: 0.98}},
		{Name: "foreign-answers", About: "a fifth of the answers give 1,000 tokens more: of older rules, to other asks, or of no rule",
			Lasts: 10 * sec, Holders: 10, Rules: strict(), demand: demand{times: 2},
			acts: []act{{at: sec, do: weather(5*sec, func(n *network) { n.foreign = 0.2 })}},
			bars: bars{from: 7 * sec, admitted: 0.98}},
	}
}

// processFaults are servers and coordinators that crash, pause and come and go.
func processFaults() []Load {
	return []Load{
		{Name: "kill", About: "3 of 10 servers crash each 2 s while they hold, and start again under their names", Lasts: 12 * sec,
			Holders: 10, Rules: thousand(), demand: demand{times: 2},
			acts: []act{{at: 2 * sec, every: 2 * sec, until: 8 * sec, do: kill(3, 100*ms)}},
			bars: bars{from: 9100 * ms, admitted: 0.98}},
		{Name: "restarts", About: "one server after the other starts again, at once, each 100 ms", Lasts: 10 * sec, Holders: 10,
			Rules: thousand(), demand: demand{times: 2}, acts: []act{{at: sec, every: 100 * ms, until: 6 * sec, do: kill(1, ms)}},
			bars: bars{from: 7 * sec, admitted: 0.98}},
		{Name: "pause", About: "3 of 20 servers stand still for 0.8 s, past their leases, each 2 s", Lasts: 12 * sec, Holders: 20,
			Rules: thousand(), demand: demand{times: 3}, acts: []act{{at: 2 * sec, every: 2 * sec, until: 8 * sec, do: pause(3, 800*ms)}},
			bars: bars{excused: woken(3), from: 9800 * ms, admitted: 0.98}},
		{Name: "coordinators", About: "one of three coordinators dies mid-call each second", Lasts: 12 * sec, Holders: 20,
			Rules: strict(), demand: demand{times: 2}, coordinators: 3,
			acts: []act{{at: sec, every: sec, until: 8 * sec, do: crash(20*ms, 500*ms)}}, bars: bars{from: 9500 * ms, admitted: 0.98}},
		{Name: "autoscale", About: "from 5 servers to 50 and back", Lasts: 30 * sec, Holders: 5, Rules: thousand(),
			demand: demand{times: 2}, acts: []act{{at: 8 * sec, do: scale(50)}, {at: 16 * sec, do: scale(5)}}, bars: bars{admitted: 0.98}},
	}
}

// storeFaults are stores that lose what they had, and clocks that are wrong.
func storeFaults() []Load {
	return []Load{
		{Name: "failover", About: "a replica takes over that does not know the last 50 ms, each 3 s", Lasts: 12 * sec, Holders: 10,
			Rules: thousand(), demand: demand{times: 2}, acts: []act{{at: 3 * sec, every: 3 * sec, do: failover(50 * ms)}},
			bars: bars{excused: lostWrites(), from: 10 * sec, admitted: 0.98}},
		{Name: "flush", About: "the store loses everything", Lasts: 10 * sec, Holders: 10, Rules: thousand(), demand: demand{times: 2},
			acts: []act{{at: 4500 * ms, do: flush}}, bars: bars{excused: leasedBefore(1), from: 5500 * ms, admitted: 0.98}},
		{Name: "clocks", About: "servers' clocks differ by 0.4 s and run 0.02 % wrong; the store's steps back by 1 h", Lasts: 12 * sec,
			Holders: 20, Rules: thousand(), demand: demand{times: 2}, clocks: 200 * ms, drift: 200,
			acts: []act{{at: 5 * sec, do: step(-3600 * sec)}}, bars: bars{from: 6 * sec, admitted: 0.98}},
		{Name: "clock-ahead", About: "the store's clock steps ahead by 1 h", Lasts: 12 * sec, Holders: 20, Rules: thousand(),
			demand: demand{times: 2}, acts: []act{{at: 5 * sec, do: step(3600 * sec)}},
			bars: bars{excused: refilled(), from: 6 * sec, admitted: 0.98}},
	}
}

// partitions part servers from all coordinators.
func partitions() []Load {
	return []Load{
		{Name: "outage", About: "no coordinator for 2 s, and the herd when one is back", Lasts: 12 * sec, Holders: 20, Rules: thousand(),
			demand: demand{times: 2}, acts: []act{{at: 4 * sec, do: weather(2*sec, func(n *network) { n.down = true })}},
			bars: bars{excused: local(20, 2), from: 7 * sec, admitted: 0.98}},
		{Name: "partition", About: "5 of 20 servers are cut off for 2 s", Lasts: 12 * sec, Holders: 20, Rules: thousand(),
			demand: demand{times: 2}, acts: []act{{at: 4 * sec, do: cutOff(5, 2*sec)}},
			bars: bars{excused: local(5, 2), from: 7 * sec, admitted: 0.98}},
		{Name: "flapping", About: "no coordinator for 100 ms, each 200 ms, for 4 s", Lasts: 12 * sec, Holders: 20, Rules: thousand(),
			demand: demand{times: 2}, acts: flaps(20), bars: bars{excused: local(20, 4), from: 7 * sec, admitted: 0.98}},
	}
}

// flaps cuts everyone off n times.
func flaps(n int) (acts []act) {
	for i := range n {
		acts = append(acts, act{at: 2*sec + 200*ms*time.Duration(i), do: weather(100*ms, func(n *network) { n.down = true })})
	}

	return acts
}

// changes change the limit under load.
func changes() []Load {
	return []Load{
		{Name: "raise", About: "from 1,000 a second to 10,000, told within 200 ms", Lasts: 10 * sec, Holders: 20, Rules: thousand(),
			demand: demand{times: 20}, acts: []act{{at: 4 * sec, do: rules(200*ms, "limit: 10000, window: 1s")}},
			bars: bars{from: 5200 * ms, admitted: 0.98}},
		{Name: "lower", About: "from 1,000 a second to 100, told within 200 ms", Lasts: 25 * sec, Holders: 20, Rules: thousand(),
			demand: demand{times: 2}, acts: []act{{at: 4 * sec, do: rules(200*ms, "limit: 100, window: 1s")}},
			bars: bars{excused: leasedBefore(1), from: 5200 * ms, admitted: 0.98}},
	}
}
