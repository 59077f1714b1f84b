package ledger

// Batch is one call from a holder to a coordinator: asks about many keys.
type Batch struct {
	Holder  uint64 // incarnation
	Name    string // the holder's configured name
	Seq     uint64 // of every ask in it
	Version uint64 // of the rule set that the holder runs
	Asks    []KeyAsk
	// Tallies say how requests fare under versions that rollouts bring; not in every batch.
	Tallies []Tally
	Visit   bool // whoever sends it only looks: without asks it is no holder

	// Bare says that it came without a token that the coordinator knows. It does not travel.
	Bare bool

	// Reply is where a coordinator in the same process puts its answers, so that
	// a call costs no memory. It may be nil, and does not travel.
	Reply *Answers
}

// KeyAsk is an ask about one key of one rule.
type KeyAsk struct {
	Rule string
	Key  string // any bytes
	Ask  Ask
}

// Tally is how requests fared at one holder whose keys have the version of a rule that a rollout brings: totals since it came
// into force there, so that a lost or doubled message changes nothing.
type Tally struct {
	Rule             string
	Version          uint64 // of the rule
	Allowed, Refused int64
}

// MaxTallies is how many one batch may have.
const MaxTallies = 1000

// Answers is the coordinator's reply to a batch, with one entry for each ask, in order.
type Answers struct {
	Store   uint64 // id of the store that the ledgers live in
	Live    int64  // holders that live in the fleet, the asker included
	Version uint64 // of the rule set that the coordinator runs
	Keys    []KeyAnswer
}

// KeyAnswer is what became of one ask.
type KeyAnswer struct {
	Code   KeyCode
	Answer Answer // when Code is KeyOK
}

// KeyCode says whether a key's ask reached its ledger.
type KeyCode uint8

const (
	// KeyOK: the ledger answered.
	KeyOK KeyCode = iota
	// KeyUnknownRule: the coordinator has no such rule.
	KeyUnknownRule
	// KeyBehind: the holder runs newer rules than the coordinator.
	KeyBehind
	// KeyUnavailable: the store did not answer for this key in time.
	KeyUnavailable
	// KeyInvalid: the ask's numbers are out of bounds.
	KeyInvalid
)
