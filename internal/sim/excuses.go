package sim

// What may pass above the limit, and why: the exceptions that the documentation lists.

// local is for so many servers without a coordinator for so long: each has four
// fifths of its share of the limit, of the burst and of the rate.
func local(servers, seconds int64) excuse {
	return excuse{"decided without a coordinator", func(f *fleet) int64 {
		l, all := f.tally.first(), int64(f.load.Holders)
		burst := servers * max(1, 4*l.tokens/5/all)

		return min(f.tally.local, burst+4*l.perSecond()*seconds*servers/5/all)
	}}
}

// woken is for servers that wake from a pause past their leases: 64 tokens each, until they look at the clock.
func woken(servers int64) excuse {
	return excuse{"spent on waking, before the first look at the clock", func(*fleet) int64 { return 64 * servers }}
}

// lostWrites is for what the store gave and forgot.
func lostWrites() excuse {
	return excuse{"given and forgotten by the store", func(f *fleet) int64 { return f.tally.lost }}
}

// leasedBefore is for leases that a store forgot, or that an older rule gave: four fifths of the burst at most.
func leasedBefore(times int64) excuse {
	return excuse{"leased before", func(f *fleet) int64 { return times * 4 * f.tally.first().tokens / 5 }}
}

// refilled is for a store whose clock went ahead: as much as had refilled by then.
func refilled() excuse {
	return excuse{"refilled by a clock that went ahead", func(f *fleet) int64 { return f.tally.first().tokens }}
}

// first is the first rule's limit at the beginning.
func (t *tally) first() limit { return t.changes[0][0].limit }

// perSecond is the limit's tokens in a second.
func (l limit) perSecond() int64 {
	if l.p > 0 {
		return 1_000_000 * l.q / l.p
	}

	return 1_000_000 * l.tokens / l.length
}
