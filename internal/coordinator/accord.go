package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leaseway/leaseway/internal/store"
	"github.com/leaseway/leaseway/rule"
)

const (
	// lookEvery is how often the register is looked at without a reason: what another coordinator wrote there is known
	// before a holder comes from it.
	lookEvery = time.Second
	// lookPause is the least time between two looks that holders cause.
	lookPause = 20 * time.Millisecond
	// agreeWithin bounds how long a change of the rules waits for the register.
	agreeWithin = time.Second
	// agreeTries bounds how often another coordinator may be faster.
	agreeTries = 10
)

// Accord numbers the rules of a Book whose coordinator reads them from a file of its own, so that all coordinators of a store
// that read the same rules number them alike: a holder that turns from one to another finds what it has, and a ledger is
// charged under one version. What they agree on is kept in the store, as numbers and digests.
//
//	file ──Apply──▶ rules ──digest──▶ register: known under that number? ──yes──▶ that number
//	                                      │ no                                        │
//	                                      └──▶ the next one, written down ────────────┴──▶ Book ──▶ holders
//
// A coordinator whose file differs from what was put in force last keeps its own rules under a number of its own, as an
// upgrade has it for a while; whichever was applied last holds for a key. While the register does not answer it numbers by
// its clock, and writes that down later.
//
// NewAccord comes first, then Apply and Join, in any order, and Run beside what uses the Book. It is safe for concurrent use.
type Accord struct {
	book   *Book
	clock  func() time.Time
	log    *slog.Logger
	shown  atomic.Uint64 // the highest version that a holder showed above the present one
	behind chan struct{} // there is one

	mu       sync.Mutex // one agreement at a time
	joined   bool
	register store.Register // nil for none yet
	set      *rule.Set      // that is to be in force
	head     string         // of the register, as of the last agreement
	alone    bool           // the present number is not in the register
	raised   time.Time      // when a holder last caused a renumbering
}

// NewAccord numbers the rules of book, into which nothing else may put any from then on. clock is time.Now if nil, log silent.
func NewAccord(book *Book, clock func() time.Time, log *slog.Logger) *Accord {
	if clock == nil {
		clock = time.Now
	}

	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}

	a := &Accord{book: book, clock: clock, log: log, behind: make(chan struct{}, 1)}
	book.Number(a.note)

	return a
}

// note notes that a holder has a version above the present one.
func (a *Accord) note(version uint64) {
	for {
		if shown := a.shown.Load(); version <= shown || a.shown.CompareAndSwap(shown, version) {
			break
		}
	}

	select {
	case a.behind <- struct{}{}:
	default:
	}
}

// Apply puts set in force and returns its version, 0 before Join. The error names the rule at fault; then the present set stays.
func (a *Accord) Apply(set *rule.Set) (version uint64, err error) {
	if set == nil {
		return 0, errors.New("coordinator: the rule set is nil (parse a document first)")
	}

	if _, err := newEdition(set, a.book.least); err != nil {
		return 0, err
	}

	a.mu.Lock()
	defer a.mu.Unlock()

	a.set = set

	if !a.joined {
		return 0, nil
	}

	ctx, cancel := context.WithTimeout(context.Background(), agreeWithin)
	defer cancel()

	if err := a.settle(ctx); err != nil {
		return 0, err
	}

	return a.book.Current().Version, nil
}

// Join puts the set that was applied in force, as register has it numbered. nil is a register that cannot be reached yet: the
// set is in force all the same, and Join may be called again. The error is that of Book.Put.
func (a *Accord) Join(ctx context.Context, register store.Register) error {
	a.mu.Lock()
	defer a.mu.Unlock()

	a.joined, a.register = true, register

	if a.set == nil {
		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, agreeWithin)
	defer cancel()

	return a.settle(ctx)
}

// Run keeps the numbers those of the register, until ctx ends, and returns ctx's error.
func (a *Accord) Run(ctx context.Context) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()

	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
			a.look(ctx)
		case <-a.behind:
			a.look(ctx)

			select {
			case <-ctx.Done():
			case <-time.After(lookPause):
			}
		}
	}
}

// look agrees anew if there is a reason.
func (a *Accord) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, agreeWithin)
	defer cancel()

	a.mu.Lock()
	defer a.mu.Unlock()

	if a.set == nil || a.register == nil {
		return
	}

	if !a.alone && a.shown.Load() <= a.book.Current().Version {
		now, err := a.register.Numbers(ctx, a.head)
		if err != nil || now.Head == a.head {
			return
		}

		// Another file was put in force elsewhere. To number this one anew would have that one numbered anew in turn, for as
		// long as they differ, and a limit be now one and now the other.
		if r, err := readRecord(now); err == nil && now.Head != "" && r.digest != digestOf(a.set) {
			a.head = now.Head

			return
		}
	}

	if err := a.settle(ctx); err != nil {
		a.log.Error("the rules could not be numbered anew", "error", err)
	}
}

// settle puts the set in force under the number that is agreed on, or one of its own. The error is that of Book.Put.
func (a *Accord) settle(ctx context.Context) error {
	next, err := a.agree(ctx)
	if err == nil {
		a.alone = false

		return a.book.Put(next)
	}

	if !a.alone && a.register != nil {
		a.log.Warn("the store does not say how rules are numbered: this coordinator numbers by itself until it does", "error", err)
	}

	a.alone = true
	if _, err := a.book.Apply(a.set); err != nil {
		return err
	}

	if a.shown.Load() > a.book.Current().Version {
		a.book.Outnumber()
	}

	return nil
}

var errNoRegister = errors.New("coordinator: no register of numbers was reached yet")

// agree returns the set as it is numbered by the register, which it brings up to date.
func (a *Accord) agree(ctx context.Context) (*rule.Set, error) {
	if a.register == nil {
		return nil, errNoRegister
	}

	digest, least := digestOf(a.set), a.least()

	for range agreeTries {
		kept, err := a.register.Numbers(ctx, "")
		if err != nil {
			return nil, err
		}

		r, err := readRecord(kept)
		if err != nil {
			return nil, err
		}

		if r.digest == digest && r.version >= least {
			a.head = kept.Head

			return r.number(a.set, r.version), nil
		}

		next := a.next(r, least)
		now := recordOf(next).text()

		done, err := a.register.Renumber(ctx, kept.Head, now)
		if err != nil {
			return nil, err
		}

		if done {
			a.head = now.Head

			return next, nil
		}
	}

	return nil, fmt.Errorf("coordinator: %d others numbered rules at the same time", agreeTries)
}

// least is the lowest version that holders take for the set.
func (a *Accord) least() uint64 {
	present, shown := a.book.Current(), a.shown.Load()
	least := present.Version

	if least > 0 && !same(present, a.set) {
		least++
	}

	// Each renumbering sends the whole set to every watcher.
	if now := a.clock(); shown > least && (a.raised.IsZero() || now.Sub(a.raised).Abs() >= raiseEvery) {
		a.raised = now

		return shown
	}

	return least
}

// next numbers the set anew, above what r has and at least at least.
func (a *Accord) next(r *record, least uint64) *rule.Set {
	present := a.book.Current()
	if present.Version > r.version && present.Version >= least && same(present, a.set) {
		return present // the register has lost it, or never heard of it
	}

	version := max(r.version+1, least, uint64(max(0, a.clock().UnixMicro())))
	if least > r.version+1 || r.digest == digestOf(a.set) {
		r = &record{} // holders and ledgers have seen versions that it does not know of
	}

	return r.number(a.set, version)
}
