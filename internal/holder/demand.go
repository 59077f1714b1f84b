package holder

import (
	"math"

	"github.com/leaseway/leaseway/internal/rate"
)

// Sizing, see docs/decisions: a refill should last for about wantRequests
// requests, or for refreshPart of the TTL when the key is slower than that, and
// at least for fastHorizon when it is faster.
const (
	wantRequests = 300
	fastHorizon  = 20_000 // µs
	smooth       = 300_000
	refreshPart  = 0.6
	lowPart      = 4    // a refill goes out when a quarter is left
	holdFrom     = 4    // fewer predicted requests than this are taken one by one
	smallBurst   = 8    // a burst below it is never leased
	perHolder    = 4    // nor one below this for each live holder,
	largeBurst   = 100  // unless it is at least this large
	roundTrip    = 4000 // µs that a refill may take

	longLeast    = 8     // predicted requests that make a long lease worth while
	longRequests = 3_000 // that it is for at most
	longGrowth   = 8     // times what was asked for since the last ask: no more, since it may lie for long

	slidingLowPart = 8   // of what a lease has of a sliding window, instead of lowPart
	idlePart       = 1.0 // times what is to be spent: what is above it others may need
)

// demand is a moving average of what a key's requests asked for.
type demand struct {
	rate float32 // tokens a µs
	cost float32 // tokens of a request, as last seen
	want float32 // balance to aim at, whole tokens

	holders uint32 // that have a lease, as last heard
	unsized uint32 // tokens that were told, or spent of a lease that ended, and were not taken in yet
}

// later has n tokens be taken in with the next ask: those that were spent after all others were, if any.
func (d *demand) later(n int64) {
	d.unsized = uint32(min(math.MaxUint32, int64(d.unsized)+max(0, n)))
}

// sized returns when the demand was last taken in, µs; 0: never.
func (l *Lease) sized() int64 {
	if s := l.sent(); s != nil {
		return s.sized
	}

	return l.heard.at
}

// update takes in the tokens that were asked for in the last dt µs, and
// predicts the balance that the coming horizon needs.
func (d *demand) update(dt float64, asked, ttl int64) {
	horizon := refreshPart * float64(ttl)

	perMicro := float64(d.rate)
	perMicro += (1 - math.Exp(-dt/smooth)) * (float64(asked)/dt - perMicro)
	want := perMicro * horizon

	if dt < horizon {
		want = max(want, 2*float64(asked)) // a key that turns hot doubles at each ask
	}

	want = min(want, max(wantRequests*float64(d.cost), perMicro*fastHorizon))
	d.rate, d.want = float32(perMicro), float32(math.Ceil(want))
}

// holds reports whether a key of this demand is leased at all, with n live
// holders; otherwise its requests are taken one by one. A small burst is leased
// only if it comes back fast: what one holder has of a slow one, the others wait for.
func (d *demand) holds(b rate.Bucket, n, ttl int64) bool {
	if d.want < holdFrom*d.cost || b.Burst < smallBurst {
		return false
	}

	fast := float64(b.P)*holdFrom <= refreshPart*float64(ttl)*float64(b.Q)

	return b.Burst >= largeBurst || b.Burst >= perHolder*n && fast
}

// rest is what a window that ends in left µs will still need, and as much more as
// chance may bring, since an ask for the last few tokens costs as much as any other.
func (d *demand) rest(left int64) int64 {
	rest := float64(d.rate) * float64(left)

	return int64(rest+math.Sqrt(rest*float64(d.cost))) + int64(d.cost)
}

// low is the balance at which a refill goes out.
func (d *demand) low() int64 {
	return int64(max(d.want/lowPart, d.rate*roundTrip))
}

// want updates the demand and returns the balance to ask for, and whether that is to live long.
func (l *Lease) want(now, spent int64, need Need) (balance int64, lasts bool) {
	gone, since, quiet := l.quiet(now, spent)
	asked := spent - l.told + int64(l.demand.unsized) + l.takeUnmet()
	l.demand.unsized = 0

	for _, n := range need.Takes {
		asked += n
		l.demand.cost = float32(n)
	}

	var needs int64
	for _, n := range need.Needs {
		needs += n
		l.demand.cost = float32(n)
	}

	l.demand.cost = max(1, l.demand.cost)

	if at := l.sized(); at != 0 {
		dt := now - at

		if quiet && len(need.Takes)+len(need.Needs) == 0 {
			dt, asked = gone, since // what was before says nothing any more
			l.demand.rate = float32(since) / float32(gone)
		}

		l.demand.update(float64(max(1, dt)), asked, need.TTL)
	}

	if need.Return {
		return 0, false
	}

	t := l.heard.terms()
	holders := max(1, need.Holders, int64(l.demand.holders))

	var long int64
	if !need.Brief {
		long = l.lasting(now, asked, holders)
	}

	if l.Known() && t.Algorithm.Leases() && l.demand.holds(t.Bucket, holders, t.TTL) {
		want := int64(l.demand.want)
		if end := l.heard.counted().end; t.Algorithm.Windowed() && now < end {
			want = min(want, l.demand.rest(end-now)) // what is not spent in its window is lost
		}

		return needs + max(want, long), long >= want && long > 0
	}

	return needs + long, long > 0
}

// lasting returns the balance that the key will use while a long lease lives, if it
// is worth one, and is a small part of a bucket that has plenty: with that many live
// holders, since the key may be asked for by each.
func (l *Lease) lasting(now, asked, holders int64) int64 {
	t, cost := l.heard.terms(), int64(l.demand.cost)
	size := t.LongSize(holders)

	if size < longLeast*cost || !t.Plenty(l.avail(now)) {
		return 0
	}

	lives := float64(t.Long()) - (1-refreshPart)*float64(t.TTL)
	want := min(int64(float64(l.demand.rate)*lives), max(longGrowth*asked, l.balance.Load()), longRequests*cost, size)

	if want < longLeast*cost {
		return 0
	}

	return want
}
