// Package cases is unit tests for rule sets: a file says which requests come
// when, and what each must get, and the production code answers in virtual time.
//
//	file ──Parse──▶ File ──Run──▶ Result ──▶ Report: a table, or JSON
//	                         │
//	     world: the time ────┤
//	       server 0, 1, …    ├─ leaseway.Stepped: match, lease, decide
//	           │ link        │  (a call to the coordinator takes `latency`)
//	       coordinator       └─ one, over a memory store
//
// The time stands still while a request is decided, and between requests jumps
// to whatever is due next: the renewal of a lease, the arrival of an answer. So
// a month takes milliseconds, and the same file gives the same answers.
//
// Its neighbours are the SDK, the coordinator and the memory store below, which
// it runs as they are, and internal/cli above, which prints the reports.
package cases

import (
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/rule"
)

// File is a case file: rules, and tests of them.
type File struct {
	Name  string // as it was given
	Tests []*Test
}

// Test is one story that begins with full budgets.
type Test struct {
	Name string
	Line int

	// Start is the store's time at 0s, µs since the Unix epoch; windows align to it.
	Start int64
	// Holders is how many servers share the budgets.
	Holders int
	// Latency is what one call to the coordinator takes, µs: it gets there after half of it.
	Latency int64
	// Rules are in force from the start.
	Rules *rule.Set
	// Steps are in order of time.
	Steps []*Step
}

// Step sends equal requests, or changes the rules.
type Step struct {
	Line int
	At   int64 // of the first request, µs from the test's start

	Rules *rule.Set // to put in force at At; nil for a step that does not
	Load  *float64  // the load of all servers from At on, a share of 1 or NaN; nil for a step that does not change it

	Requests int
	Every    int64 // between two of them, µs
	Hold     int64 // how long each is in flight, µs
	Request  leaseway.Request
	Holder   int // the server that gets them

	Expect *Expect // nil: whatever comes is right
}

// Expect is what the requests of a step must get. What is nil is not looked at.
type Expect struct {
	Letters         string // A or D for each request; "" for none
	Allowed, Denied *int64
	Tolerance       int64 // by how much a count may differ, or how many letters

	// Of the last request's answer. RetryAfter and Reset are in whole seconds, rounded up.
	Rule, Reason, Class                 *string
	ShadowDenied, ShadowShed            *string
	Limit, Remaining, RetryAfter, Reset *int64
	Delay                               *int64 // µs for which a leaky bucket holds the request
}

// The bounds of a test.
const (
	maxHolders  = 1_000
	maxRequests = 10_000_000
	maxLatency  = time.Minute
	maxTime     = 100 * 365 * 24 * time.Hour
)
