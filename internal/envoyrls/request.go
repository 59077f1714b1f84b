package envoyrls

import (
	"fmt"
	"slices"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/rule"
)

// The bounds of a request.
const (
	maxDescriptors = 128
	maxEntries     = 64       // of one descriptor
	maxRequest     = 64 << 10 // bytes
)

// fault is what is wrong with a request.
type fault struct{ field, message string }

// Error is the field and what is wrong with it.
func (f *fault) Error() string { return f.field + " " + f.message }

// request is a RateLimitRequest. Its texts are cut from one string, which is all that reading it allocates.
type request struct {
	domain      string
	descriptors []descriptor
	entries     []rule.Entry // of all descriptors
	hits        int64
	limits      bool // a descriptor brings one
}

// descriptor is a RateLimitDescriptor.
type descriptor struct {
	from, to int   // in request.entries
	hits     int64 // its own hits_addend,
	counts   bool  // if it has one
	negative bool  // it gives tokens back
	limit    override
}

// override is a limit that the request brings along.
type override struct {
	set        bool
	requests   int64
	unit       rlsv3.RateLimitResponse_RateLimit_Unit
	multiplier int64             // of the unit; 0 is 1
	limit      rule.RequestLimit // what that makes; not valid where it makes none
}

// clear forgets what the request refers to, and keeps its memory.
func (r *request) clear() {
	clear(r.entries)
	*r = request{descriptors: r.descriptors[:0], entries: r.entries[:0]}
}

// forgetLimits has the rules alone decide.
func (r *request) forgetLimits() {
	for i := range r.descriptors {
		r.descriptors[i].limit.limit = rule.RequestLimit{}
	}
}

// ignoresLimit says whether a descriptor brings a limit that changes nothing.
func (r *request) ignoresLimit() bool {
	return r.limits && slices.ContainsFunc(r.descriptors, func(d descriptor) bool { return d.limit.set && !d.limit.limit.Valid() })
}

// of is the i-th descriptor as a request for the limiter.
func (r *request) of(i int) leaseway.Request {
	d := &r.descriptors[i]
	req := leaseway.Request{Domain: r.domain, Entries: r.entries[d.from:d.to:d.to], Cost: min(r.hits, rule.MaxCost)}

	if d.limit.limit.Valid() {
		req.Limit = &d.limit.limit
	}

	switch {
	case d.negative:
		req.Peek = true // what was charged earlier is not known any more
	case d.counts:
		req.Cost, req.Peek = min(d.hits, rule.MaxCost), d.hits == 0
	}

	return req
}

// read reads a request in wire form; the fault is for one that nobody could answer.
func (r *request) read(message []byte) *fault {
	if len(message) > maxRequest {
		return &fault{"the request", fmt.Sprintf("has %d bytes; send at most %d", len(message), maxRequest)}
	}

	ok := eachField(string(message), func(f field) bool {
		switch {
		case f.is(1, protowire.BytesType):
			r.domain = f.text
		case f.is(2, protowire.BytesType):
			return r.readDescriptor(f.text)
		case f.is(3, protowire.VarintType):
			r.hits = int64(uint32(f.number)) // a uint32: protobuf drops the rest, too
		}

		return true
	})

	switch {
	case len(r.descriptors) > maxDescriptors:
		return &fault{"descriptors", fmt.Sprintf("has more than %d items; send fewer", maxDescriptors)}
	case !ok:
		return &fault{"the request", fmt.Sprintf("cannot be read, or has a descriptor of more than %d entries", maxEntries)}
	case r.domain == "":
		return &fault{"domain", "is empty; set it in Envoy's rate limit filter"}
	case len(r.descriptors) == 0:
		return &fault{"descriptors", "is empty; a request has one at least"}
	}

	return nil
}

func (r *request) readDescriptor(message string) bool {
	d := descriptor{from: len(r.entries)}

	ok := len(r.descriptors) <= maxDescriptors && eachField(message, func(f field) bool {
		switch {
		case f.is(1, protowire.BytesType):
			return len(r.entries)-d.from < maxEntries && r.readEntry(f.text)
		case f.is(2, protowire.BytesType):
			d.limit.set, r.limits = true, true

			return d.limit.read(f.text)
		case f.is(3, protowire.BytesType):
			d.counts = true

			return eachField(f.text, func(f field) bool {
				if f.is(1, protowire.VarintType) {
					d.hits = int64(min(f.number, rule.MaxCost))
				}

				return true
			})
		case f.is(4, protowire.VarintType):
			d.negative = f.number != 0
		}

		return true
	})

	d.to = len(r.entries)
	r.descriptors = append(r.descriptors, d)

	return ok
}

func (r *request) readEntry(message string) bool {
	var entry rule.Entry

	ok := eachField(message, func(f field) bool {
		switch {
		case f.is(1, protowire.BytesType):
			entry.Key = f.text
		case f.is(2, protowire.BytesType):
			entry.Value = f.text
		}

		return true
	})

	r.entries = append(r.entries, entry)

	return ok
}

// read reads a limit. One of an unknown unit, or of a window that is too long, is as none: the rules decide.
func (o *override) read(message string) bool {
	ok := eachField(message, func(f field) bool {
		switch {
		case f.is(1, protowire.VarintType):
			o.requests = int64(uint32(f.number)) // a uint32: protobuf drops the rest, too
		case f.is(2, protowire.VarintType):
			o.unit = rlsv3.RateLimitResponse_RateLimit_Unit(int32(f.number))
		case f.is(3, protowire.BytesType):
			return eachField(f.text, func(f field) bool {
				if f.is(1, protowire.VarintType) {
					o.multiplier = int64(uint32(f.number))
				}

				return true
			})
		}

		return true
	})

	o.limit = rule.RequestLimit{Requests: o.requests, Window: windowOf(o.unit, o.multiplier)}

	return ok
}
