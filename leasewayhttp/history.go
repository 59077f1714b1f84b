package leasewayhttp

// The history of a host is two minutes long, as in the SRE book, and slides by five seconds.
const (
	historySpans = 24
	historySpan  = 5_000_000 // µs
)

// tally counts what happened in a time.
type tally struct {
	requests int64 // attempts, whether they were sent or held back
	accepts  int64 // of them that the server did not refuse
	firsts   int64 // first attempts that were sent
	retries  int64 // that were paid for
}

func (t *tally) add(o tally) {
	t.requests += o.requests
	t.accepts += o.accepts
	t.firsts += o.firsts
	t.retries += o.retries
}

// history is what happened to the requests to one host lately. Times are µs, and never step back.
type history struct {
	spans [historySpans]tally
	last  int64 // the latest span, counted from time 0
}

// at returns the tally of the span of now, and forgets those that are over two minutes old.
func (h *history) at(now int64) *tally {
	span := max(h.last, now/historySpan)
	for i := max(h.last+1, span-historySpans+1); i <= span; i++ {
		h.spans[i%historySpans] = tally{}
	}
	h.last = span
	return &h.spans[span%historySpans]
}

// sum is everything of the last two minutes.
func (h *history) sum(now int64) (all tally) {
	h.at(now)
	for i := range h.spans {
		all.add(h.spans[i])
	}
	return all
}

// fewest is of how many requests lately nothing is concluded: one refusal of one request is no overload.
const fewest = 20

// throttled is the share of requests that are to be held back, when a server accepts fewer than one in k:
//
//	max(0, (requests - k·accepts) / (requests + 1))
//
// It is client-side throttling of "Handling Overload", Site Reliability Engineering (Beyer et al., O'Reilly 2016), chapter
// 21, equation 21-1; but of few requests nothing is held back. Some always go through, so that it is noticed when the
// server recovers.
func (t *tally) throttled(k float64) float64 {
	if t.requests < fewest {
		return 0
	}
	return max(0, (float64(t.requests)-k*float64(t.accepts))/float64(t.requests+1))
}

// canPay says whether one more retry keeps them to a ratio of first attempts, and floor more.
func (t *tally) canPay(ratio, floor float64) bool {
	return float64(t.retries+1) <= ratio*float64(t.firsts)+floor
}
