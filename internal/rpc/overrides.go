package rpc

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/grpc/codes"

	leasewayv1 "github.com/leaseway/leaseway/gen/leaseway/v1"
)

// maxTold is how many rules a message about changed overrides names; one about more is about all.
const maxTold = 100

// tellOverrides sends a holder what changes of overrides, until ctx ends, which the function
// that it returns waits for: call it when the rules are not watched any more.
func (h *coordinatorHandler) tellOverrides(ctx context.Context, send func(message any) error, cancel context.CancelCauseFunc) (end func()) {
	var telling sync.WaitGroup

	telling.Go(func() {
		defer func() {
			if p := recover(); p != nil { // outside of what guards the call
				cancel(because(codes.Unavailable, reasonPanic, fmt.Sprintf("a panic was recovered: %v", p)))
			}
		}()

		_ = h.coordinator.WatchOverrides(ctx, func(rules []string) {
			if len(rules) > maxTold {
				rules = nil
			}

			// An error has ended ctx.
			_ = send(&leasewayv1.WatchRulesResponse{Overrides: &leasewayv1.OverridesChanged{Rules: rules}})
		})
	})

	return func() {
		cancel(nil)
		telling.Wait()
	}
}

// overrideTellers are those who want to hear of changed overrides.
type overrideTellers struct {
	mu   sync.Mutex
	each []*func(rules []string)
}

// tell calls them all. Of a message that names too many rules all are meant.
func (o *overrideTellers) tell(rules []string) {
	if len(rules) > maxTold {
		rules = nil
	}

	o.mu.Lock()
	each := slices.Clone(o.each)
	o.mu.Unlock()

	for _, changed := range each {
		(*changed)(rules)
	}
}

// WatchOverrides calls changed when the coordinator whose rules Watch follows says that overrides of
// some rules have changed, until ctx ends; then it returns ctx's error. No rules are all rules. While no coordinator
// is watched nothing is told.
func (c *Client) WatchOverrides(ctx context.Context, changed func(rules []string)) error {
	o, mine := &c.overrides, &changed

	o.mu.Lock()
	o.each = append(o.each, mine)
	o.mu.Unlock()

	defer func() {
		o.mu.Lock()
		defer o.mu.Unlock()

		o.each = slices.DeleteFunc(o.each, func(other *func([]string)) bool { return other == mine })
	}()

	<-ctx.Done()

	return ctx.Err()
}
