package rule

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/leaseway/leaseway/internal/rate"
)

// maxLog is the largest limit of a sliding log, which stores each admission of a window: 10,000 of them are some 160 KB for
// one key, read and written back by every request.
const maxLog = 10_000

// budget reads limit, window, burst and cost; the algorithm is known by now.
func (o *object) budget(r *Rule) {
	if v, ok := o.get("cost"); ok {
		r.Cost = v.cost()
	}
	o.queue(r)
	if r.Block {
		o.blocked(r)
		return
	}
	if r.Algorithm == Concurrency {
		o.inFlight(r)
		return
	}
	r.Limit = o.limit()
	o.ruleWindow(r)
	if r.Burst = o.burstOf(r.Algorithm); r.Burst == 0 {
		r.Burst = r.Limit
	}
	o.requireRate()
	o.countable(r.Algorithm, Quota{Limit: r.Limit, Window: r.Window, Burst: r.Burst})
}

// blocked reads a rule that refuses everything: a limit beside that would be a contradiction.
func (o *object) blocked(r *Rule) {
	o.blockedLimit()
	o.ruleWindow(r)
}

// blockedLimit refuses a limit and a burst beside block.
func (o *object) blockedLimit() {
	if v, ok := o.get(limitKey); ok {
		if n, ok := v.integer(0, rate.MaxLimit); ok && n != 0 {
			v.fail("block: true refuses every request, so that the limit would mean nothing", "leave out limit or block")
		}
	}
	if v, ok := o.get(burstKey); ok {
		v.fail("block: true refuses every request, so that the burst would mean nothing", "leave out burst or block")
	}
}

// requireRate reports a limit or a window that is not set.
func (o *object) requireRate() {
	if o.lacks(limitKey) {
		o.fail("has no limit", "write limit: and the tokens of one window")
	}
	if o.lacks(windowKey) && o.lacks("windowSec") {
		o.fail("has no window", "write window: 1m, or another span")
	}
}

// limit reads a limit; 0 when there is none, or an error.
func (o *object) limit() int64 {
	v, ok := o.get(limitKey)
	if !ok {
		return 0
	}
	if v.node.Value == "0" {
		v.fail("0 would refuse every request", "write 1 or more; a rule that is to refuse everything says block: true and no limit")
		return 0
	}
	n, _ := v.integer(1, rate.MaxLimit)
	return n
}

// burstOf reads the burst under an algorithm; 0 when there is none, or an error.
func (o *object) burstOf(a Algorithm) int64 {
	if a.HasBurst() {
		return o.burst()
	}
	if v, ok := o.get(burstKey); ok {
		why := "a window admits its limit"
		if a == Concurrency {
			why = "as many requests as the limit may be in flight"
		}
		v.fail("burst is for buckets; "+why, "leave it out, or write algorithm: token_bucket")
	}
	return 0
}

// burst reads a burst; 0 when there is none, or an error.
func (o *object) burst() int64 {
	v, ok := o.get(burstKey)
	if !ok {
		return 0
	}
	if n, err := strconv.ParseInt(v.node.Value, 10, 64); err == nil && n < 1 && v.node.ShortTag() == "!!int" {
		v.fail(v.node.Value+" leaves no room for a request", "write a whole number from 1 on, or leave it out: then it is the limit")
		return 0
	}
	n, _ := v.integer(1, math.MaxInt64)
	return n
}

// window reads window or windowSec; 0 when there is neither, or an error.
func (o *object) window() time.Duration {
	v, text := o.get(windowKey)
	sec, number := o.get("windowSec")
	switch {
	case text && number:
		sec.fail("says again what window says", "keep one of them")
	case text:
		return v.duration(minWindow, maxWindow)
	case number:
		n, _ := sec.integer(1, int64(maxWindow/time.Second))
		return time.Duration(n) * time.Second
	}
	return 0
}

// countable refuses a quota that cannot be counted exactly. It has nothing to say while a part has an error of its own.
func (o *object) countable(a Algorithm, q Quota) {
	if q.Limit < 1 || q.Window < minWindow || q.Burst < 1 {
		return
	}
	field, message, fix := uncountable(a, q)
	switch {
	case message == "":
	case field == limitKey:
		o.last(limitKey).fail(message, fix)
	default:
		o.last(limitKey, windowKey, "windowSec", burstKey).fail(message, fix)
	}
}

// uncountable says which part of a quota keeps it from being counted exactly, and why; no message if none does.
func uncountable(a Algorithm, q Quota) (field, message, fix string) {
	if a == SlidingLog && q.Limit > maxLog {
		return limitKey, fmt.Sprintf("%d is too much for a sliding_log, which stores every admission", q.Limit),
			fmt.Sprintf("write at most %d, or algorithm: sliding_window, which stores two counts", maxLog)
	}
	if !a.HasBurst() {
		return "", "", ""
	}
	_, err := rate.NewBucket(q.Limit, q.Window.Microseconds(), q.Burst)
	switch {
	case err == nil:
		return "", "", ""
	case errors.Is(err, rate.ErrSpan):
		return burstKey, err.Error(),
			"lower burst, shorten the window, or choose a limit that divides the window better, such as a round one"
	}
	return burstKey, err.Error(), "choose another value"
}

// last is the last of the named entries that is there, for an error about several; else the whole.
func (o *object) last(names ...string) value {
	at := o.value
	for _, name := range names {
		if v, ok := o.entries[name]; ok {
			at = v
		}
	}
	return at
}
