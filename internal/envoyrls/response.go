package envoyrls

import (
	"math"
	"net/http"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/leasewayhttp"
)

// The numbers of the fields that a response has, by message.
const (
	responseCode, responseStatus, responseHeader, responseBody, responseMetadata = 1, 2, 3, 5, 6

	statusCode, statusLimit, statusRemaining, statusReset = 1, 2, 3, 4

	limitRequests, limitUnit, limitName, limitMultiplier = 1, 2, 3, 4

	headerKey, headerValue = 1, 2 // of a HeaderValue
	secondsField, nanos    = 1, 2 // of a Duration
	wrapped                = 1    // of a UInt32Value
	structField            = 1    // of a Struct: an entry of its map
	mapKey, mapValue       = 1, 2 // of that entry
	stringValue            = 3    // of a Value
)

// write makes the response of what was decided.
func (c *call) write(refused bool) {
	b := appendUint(c.wire[:0], responseCode, code(!refused))

	for i := range c.decisions {
		b = appendStatus(b, &c.decisions[i])
	}

	if shown := c.shown(refused); shown != nil {
		var body []byte

		c.fields, body = c.door.says.AppendFields(c.fields[:0], shown)

		for i := range c.fields {
			var at int

			b, at = begin(b, responseHeader)
			b = appendText(b, headerKey, c.fields[i].Name)
			b = end(appendText(b, headerValue, c.fields[i].Value), at)
		}

		if len(body) > 0 {
			b = protowire.AppendBytes(protowire.AppendTag(b, responseBody, protowire.BytesType), body)
		}

		b = c.appendMetadata(b, shown)
	} else if c.request.ignoresLimit() || c.shadowDenied() != "" {
		b = c.appendMetadata(b, &leaseway.Decision{})
	}

	c.wire = b
}

// code is OK or OVER_LIMIT.
func code(allowed bool) uint64 {
	if allowed {
		return uint64(rlsv3.RateLimitResponse_OK)
	}

	return uint64(rlsv3.RateLimitResponse_OVER_LIMIT)
}

// appendStatus appends a descriptor's status. One that no rule matched is OK, and says nothing else.
func appendStatus(b []byte, d *leaseway.Decision) []byte {
	b, at := begin(b, responseStatus)
	b = appendUint(b, statusCode, code(d.Allowed))

	if d.Matched() {
		if d.Window > 0 {
			b = appendLimit(b, d)
		}

		b = appendUint(b, statusRemaining, uint64(clamp(d.Remaining)))

		if reset := max(d.Reset, 0); reset > 0 {
			var from int

			b, from = begin(b, statusReset)
			b = appendUint(b, secondsField, uint64(reset/time.Second))
			b = end(appendUint(b, nanos, uint64(reset%time.Second)), from)
		}
	}

	return end(b, at)
}

// appendLimit appends the limit that the decision speaks of, under its rule's id.
func appendLimit(b []byte, d *leaseway.Decision) []byte {
	requests, unit, multiplier := rateOf(d.Quota, d.Window)

	b, at := begin(b, statusLimit)
	b = appendUint(b, limitRequests, uint64(clamp(requests)))
	b = appendUint(b, limitUnit, uint64(unit))
	b = appendText(b, limitName, d.Rule)

	if multiplier > 1 {
		var from int

		b, from = begin(b, limitMultiplier)
		b = end(appendUint(b, wrapped, uint64(clamp(multiplier))), from)
	}

	return end(b, at)
}

// appendMetadata appends what Envoy puts into its access log: which rule, why, and what a rule in shadow would have done; and
// the status that a refusal should have where that is not the one which Envoy gives it, for the configuration to give it that.
func (c *call) appendMetadata(b []byte, shown *leaseway.Decision) []byte {
	b, at := begin(b, responseMetadata)
	b = appendPair(b, "rule", shown.Rule)
	b = appendPair(b, "reason", shown.Reason.String())

	if shown.Reason != leaseway.ReasonNone && leasewayhttp.StatusCode(*shown) == http.StatusServiceUnavailable {
		b = appendPair(b, "status", "503")
	}

	b = appendPair(b, "shadowDenied", c.shadowDenied())

	if c.request.ignoresLimit() {
		b = appendPair(b, "limit", "ignored")
	}

	return end(b, at)
}

// shadowDenied is the first rule in shadow mode that would have refused, or "". Where all rules are in shadow mode no decision is
// shown, and this is all that there is to say.
func (c *call) shadowDenied() string {
	for i := range c.decisions {
		if shadow := c.decisions[i].ShadowDenied; shadow != "" {
			return shadow
		}
	}

	return ""
}

// appendPair appends a name of a Struct and its text, unless that is empty.
func appendPair(b []byte, name, text string) []byte {
	if text == "" {
		return b
	}

	b, at := begin(b, structField)
	b = appendText(b, mapKey, name)
	b, from := begin(b, mapValue)
	b = end(appendText(b, stringValue, text), from)

	return end(b, at)
}

// clamp is a count as the messages can say it.
func clamp(n int64) uint32 { return uint32(max(0, min(n, math.MaxUint32))) }
