package coordinator

import (
	"context"
	"sync"
	"time"
)

const (
	// newsDelay is how long a change waits for others, and for the other coordinators of the store to hear of it.
	newsDelay = 200 * time.Millisecond
	// maxNews is how many rules are told apart; more at once are all rules.
	maxNews = 100
)

// overrideNews is of which rules overrides have changed, for those who watch. The zero overrideNews is ready.
type overrideNews struct {
	mu    sync.Mutex
	last  uint64            // how often anything has changed
	rules map[string]uint64 // what last was when those of a rule did
	all   uint64            // and when those of any rule may have
	next  chan struct{}     // closed at the next change; nil while nobody waits
}

// note has all watchers hear of a change; no rules are all.
func (n *overrideNews) note(rules map[string][]string) {
	n.mu.Lock()
	defer n.mu.Unlock()

	n.last++

	for id := range rules {
		if n.rules == nil {
			n.rules = make(map[string]uint64)
		}

		n.rules[id] = n.last
	}

	if len(rules) == 0 || len(n.rules) > maxNews {
		n.rules, n.all = nil, n.last
	}

	if n.next != nil {
		close(n.next)
		n.next = nil
	}
}

// after returns what has changed since: some rules, all if there are none, or nothing
// as long as last is since. more is closed when there is more.
func (n *overrideNews) after(since uint64) (rules []string, last uint64, more <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()

	if n.next == nil {
		n.next = make(chan struct{})
	}

	if n.all <= since {
		for id, at := range n.rules {
			if at > since {
				rules = append(rules, id)
			}
		}
	}

	return rules, n.last, n.next
}

// WatchOverrides calls changed when overrides of some rules have changed, with the ids of at
// most 100; none are all rules. It does so five times a second at most, until ctx ends; then it
// returns ctx's error. What changed before is not told.
func (o *Overrides) WatchOverrides(ctx context.Context, changed func(rules []string)) error {
	_, known, more := o.news.after(0)

	delay := time.NewTimer(newsDelay)
	defer delay.Stop()

	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-more:
		}

		delay.Reset(newsDelay)

		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-delay.C:
		}

		var rules []string

		rules, known, more = o.news.after(known)
		changed(rules)
	}
}
