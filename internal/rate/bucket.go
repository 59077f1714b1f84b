// Package rate holds the arithmetic of Leaseway's algorithms, in exact integers.
//
// A token bucket is the Generic Cell Rate Algorithm (ITU-T I.371, appendix I):
// its whole state is one instant, the theoretical arrival time (tat), at which
// the bucket will be full again. The time of one token is a reduced fraction
// of microseconds that is never rounded, so a limit of 7 or of 999,999 a second
// does not drift, and Go and a Lua script agree to the last bit: every
// intermediate value is an integer below 2^53.
//
// The package is pure: time comes in as an argument, in microseconds. Its
// neighbours above are the ledger (the store's side of a lease) and the holder
// (the server's side).
package rate

import (
	"errors"
	"fmt"
	"math/bits"
)

// The bounds that keep every product below 2^53, the integers that a float64 holds exactly.
const (
	// MaxProduct bounds burst × P, the time of a full bucket in units of 1/Q µs.
	MaxProduct = 1 << 51
	// MaxLimit bounds the tokens of one window.
	MaxLimit = 1_000_000_000_000
)

// Errors of NewBucket; each is wrapped with the values that caused it.
var (
	ErrLimit  = errors.New("limit out of range")
	ErrWindow = errors.New("window out of range")
	ErrBurst  = errors.New("burst out of range")
	ErrSpan   = errors.New("burst × window is too large to be counted exactly")
)

// Bucket is a token bucket's parameters: one token takes P/Q microseconds to
// refill (P/Q is reduced), and Burst tokens fit.
type Bucket struct {
	P, Q  int64
	Burst int64
}

// NewBucket returns the bucket that refills limit tokens every window
// microseconds and holds burst of them.
func NewBucket(limit, window, burst int64) (Bucket, error) {
	switch {
	case limit < 1 || limit > MaxLimit:
		return Bucket{}, fmt.Errorf("%w: %d is not within 1 and %d", ErrLimit, limit, int64(MaxLimit))
	case window < 1:
		return Bucket{}, fmt.Errorf("%w: %d µs is not positive", ErrWindow, window)
	case burst < 1:
		return Bucket{}, fmt.Errorf("%w: %d is below 1", ErrBurst, burst)
	}

	d := gcd(window, limit)
	b := Bucket{P: window / d, Q: limit / d, Burst: burst}

	if hi, lo := bits.Mul64(uint64(b.Burst), uint64(b.P)); hi != 0 || lo > MaxProduct {
		return Bucket{}, fmt.Errorf("%w: burst %d at one token each %d/%d µs", ErrSpan, burst, b.P, b.Q)
	}

	return b, nil
}

// Average returns the bucket of limit tokens every window microseconds for what
// needs no exactness: where NewBucket cannot count it exactly, a token takes a
// whole number of microseconds, rounded up.
func Average(limit, window, burst int64) (Bucket, error) {
	b, err := NewBucket(limit, window, burst)
	if !errors.Is(err, ErrSpan) {
		return b, err
	}

	return Bucket{P: min((window+limit-1)/limit, MaxProduct/burst), Q: 1, Burst: burst}, nil
}

// Share returns the bucket of one of n holders that together admit num/den of
// b: its rate and its burst are b's × num/den/n, with room for one token at
// least. A token never takes longer than the integers can say, which is years.
func (b Bucket) Share(num, den, n int64) Bucket {
	p, q := mulCap(mulCap(b.P, n), den), mulCap(b.Q, num)
	d := gcd(p, q)
	s := Bucket{P: p / d, Q: q / d, Burst: max(1, mulDiv(b.Burst, num, mulCap(den, n)))}
	s.P = min(s.P, MaxProduct/s.Burst)

	return s
}

// Add returns t moved by the time of n tokens; n may be negative. The size of
// n is at most the burst.
func (b Bucket) Add(t Time, n int64) Time {
	units := t.Frac + n*b.P
	micros := floorDiv(units, b.Q)

	return Time{Micros: t.Micros + micros, Frac: units - micros*b.Q}
}

// Longer reports whether a span of micros is longer than the time of n tokens; either may be negative.
func (b Bucket) Longer(micros, n int64) bool {
	size := micros
	if size < 0 {
		size = -size
	}

	if hi, lo := bits.Mul64(uint64(size), uint64(b.Q)); hi != 0 || lo > 2*MaxProduct {
		return micros > 0
	}

	return micros*b.Q > n*b.P
}

// Avail returns how many whole tokens the bucket holds at now, when it is full at tat.
func (b Bucket) Avail(now int64, tat Time) int64 {
	used, over := b.units(now, tat)
	if over {
		return 0
	}

	return (b.Burst*b.P - used) / b.P
}

// Free returns how many whole tokens the bucket holds when it is full in span µs, from now on; of
// the zero bucket none.
func (b Bucket) Free(span int64) int64 {
	if span <= 0 || b.P <= 0 {
		return b.Burst
	}

	if b.Q == 1 { // as for most limits
		return max(0, b.Burst-(span+b.P-1)/b.P)
	}

	hi, units := bits.Mul64(uint64(span), uint64(b.Q))
	if hi != 0 || units > MaxProduct {
		return 0
	}

	return max(0, b.Burst-(int64(units)+b.P-1)/b.P)
}

// Take removes n tokens if the bucket holds them, and returns the new tat and whether it did.
func (b Bucket) Take(now int64, tat Time, n int64) (Time, bool) {
	if n > b.Avail(now, tat) {
		return tat, false
	}

	return b.Add(tat.Max(At(now)), n), true
}

// Wait returns the microseconds, rounded up, until the bucket holds n tokens:
// 0 if it does now, and -1 if it never will because n is above the burst.
func (b Bucket) Wait(now int64, tat Time, n int64) int64 {
	if n > b.Burst {
		return -1
	}

	at := b.Add(tat, n-b.Burst)
	if at.Frac > 0 {
		at.Micros++
	}

	return max(0, at.Micros-now)
}

// Full returns the microseconds, rounded up, until the bucket is full.
func (b Bucket) Full(now int64, tat Time) int64 { return b.Wait(now, tat, b.Burst) }

// Rebase returns the tat that keeps, under b, the level in tokens that old had
// at now: raising a burst of 10 to 20 makes exactly 10 more available. Part
// tokens round up to the next 1/Q µs, so a change never gives any away.
func (b Bucket) Rebase(now int64, tat Time, old Bucket) Time {
	if !At(now).Less(tat) {
		return At(min(now, tat.Micros)) // full; the fraction was one of old's
	}

	if b.P == old.P && b.Q == old.Q {
		return tat // another burst moves the ceiling, not the level
	}

	// A level is at most old's burst, unless it was lowered before: what is
	// beyond is kept as far as the integers go.
	micros := min(tat.Micros-now, (1<<53)/old.Q)
	units := micros*old.Q + tat.Frac
	whole, part := units/old.P, units%old.P
	whole = min(whole, MaxProduct/b.P)
	rest := mulDivUp(part, b.P, old.P)
	total := whole*b.P + rest

	return Time{Micros: now + total/b.Q, Frac: total % b.Q}
}

// units returns the level at now in 1/Q µs, and whether it is over the burst.
func (b Bucket) units(now int64, tat Time) (used int64, over bool) {
	if !At(now).Less(tat) {
		return 0, false
	}

	full := b.Add(At(now), b.Burst)
	if full.Less(tat) {
		return 0, true
	}

	return (tat.Micros-now)*b.Q + tat.Frac, false
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}

	return a
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 && a < 0 {
		q--
	}

	return q
}

// mulCap returns a × b for positive values, held at MaxProduct.
func mulCap(a, b int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi != 0 || lo > MaxProduct {
		return MaxProduct
	}

	return int64(lo)
}

// mulDiv returns ⌊a × b / c⌋ for values of which the result fits.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, _ := bits.Div64(hi, lo, uint64(c))

	return int64(q)
}

// mulDivUp returns ⌈a × b / c⌉ for a < c.
func mulDivUp(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))

	q, r := bits.Div64(hi, lo, uint64(c))
	if r > 0 {
		q++
	}

	return int64(q)
}
