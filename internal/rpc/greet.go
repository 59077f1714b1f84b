package rpc

import (
	"context"
	"sync"
)

// A Greeting is what one coordinator answers to a batch that asks for nothing.
type Greeting struct {
	URL     string
	Store   uint64 // which data it counts in
	Version uint64 // of its rules
	Misfit  Misfit // why it will never answer as things are set; 0 if it may
	Err     error  // why there is no answer; nil if there is
}

// Greet calls every coordinator once and changes nothing; the greetings are in the order of the URLs. It is for those who
// look whether coordinators and settings go together.
func (c *Client) Greet(ctx context.Context) []Greeting {
	list := make([]Greeting, len(c.replicas))

	var calls sync.WaitGroup

	for i, r := range c.replicas {
		calls.Go(func() {
			g := &list[i]
			g.URL = r.url

			answers, err := c.greet(ctx, r, true)
			if err != nil {
				g.Err, g.Misfit = err, r.misfit(ctx, err)

				return
			}

			g.Store, g.Version = answers.Store, answers.Version
		})
	}

	calls.Wait()

	return list
}
