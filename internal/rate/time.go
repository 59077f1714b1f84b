package rate

// Time is an instant (or a span) of Micros + Frac/Q microseconds, where Q is
// that of the bucket it belongs to and 0 <= Frac < Q. Instants of one bucket compare exactly.
type Time struct {
	Micros int64
	Frac   int64
}

// At returns the instant of a whole number of microseconds.
func At(micros int64) Time { return Time{Micros: micros} }

// Less reports whether t is before u.
func (t Time) Less(u Time) bool {
	return t.Micros < u.Micros || t.Micros == u.Micros && t.Frac < u.Frac
}

// Max returns the later of t and u.
func (t Time) Max(u Time) Time {
	if t.Less(u) {
		return u
	}

	return t
}

// Min returns the earlier of t and u.
func (t Time) Min(u Time) Time {
	if u.Less(t) {
		return u
	}

	return t
}

// Shift returns t moved by a whole number of microseconds.
func (t Time) Shift(micros int64) Time {
	return Time{Micros: t.Micros + micros, Frac: t.Frac}
}
