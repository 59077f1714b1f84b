// Package rpc carries the coordinator's calls over gRPC: it turns messages into
// wire form and back, signs and checks answers, and finds a coordinator that lives.
//
//	table ──▶ Client ──▶ replica (breaker) ══ gRPC ══▶ Server (token, recover) ──▶ Coordinator
//	            │  ▲                                       │
//	            │  └─ verify, refuse ◀── signed answer ◀───┘ sign
//	            └─ next replica, while the deadline allows
//
// A Client is a Source as a Coordinator in the process is one: what holds it
// cannot tell them apart. It believes nothing that is not signed by a pinned key,
// about its own incarnation and the very call that it made.
//
// The generated messages stop here. The neighbours are ledger and rule, whose
// types go in and come out, the coordinator on one side and the holder's table on
// the other; neither is imported, each is what an interface of this package says.
package rpc

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// The bounds of a message. A server refuses what is larger before it reads it.
const (
	// MaxAsks is the number of asks of one batch.
	MaxAsks = 1_000
	// MaxKey is the size of a key, in bytes.
	MaxKey = 64 << 10
	// MaxBatchBytes is the size of a batch in wire form: 300 keys of the longest.
	// Whoever fills batches splits them before they reach it, so that a caller
	// with long keys delays nobody else.
	MaxBatchBytes = 20 << 20

	maxAskBytes      = 192 // of an ask but for its key and takes
	maxNumberBytes   = 10
	maxEnvelopeBytes = 128      // of an envelope, but for its body
	maxAnswerBytes   = 1 << 20  // an answer takes at most 250 bytes a key
	maxRulesBytes    = 40 << 20 // a document of 32 MiB, escaped nowhere, and its envelope
	maxName          = 256      // bytes of a holder's name
	maxRule          = 64       // bytes of a rule's id
	maxNumber        = 1<<53 - 1
	maxTokens        = 1 << 50 // of any count of tokens
	maxHolders       = 1 << 30
	maxTTL           = 3_600_000_000 // µs
	maxSpan          = 1 << 52       // µs of a level or a wait
)

// logEvery is the least time between two log lines about what keeps failing.
const logEvery = 10 * time.Second

// rarely says when a line may be logged again. The zero value allows the first.
type rarely struct{ last atomic.Int64 }

func (r *rarely) allow(now time.Time) bool {
	last, ns := r.last.Load(), now.UnixNano()

	return (last == 0 || ns-last >= int64(logEvery) || ns < last) && r.last.CompareAndSwap(last, ns)
}

// jittered returns a random duration between half of d and d, so that holders that failed together do not return together.
func jittered(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }
