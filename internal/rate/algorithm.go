package rate

// Algorithm says how a budget comes back. Its values are part of the wire and of snapshots.
type Algorithm uint8

// The algorithms.
const (
	// TokenBucket refills continuously, up to the burst.
	TokenBucket Algorithm = iota
	// FixedWindow counts from one edge to the next and starts anew there.
	FixedWindow
	// SlidingWindow counts like FixedWindow, and weighs the previous window by what is left of it.
	SlidingWindow
	// SlidingLog remembers every admission for one window.
	SlidingLog
	// LeakyBucket lets one token out each T, and delays what comes faster.
	LeakyBucket
	// Concurrency bounds what is in flight, not what comes in a time: see package slots.
	Concurrency
)

// Leases reports whether tokens can be handed out in advance; otherwise each
// request asks the store, since its answer depends on the very moment.
func (a Algorithm) Leases() bool { return a <= SlidingWindow }

// Windowed reports whether the algorithm counts in windows with edges.
func (a Algorithm) Windowed() bool { return a == FixedWindow || a == SlidingWindow }
