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
)

// demand is a moving average of what a key's requests asked for.
type demand struct {
	at    int64   // of the last update, µs; 0: never
	spent int64   // S then
	rate  float64 // tokens a µs
	cost  int64   // of a request, as last seen
	want  int64   // balance to aim at
}

// update takes in the tokens that were asked for since the last call, and
// predicts the balance that the coming horizon needs.
func (d *demand) update(now, asked, ttl int64) {
	horizon := refreshPart * float64(ttl)

	if d.at == 0 {
		d.at, d.want = now, 0

		return
	}

	dt := float64(max(1, now-d.at))
	d.at = now
	d.rate += (1 - math.Exp(-dt/smooth)) * (float64(asked)/dt - d.rate)
	want := d.rate * horizon

	if dt < horizon {
		want = max(want, 2*float64(asked)) // a key that turns hot doubles at each ask
	}

	want = min(want, max(wantRequests*float64(d.cost), d.rate*fastHorizon))
	d.want = int64(math.Ceil(want))
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

// low is the balance at which a refill goes out.
func (d *demand) low() int64 {
	return max(d.want/lowPart, int64(d.rate*roundTrip))
}
