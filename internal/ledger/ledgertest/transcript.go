// Package ledgertest replays conversations between holders and one ledger, which
// are written in internal/ledger/testdata, for every implementation of the
// ledger. Its neighbours are their tests: those of package ledger itself, and of
// the store in Redis, which has a ledger in Lua.
package ledgertest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
)

// start is the instant that transcripts call 0s, µs of the store's time.
const start = 1_800_000_000_000_000

// Apply is an implementation of ledger.State.Apply. The error is why it could not be asked.
type Apply func(s *ledger.State, now int64, terms ledger.Terms, ask ledger.Ask) (ledger.Answer, error)

// transcript is one ledger, a clock, and the terms that the coordinator finds. Its commands:
//
//	rule limit=10 window=1s burst=10 ttl=500ms version=1 revision=0   what is left out stays
//	at 1.5s       the store's clock, since the transcript's start; it may step back
//	ask holder=1 seq=1 lease=0s#1 spent=3 lag=2ms takes=1,2 needs=3 raise=8 debt=4 acked=4 keep
//	show          the ledger as it is
//	save, restore the store's data goes back to what it was, as after a failover
//	lost 1s       the store says that the ledger's past was lost at 1s
//	begin 1s      the store does not know the ledger, and lost data at 1s
//	expire        time passes without an ask
//
// A lease is written TIME#SEQ: when it was opened, and by which ask.
type transcript struct {
	apply Apply
	state ledger.State
	saved ledger.State
	now   int64
	terms ledger.Terms
	rule  [3]int64          // limit, window, burst
	seen  map[uint64]uint64 // the newest seq of each holder
	names map[opened]string
}

// opened is a lease's identity: ids of two holders may be the same.
type opened struct{ holder, id uint64 }

// Replay runs a transcript on apply and returns it with what comes of it now. The
// error names the line that is no command or cannot be run.
func Replay(text string, apply Apply) (string, error) {
	var (
		out  []string
		said []string // of the commands since the last dashes
	)

	tr := transcript{apply: apply, seen: map[uint64]uint64{}, names: map[opened]string{}}
	old := false // within what came last time, up to an empty line

	for i, l := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		old = old && l != ""

		switch {
		case old:
		case l == "----":
			out = append(append(out, l), said...)
			said, old = nil, true
		case l == "" || strings.HasPrefix(l, "#"):
			out = append(out, l)
		default:
			lines, err := tr.run(l)
			if err != nil {
				return "", fmt.Errorf("%d: %s: %w", i+1, l, err)
			}

			out, said = append(out, l), append(said, lines...)
		}
	}

	if len(said) > 0 {
		return "", fmt.Errorf("the last commands have no line of dashes below them, so nothing compares %q", said)
	}

	return strings.Join(out, "\n") + "\n", nil
}

// run does one command and returns the lines it says.
func (tr *transcript) run(command string) ([]string, error) {
	words := strings.Fields(command)
	args := words[1:]

	switch words[0] {
	case "rule":
		return nil, tr.setRule(args)
	case "at":
		return nil, tr.when(args, func(at int64) { tr.now = at })
	case "lost":
		return tr.changed(tr.when(args, func(at int64) { tr.state.Begin(tr.state.Terms, at) }))
	case "begin":
		return tr.changed(tr.when(args, func(at int64) { tr.state.Begin(tr.terms, at) }))
	case "ask":
		return tr.ask(args)
	case "expire":
		tr.state.Expire(tr.now)
	case "save":
		tr.saved = tr.state
		tr.saved.Leases = slices.Clone(tr.state.Leases)

		return nil, nil
	case "restore":
		tr.state = tr.saved
		tr.state.Leases = slices.Clone(tr.saved.Leases)
	case "show":
	default:
		return nil, errors.New("no such command")
	}

	return tr.show(), nil
}

// changed shows the ledger after a command that worked.
func (tr *transcript) changed(err error) ([]string, error) { return tr.show(), err }

func (tr *transcript) when(args []string, do func(int64)) error {
	if len(args) != 1 {
		return errors.New("wants one time")
	}

	at, err := micros(args[0])
	if err == nil {
		do(start + at)
	}

	return err
}

func (tr *transcript) setRule(args []string) error {
	err := each(args, map[string]func(string) error{
		"limit":    number(&tr.rule[0]),
		"window":   span(&tr.rule[1]),
		"burst":    number(&tr.rule[2]),
		"ttl":      span(&tr.terms.TTL),
		"version":  number(&tr.terms.Version),
		"revision": number(&tr.terms.Revision),
	})
	if err != nil {
		return err
	}

	tr.terms.Bucket, err = rate.NewBucket(tr.rule[0], tr.rule[1], tr.rule[2])

	return err
}

func (tr *transcript) ask(args []string) ([]string, error) {
	var a ledger.Ask

	err := each(args, map[string]func(string) error{
		"holder": number(&a.Holder),
		"seq":    number(&a.Seq),
		"lease":  tr.lease(&a),
		"spent":  number(&a.Spent),
		"lag":    span(&a.Lag),
		"debt":   number(&a.Debt),
		"acked":  number(&a.DebtAcked),
		"takes":  numbers(&a.Takes),
		"needs":  numbers(&a.Needs),
		"raise":  number(&a.RaiseTo),
		"keep":   func(string) error { a.Keep = true; return nil },
		"long":   func(string) error { a.Long = true; return nil },
	})
	if err != nil {
		return nil, err
	}

	answer, err := tr.apply(&tr.state, tr.now, tr.terms, a)
	if err != nil {
		return nil, err
	}

	if lease := (opened{a.Holder, answer.Lease}); tr.names[lease] == "" && answer.Lease != 0 {
		tr.names[lease] = fmt.Sprintf("%s#%d", duration(tr.now-start), a.Seq)
	}

	if a.Seq > tr.seen[a.Holder] {
		err = tr.holds()
	}

	tr.seen[a.Holder] = max(a.Seq, tr.seen[a.Holder])

	return append([]string{tr.describe(answer, a)}, tr.show()...), err
}

// holds checks the invariant that the whole protocol rests on, after every ask that is new.
func (tr *transcript) holds() error {
	b := tr.state.Terms.Bucket

	held := b.Add(rate.At(tr.now), min(b.Burst, tr.state.Outstanding()))
	if tr.state.TAT.Less(held) {
		return fmt.Errorf("the bucket is at %v, below %v: what holders have does not occupy it", tr.state.TAT, held)
	}

	return nil
}

// describe says what an answer says.
func (tr *transcript) describe(a ledger.Answer, ask ledger.Ask) string {
	if a.Status == ledger.Superseded {
		return "answer: superseded"
	}

	parts := []string{fmt.Sprintf("answer: lease=%s G=%d S=%d D=%d, others hold %d",
		tr.name(ask.Holder, a.Lease), a.Granted, a.Spent, a.Debt, a.Others)}

	for i, cost := range ask.Takes {
		verdict := "refused"
		if a.Taken>>i&1 == 1 {
			verdict = "given"
		}

		parts = append(parts, fmt.Sprintf("take of %d %s", cost, verdict))
	}

	if a.TTL > a.Terms.TTL {
		parts = append(parts, "to live "+duration(a.TTL))
	}

	if a.Short {
		parts = append(parts, "short: again in "+duration(a.AskAgain))
	}

	if a.Stale {
		parts = append(parts, fmt.Sprintf("stale: the rule is at version %d", a.Terms.Version))
	}

	return strings.Join(parts, ", ")
}

// show says what the ledger would say if it were asked at now, without touching it.
func (tr *transcript) show() []string {
	s := &tr.state

	b := s.Terms.Bucket
	if b.Burst == 0 {
		return []string{"ledger: none"}
	}

	level := s.TAT.Max(rate.At(tr.now)).Shift(-tr.now)
	used := (level.Micros*b.Q + level.Frac + b.P - 1) / b.P
	full := duration(level.Micros)

	if level.Frac > 0 {
		full += fmt.Sprintf("+%d/%dµs", level.Frac, b.Q)
	}

	lines := []string{fmt.Sprintf("ledger: %d of %d in use, %d of them leased, full in %s", used, b.Burst, s.Outstanding(), full)}
	if s.Idle(tr.now) {
		lines[0] += ", can be forgotten"
	}

	for _, l := range s.Leases {
		lines = append(lines, fmt.Sprintf("  holder %d: lease=%s G=%d S=%d D=%d, seq %d, until %s",
			l.Holder, tr.name(l.Holder, l.ID), l.Granted, l.Spent, l.Debt, l.Seq, duration(l.Exp-start)))
	}

	return lines
}

func duration(micros int64) string { return (time.Duration(micros) * time.Microsecond).String() }

func micros(s string) (int64, error) {
	d, err := time.ParseDuration(s)

	return d.Microseconds(), err
}

// each hands the value of every NAME=VALUE to the setter of its name.
func each(args []string, set map[string]func(string) error) error {
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")

		do, ok := set[name]
		if !ok {
			return fmt.Errorf("no such argument: %s", arg)
		}

		if err := do(value); err != nil {
			return fmt.Errorf("%s: %w", arg, err)
		}
	}

	return nil
}

func number[T int64 | uint64](to *T) func(string) error {
	return func(s string) error {
		n, err := strconv.ParseInt(s, 10, 64)
		*to = T(n)

		return err
	}
}

func numbers(to *[]int64) func(string) error {
	return func(s string) error {
		for part := range strings.SplitSeq(s, ",") {
			var n int64
			if err := number(&n)(part); err != nil {
				return err
			}

			*to = append(*to, n)
		}

		return nil
	}
}

func span(to *int64) func(string) error {
	return func(s string) (err error) {
		*to, err = micros(s)

		return err
	}
}

// lease sets the lease of an ask whose holder stands before it.
func (tr *transcript) lease(a *ledger.Ask) func(string) error {
	return func(s string) error {
		for lease, name := range tr.names {
			if name == s && lease.holder == a.Holder {
				a.Lease = lease.id

				return nil
			}
		}

		return errors.New("no answer named that lease to this holder")
	}
}

func (tr *transcript) name(holder, id uint64) string {
	if id == 0 {
		return "none"
	}

	return tr.names[opened{holder, id}]
}
