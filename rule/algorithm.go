package rule

// Algorithm says how a budget refills. The values are those of internal/rate.
type Algorithm uint8

const (
	// TokenBucket refills continuously, up to the burst.
	TokenBucket Algorithm = iota
	// FixedWindow counts from one edge to the next and starts anew there; only it has windows of a calendar.
	FixedWindow
	// SlidingWindow counts in windows, and weighs the previous one by what is left of it.
	SlidingWindow
	// SlidingLog remembers each admission for one window.
	SlidingLog
	// LeakyBucket lets requests out at an even pace, and delays up to the burst of those that come faster.
	LeakyBucket
	// Concurrency bounds how many requests are in flight at a time; it has no window, and Rule.Queue says who waits.
	Concurrency
)

// String is the algorithm as the document writes it.
func (a Algorithm) String() string { return word(algorithmWords(), int(a)) }

// HasBurst says whether the capacity can be another than the limit: a window admits its limit, and no more.
func (a Algorithm) HasBurst() bool { return a == TokenBucket || a == LeakyBucket }

func algorithmWords() []string {
	return []string{"token_bucket", "fixed_window", "sliding_window", "sliding_log", "leaky_bucket", "concurrency"}
}
