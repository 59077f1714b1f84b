package cases

import (
	"fmt"
	"math"
	"net/netip"
	"net/textproto"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/rule"
)

// attributes are the keys of a step that say what a request looks like.
func attributes() []string {
	return []string{"user", "ip", "apikey", "method", "path", "host", "headers", "descriptors", "domain", "entries", "class", "cost"}
}

// sending are the other keys of a step that sends.
func sending() []string { return []string{"send", "every", "hold", "holder", "expect", "tolerance"} }

// read reads a step of a test with that many holders; false when it is of no use.
func (s *Step) read(v value, holders int, tolerance int64) (c change, ok bool) {
	known := append([]string{"at"}, sending()...)
	known = append(append(append(known, attributes()...), changes()...), "load")

	e, ok := v.entries(known...)
	if !ok {
		return c, false
	}

	if at, found := e["at"]; !found {
		v.fail("has no time", "write at: 0s, or later")
	} else {
		s.At, ok = at.span(maxTime)
	}

	for _, verb := range changes() {
		what, found := e[verb]

		switch {
		case !found:
		case c.isSet():
			what.fail("does not go with "+c.verb, "make it a step of its own")
		default:
			c = change{value: what, verb: verb}
		}
	}

	if load, found := e["load"]; found {
		s.load(load)

		if c.isSet() {
			load.fail("does not go with "+c.verb, "make it a step of its own")
		}
	}

	if c.isSet() || s.Load != nil {
		for _, name := range append(sending(), attributes()...) {
			if extra, found := e[name]; found {
				extra.fail("does not go with a change of the rules or of the load", "make it a step of its own")
			}
		}

		return c, ok
	}

	s.send(v, e, holders)
	s.request(e)

	if loose, found := e["tolerance"]; found {
		tolerance, _ = loose.whole(0, maxRequests)
	}

	if expect, found := e["expect"]; found {
		s.expect(expect, tolerance)
	}

	return c, ok
}

// load reads how busy all servers are from then on.
func (s *Step) load(v value) {
	share := math.NaN() // an error, or not known
	s.Load = &share

	if text, ok := v.text(); ok && text != "unknown" {
		digits, isShare := strings.CutSuffix(text, "%")

		n, err := strconv.Atoi(digits)
		if !isShare || err != nil || n < 0 || n > maxLoad {
			v.fail(quote(text)+" is no load", fmt.Sprintf("write whole percents, from 0%% to %d%%, or unknown", maxLoad))
		}

		share = float64(n) / 100
	}
}

// maxLoad is the highest load, in percent.
const maxLoad = 1000

// send reads how many requests go where, and when.
func (s *Step) send(v value, e entries, holders int) {
	s.Requests = 1

	if send, ok := e["send"]; ok {
		n, _ := send.whole(1, maxRequests)
		s.Requests = int(n)
	}

	if every, ok := e["every"]; ok {
		s.Every, _ = every.span(maxTime)
	}

	if hold, ok := e["hold"]; ok {
		s.Hold, _ = hold.span(maxTime)
	}

	if s.Every > 0 && int64(s.Requests) > maxTime.Microseconds()/s.Every {
		v.fail("goes on for too long", "end it within "+maxTime.String())
	}

	holder, ok := e["holder"]
	if !ok {
		return
	}

	// They are named 0, 1, …: "0" is a name, and 0 a number, and both are meant.
	n, err := strconv.Atoi(holder.node.Value)
	if holder.node.Kind != yaml.ScalarNode || err != nil || n < 0 || n >= holders {
		holder.fail(kindOf(holder.node)+" is no server of this test", fmt.Sprintf("holders: %d names them 0 to %d", holders, holders-1))

		return
	}

	s.Holder = n
}

// request reads what the requests look like.
func (s *Step) request(e entries) {
	req := &s.Request
	req.Finishes = true

	texts := []struct {
		name string
		into *string
	}{
		{"user", &req.User},
		{"apikey", &req.APIKey},
		{"method", &req.Method},
		{"path", &req.Path},
		{"host", &req.Host},
	}
	for _, text := range texts {
		if v, ok := e[text.name]; ok {
			*text.into, _ = v.text()
		}
	}

	if v, ok := e["path"]; ok && req.Path != "" && req.Path[0] != '/' {
		v.fail("does not begin with a slash", "write the path alone, without scheme and host")
	}

	if v, ok := e["ip"]; ok {
		req.IP = v.address()
	}

	if v, ok := e["headers"]; ok {
		req.Headers = v.headers()
	}

	s.describe(e)

	if v, ok := e["class"]; ok {
		text, _ := v.text()
		if req.Class, ok = rule.ParseClass(text); !ok {
			v.fail(quote(text)+" is no class", "write critical, write, read or test")
		}
	}

	if v, ok := e["cost"]; ok {
		var n int64
		if n, ok = v.whole(0, rule.MaxCost); ok {
			req.Cost, req.Peek = n, n == 0
		}
	}
}

func (v value) address() netip.Addr {
	text, ok := v.text()
	if !ok {
		return netip.Addr{}
	}

	ip, err := netip.ParseAddr(text)
	if err != nil {
		v.fail(quote(text)+" is no address", "write one such as 192.0.2.7 or 2001:db8::7, without a port")
	}

	return ip
}

func (v value) headers() map[string][]string {
	e, ok := v.entries()
	if !ok {
		return nil
	}

	headers := make(map[string][]string, len(e))

	for name, entry := range e {
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		if _, twice := headers[canonical]; twice {
			entry.fail("names "+canonical+" in another spelling again", "write a list of values")
		}

		items := []value{entry}
		if entry.node.Kind == yaml.SequenceNode {
			items = entry.list()
		}

		for _, item := range items {
			if text, ok := item.text(); ok {
				headers[canonical] = append(headers[canonical], text)
			}
		}
	}

	return headers
}

// expect reads letters, or a map of counts and of what the last answer says.
func (s *Step) expect(v value, tolerance int64) {
	x := &Expect{Tolerance: tolerance}
	s.Expect = x

	if v.node.Kind == yaml.ScalarNode {
		x.Letters = v.node.Value

		switch {
		case x.Letters == "" || strings.Trim(x.Letters, "AD") != "":
			v.fail(kindOf(v.node)+" is neither letters nor a map", "write A or D for each request, or {allowed: 3, denied: 1}")
		case len(x.Letters) != s.Requests:
			v.fail(fmt.Sprintf("has %d letters, and the step sends %d", len(x.Letters), s.Requests),
				fmt.Sprintf("write one for each request, or send: %d", len(x.Letters)))
		}

		return
	}

	e, ok := v.entries("allowed", "denied", "tolerance",
		"rule", "limit", "remaining", "retryAfter", "reset", "reason", "shadowDenied", "shadowShed", "delay", "class")
	if !ok {
		return
	}

	if len(v.node.Content) == 0 {
		v.fail("expects nothing", "write {allowed: 3, denied: 1}, or leave it out")
	}

	if loose, found := e["tolerance"]; found {
		x.Tolerance, _ = loose.whole(0, maxRequests)
	}

	x.Allowed, x.Denied = e.whole("allowed"), e.whole("denied")
	x.Limit, x.Remaining = e.whole("limit"), e.whole("remaining")
	x.RetryAfter, x.Reset = e.whole("retryAfter"), e.whole("reset")
	x.Rule, x.ShadowDenied, x.Class = e.text("rule"), e.text("shadowDenied"), e.text("class")

	x.ShadowShed = e.text("shadowShed")

	if x.Class != nil {
		if _, ok := rule.ParseClass(*x.Class); !ok {
			e["class"].fail(quote(*x.Class)+" is no class", "write critical, write, read or test")
		}
	}

	if delay, found := e["delay"]; found {
		if n, ok := delay.span(maxTime); ok {
			x.Delay = &n
		}
	}

	if x.Reason = e.text("reason"); x.Reason != nil && !isReason(*x.Reason) {
		e["reason"].fail(quote(*x.Reason)+" is no reason",
			`"" or one of over_limit, too_many_in_flight, cost_exceeds_limit, blocked, missing_key, unavailable, shed_worker, shed_fleet`)
	}

	if x.Allowed != nil && x.Denied != nil {
		if off := *x.Allowed + *x.Denied - int64(s.Requests); off > 2*x.Tolerance || off < -2*x.Tolerance {
			v.fail(fmt.Sprintf("counts %d requests where %d are sent", *x.Allowed+*x.Denied, s.Requests), "make allowed and denied add up")
		}
	}
}

// whole reads a number that may be missing.
func (e entries) whole(name string) *int64 {
	if v, found := e[name]; found {
		if n, ok := v.whole(0, 1<<53); ok {
			return &n
		}
	}

	return nil
}

// text reads a text that may be missing.
func (e entries) text(name string) *string {
	if v, found := e[name]; found {
		if s, ok := v.text(); ok {
			return &s
		}
	}

	return nil
}

func isReason(text string) bool {
	var r leaseway.Reason
	if r.UnmarshalText([]byte(text)) != nil {
		return false
	}

	switch r {
	case leaseway.ReasonNone, leaseway.ReasonOverLimit, leaseway.ReasonTooManyInFlight, leaseway.ReasonCostExceedsLimit,
		leaseway.ReasonBlocked, leaseway.ReasonMissingKey, leaseway.ReasonUnavailable,
		leaseway.ReasonShedWorker, leaseway.ReasonShedFleet:
		return true
	default:
		return false
	}
}
