package rpc

import "fmt"

// Cause says why an answer was refused. The set is closed.
type Cause uint8

// The causes.
const (
	// CauseSignature: it is unsigned, or the signature is wrong.
	CauseSignature Cause = iota
	// CauseKey: it is signed by a key that is not pinned.
	CauseKey
	// CauseForeign: it is about another holder or another call.
	CauseForeign
	// CauseMalformed: it cannot be read, or has another number of keys.
	CauseMalformed
	// CauseValue: one key's values are ones that no ledger sends. Only that key is refused.
	CauseValue
	// CauseOlderRules: it was made under older rules than this holder has seen.
	CauseOlderRules
	// CauseExpired: it came when every lease in it had ended.
	CauseExpired
	// CauseOtherStore: it comes from another store than the rest, with both alive.
	CauseOtherStore
)

const causes = int(CauseOtherStore) + 1

// String returns the cause's name in metrics.
func (c Cause) String() string {
	names := [causes]string{"signature", "key", "foreign", "malformed", "value", "older_rules", "expired", "other_store"}
	if int(c) < len(names) {
		return names[c]
	}

	return "unknown"
}

// RefusedError is an answer that came and was not believed.
type RefusedError struct {
	Cause   Cause
	Replica string // the coordinator's URL
	Err     error  // what was wrong
}

// Error names the coordinator and what was wrong.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("rpc: refused an answer of coordinator %s: %v", e.Replica, e.Err)
}

// Unwrap returns what was wrong.
func (e *RefusedError) Unwrap() error { return e.Err }

// refusal is a RefusedError before it is known whose answer it was.
type refusal struct {
	cause Cause
	err   error
}
