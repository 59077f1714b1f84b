package envoyrls

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/leasewayhttp"
)

// maxKept is how much memory of one call is kept for the next, in bytes.
const maxKept = 64 << 10

// call is one ShouldRateLimit: its request, what was decided, and its response in wire form. It reads and writes itself.
type call struct {
	door      *Door
	next      grpc.UnaryHandler // answers it
	request   request
	fault     *fault
	asked     []leaseway.Request  // of several descriptors
	decisions []leaseway.Decision // one for each descriptor
	fields    []leasewayhttp.Field
	wire      []byte
}

// Hear reads the request. What is wrong with it is for the answer. A panic is an error, since gRPC reads outside of all that
// recovers others.
func (c *call) Hear(message []byte) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = status.Errorf(codes.Internal, "the request cannot be read: %v", cause)
		}
	}()

	c.fault = c.request.read(message)

	return nil
}

// Wire is the response.
func (c *call) Wire() []byte { return c.wire }

// Sent gives the call's memory to another one.
func (c *call) Sent() {
	if cap(c.wire) > maxKept || cap(c.request.entries) > maxKept/32 {
		return
	}

	clear(c.asked)
	clear(c.decisions)
	clear(c.fields)
	c.request.clear()

	c.asked = c.asked[:0]
	c.fault, c.decisions, c.fields, c.wire = nil, c.decisions[:0], c.fields[:0], c.wire[:0]
	c.door.calls.Put(c)
}

// answer decides the request and writes the response.
func (c *call) answer(ctx context.Context) (*call, error) {
	if c.fault != nil {
		return nil, status.Error(codes.InvalidArgument, c.fault.Error())
	}

	if c.request.limits && !c.door.limiter.Rules().HasDomain(c.request.domain) {
		c.request.forgetLimits() // nobody is limited in a domain that no rule names
	}

	refused := c.decide(ctx)

	if err := ctx.Err(); err != nil {
		// Nobody waits for the answer any more.
		c.giveBack(refused) //nolint:contextcheck // what is given back is sent later, whoever gave it

		return nil, status.FromContextError(err).Err()
	}

	c.write(refused)

	return c, nil
}

// decide decides all descriptors; refused says whether one of them was.
func (c *call) decide(ctx context.Context) (refused bool) {
	n := len(c.request.descriptors)
	if n == 1 {
		c.decisions = append(c.decisions, c.door.check.Decide(ctx, c.request.of(0), false))

		return !c.decisions[0].Allowed
	}

	for i := range n {
		c.asked = append(c.asked, c.request.of(i))
	}

	if c.door.charge == ChargeAll {
		c.decisions = c.door.check.DecideEach(ctx, c.asked, c.decisions)
	} else {
		c.decisions = c.door.check.DecideTogether(ctx, c.asked, c.decisions)
	}

	for i := range c.decisions {
		refused = refused || !c.decisions[i].Allowed
	}

	return refused
}

// giveBack returns what was charged: of descriptors that pass together nothing, if one of them was refused, and what one that
// was to be delayed had taken is back by then.
func (c *call) giveBack(refused bool) {
	if refused && c.door.charge != ChargeAll {
		return
	}

	for i := range c.decisions {
		c.door.limiter.Refund(c.decisions[i])
	}
}

// shown is the decision that the response speaks of: of those that refuse the one that does for the longest, else the one
// with the least left of its capacity. It is nil when no rule matched.
func (c *call) shown(refused bool) (shown *leaseway.Decision) {
	for i := range c.decisions {
		switch d := &c.decisions[i]; {
		case d.Allowed == refused, d.Allowed && !d.Matched():
		case shown == nil,
			refused && longer(d.RetryAfter, shown.RetryAfter),
			!refused && float64(d.Remaining)*float64(shown.Limit) < float64(shown.Remaining)*float64(d.Limit):
			shown = d
		}
	}

	return shown
}

// longer reports whether a refusal says to wait for longer than another; 0 is for ever.
func longer(a, b time.Duration) bool { return b != 0 && (a == 0 || a > b) }
