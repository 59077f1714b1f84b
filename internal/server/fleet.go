package server

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/admin"
	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/holder"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rulefeed"
	"github.com/leaseway/leaseway/rule"
)

// fleet is admin.Fleet over the coordinator of this process. What it asks of a ledger it asks as a holder of that one call, which
// takes nothing and is not counted among those that live.
type fleet struct {
	coordinator *coordinator.Coordinator
	rules       func() *rule.Set
	feed        *rulefeed.Feed // nil for rules of a file, whose versions are shown as they are
	notes       *notes         // what this coordinator and others hear
}

var _ admin.Fleet = fleet{}

// maxInstances bounds the list of holders.
const maxInstances = 10_000

// Instances implements admin.Fleet.
func (f fleet) Instances(ctx context.Context) (admin.Roster, error) {
	all := f.notes.gather(ctx)

	roster := admin.Roster{
		// What was written a moment ago is the newest, also where it is not in force yet.
		Version: max(f.shown(f.rules().Version), all.newest),
		More:    all.more, Coordinators: all.coordinators, Partial: all.partial,
	}

	for _, one := range all.instances {
		if len(roster.Instances) == maxInstances {
			roster.More++

			continue
		}

		roster.Instances = append(roster.Instances, admin.Instance{
			Name: one.Name, Incarnation: one.Incarnation, Version: f.shown(one.Version), Seen: one.Seen, Bare: one.Bare,
		})
	}

	return roster, nil
}

// shown is a version as people see it.
func (f fleet) shown(version uint64) uint64 {
	if f.feed == nil {
		return version
	}

	return f.feed.Shown(version)
}

// rolledOut is how many requests this version of a rule, as people see it, decided of the keys that its rollout has reached, and
// how many of them it refused: nothing while another version is in force here.
func (f fleet) rolledOut(ctx context.Context, ruleID string, version uint64) (requests, refused int64) {
	present := f.rules().Rule(ruleID)
	if present == nil || f.shown(present.Version) != version {
		return 0, 0
	}

	return f.notes.gather(ctx).refused(ruleID, present.Version)
}

// Level implements admin.Fleet.
func (f fleet) Level(ctx context.Context, ruleID, key string) (admin.Level, error) {
	seen, err := f.look(ctx, ruleID, key)

	switch {
	case err != nil:
		return admin.Level{}, err
	case seen.free:
		return admin.Level{Allowed: true}, nil
	case seen.blocked:
		return admin.Level{Reason: leaseway.ReasonBlocked.String()}, nil
	case seen.slots:
		level := admin.Level{Limit: seen.answer.Terms.Bucket.Burst}
		level.Remaining = max(0, level.Limit-seen.answer.Others)

		if level.Allowed = level.Remaining > 0; !level.Allowed {
			level.Reason = leaseway.ReasonTooManyInFlight.String()
		}

		return level, nil
	}

	lease, now := seen.lease, seen.now
	level := admin.Level{
		Limit: seen.answer.Terms.Bucket.Burst, Remaining: lease.Remaining(now), Reset: micros(lease.Full(now)),
	}

	if level.Allowed = level.Remaining > 0; !level.Allowed {
		level.Reason = leaseway.ReasonOverLimit.String()
		level.RetryAfter = micros(max(1, lease.Wait(now, 1)))
	}

	return level, nil
}

func micros(n int64) time.Duration { return time.Duration(max(0, n)) * time.Microsecond }

// Used implements admin.Fleet.
func (f fleet) Used(ctx context.Context, ruleIDs ...string) (map[string]admin.Use, error) {
	used := make(map[string]admin.Use, len(ruleIDs))

	for id, use := range coordinator.Most(f.notes.gather(ctx).peaks) {
		if slices.Contains(ruleIDs, id) {
			used[id] = admin.Use(use)
		}
	}

	return used, nil
}

// Reset implements admin.Fleet. What holders have of the budget and did not spend stays theirs until it comes back by itself.
func (f fleet) Reset(ctx context.Context, ruleID, key string) error {
	seen, err := f.look(ctx, ruleID, key)
	if err != nil || seen.free || seen.blocked {
		return err
	}

	if seen.slots {
		return errors.New("what is in flight cannot be reset: it comes back as requests end, or after the lease of a crashed server")
	}

	used := seen.answer.Terms.Bucket.Burst - seen.lease.Remaining(seen.now) - seen.answer.Others
	if used <= 0 {
		return nil
	}

	return f.Refund(ctx, ruleID, key, used)
}

// Refund implements admin.Fleet. A credit counts only on a lease that it names, so that a late copy of it finds nothing: hence
// two asks.
func (f fleet) Refund(ctx context.Context, ruleID, key string, tokens int64) error {
	if r := f.rules().Rule(ruleID); r != nil && r.Algorithm == rule.Concurrency {
		return fmt.Errorf("rule %s limits what is in flight: there is nothing to refund", ruleID)
	}

	self := rand.Uint64() | 1

	opened, err := f.ask(ctx, ruleID, key, ledger.Ask{Holder: self, Seq: 1, Keep: true})
	if err != nil {
		return err
	}

	_, err = f.ask(ctx, ruleID, key, ledger.Ask{Holder: self, Seq: 2, Lease: opened.Lease, Debt: -tokens})

	return err
}

// sighted is how a key's budget was found.
type sighted struct {
	answer ledger.Answer
	lease  *holder.Lease // that heard the answer
	now    int64

	free    bool // the rule says nothing of the key
	blocked bool
	slots   bool
}

// look asks a ledger for nothing.
func (f fleet) look(ctx context.Context, ruleID, key string) (*sighted, error) {
	r := f.rules().Rule(ruleID)
	if r == nil {
		return nil, fmt.Errorf("%w: %s", admin.ErrUnknownRule, ruleID)
	}

	seen := &sighted{now: time.Now().UnixMicro(), lease: holder.New()}

	of := r.For(rule.Compact(key))
	if of == nil || of.Mode == rule.Off {
		seen.free = true

		return seen, nil
	}

	if of.Block {
		seen.blocked = true

		return seen, nil
	}

	self := rand.Uint64() | 1
	ask := seen.lease.Ask(seen.now, holder.Exact{}, holder.Need{Seq: 1, Holder: self, Holders: 1, Return: true})

	if seen.slots = of.Algorithm == rule.Concurrency; seen.slots {
		ask = ledger.Ask{Holder: self, Seq: 1, Slots: true}
	}

	var err error

	if seen.answer, err = f.ask(ctx, ruleID, key, ask); err != nil {
		return nil, err
	}

	if !seen.slots && !seen.lease.Hear(seen.now, &seen.answer) {
		return nil, fmt.Errorf("the ledger of rule %s gave an answer that cannot be used", ruleID)
	}

	return seen, nil
}

// ask sends one ask.
func (f fleet) ask(ctx context.Context, ruleID, key string, ask ledger.Ask) (ledger.Answer, error) {
	answers, err := f.coordinator.Tend(ctx, &ledger.Batch{
		Holder: ask.Holder, Seq: ask.Seq, Asks: []ledger.KeyAsk{{Rule: ruleID, Key: rule.Compact(key), Ask: ask}},
	})
	if err != nil {
		return ledger.Answer{}, err
	}

	switch one := &answers.Keys[0]; one.Code {
	case ledger.KeyOK:
		return one.Answer, nil
	case ledger.KeyUnknownRule:
		return ledger.Answer{}, fmt.Errorf("%w: %s", admin.ErrUnknownRule, ruleID)
	case ledger.KeyUnavailable, ledger.KeyBehind:
		return ledger.Answer{}, errors.New("the store of the counts does not answer")
	case ledger.KeyInvalid:
	}

	return ledger.Answer{}, fmt.Errorf("the ledger of rule %s refused the ask", ruleID)
}
