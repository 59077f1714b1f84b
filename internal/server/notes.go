package server

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/rule"
)

// notes is how the coordinators of one rule store tell each other what each of them alone hears: which holders there are and what
// they run, how requests fare there under rollouts, and which keys use most. Each keeps one note up in the store; whoever is asked
// reads them all.
//
//	coordinator ── hears of holders ──▶ note ──Pin──▶ rule store ──Notes──▶ gathered, by any of them
//
// When the store is away each knows only its own part, and says so.
type notes struct {
	board       rulestore.Board // nil for rules of a file
	coordinator *coordinator.Coordinator
	meter       *coordinator.Meter // nil for none
	rules       func() *rule.Set
	self        func() coordinator.Instance // this process, which asks only while it decides; nil to leave it out
	from        string                      // names this process
	alone       bool                        // no other coordinator counts in the same store
	now         func() time.Time
	log         *slog.Logger

	unwritable atomic.Bool // when the store was last given a note it could take none
}

const (
	// pinEvery is how often it is looked at whether a note says something new, and repinEvery how long one stays up that does not.
	pinEvery, repinEvery = time.Second, 5 * time.Second
	// maxPinned bounds the holders of one note, maxPeaks its keys.
	maxPinned, maxPeaks = 5000, 3000
	// notesWithin bounds how long the store is waited for.
	notesWithin = 2 * time.Second
	// seenFor is how long a holder is listed after it was last heard of: a few seconds longer than it takes to tell.
	seenFor = 15 * time.Second
)

// note is what one coordinator tells.
type note struct {
	Instances []noted  `json:"instances,omitempty"`
	More      int      `json:"more,omitempty"`
	Asked     []tally  `json:"asked,omitempty"` // of holders that do not count
	Peaks     []peaked `json:"peaks,omitempty"`
}

// noted is a holder as one coordinator hears it.
type noted struct {
	Name        string  `json:"name"`
	Incarnation uint64  `json:"incarnation,string"`
	Version     uint64  `json:"version"`
	AgeMillis   int64   `json:"ageMs"` // since it was heard, when the note was written
	Bare        bool    `json:"bare,omitempty"`
	Tallies     []tally `json:"tallies,omitempty"`
}

type tally struct {
	Rule    string `json:"rule"`
	Version uint64 `json:"version"`
	Allowed int64  `json:"allowed"`
	Refused int64  `json:"refused"`
}

type peaked struct {
	Rule      string `json:"rule"`
	Key       uint64 `json:"key,string"`
	Tokens    int64  `json:"tokens"`
	PerMillis int64  `json:"perMs"`
}

// run keeps a note up until ctx ends, and then takes it down.
func (n *notes) run(ctx context.Context) {
	ticker := time.NewTicker(pinEvery)
	defer ticker.Stop()

	var (
		last   []byte
		pinned time.Time
		failed bool
	)

	for {
		select {
		case <-ctx.Done():
			_ = n.pin(context.WithoutCancel(ctx), nil) // it is too old soon, anyway

			return
		case <-ticker.C:
		}

		text, gist, err := n.write()
		if err == nil && bytes.Equal(gist, last) && n.now().Sub(pinned) < repinEvery {
			continue
		}

		if err == nil {
			err = n.pin(ctx, text)
		}

		code := rulestore.CodeOf(err) // Busy comes of an import, and passes
		n.unwritable.Store(code == rulestore.ReadOnly || code == rulestore.Full || code == rulestore.Unavailable)

		if err == nil {
			if failed {
				n.log.Info("the rule store takes notes of the holders again")
			}

			last, pinned, failed = gist, n.now(), false
		} else if ctx.Err() == nil && !failed {
			failed = true
			n.log.Warn("the rule store takes no note of the holders: other coordinators do not list them", "error", err)
		}
	}
}

func (n *notes) pin(ctx context.Context, text []byte) error {
	ctx, cancel := context.WithTimeout(ctx, notesWithin)
	defer cancel()

	return n.board.Pin(ctx, n.from, text)
}

// write makes the note, and the part of it that is news when it changes.
func (n *notes) write() (text, gist []byte, err error) {
	own := n.own()
	one := note{More: own.more, Asked: talliesOf(own.asked)}

	for i := range own.instances {
		in := &own.instances[i]
		one.Instances = append(one.Instances, noted{
			Name: in.Name, Incarnation: in.Incarnation, Version: in.Version, Bare: in.Bare, Tallies: talliesOf(in.Tallies),
		})
	}

	if gist, err = json.Marshal(one); err != nil {
		return nil, nil, err
	}

	for i := range own.instances {
		one.Instances[i].AgeMillis = n.now().Sub(own.instances[i].Seen).Milliseconds()
	}

	for _, p := range own.peaks[:min(len(own.peaks), maxPeaks)] {
		one.Peaks = append(one.Peaks, peaked{p.Rule, p.Key, p.Tokens, p.Per.Milliseconds()})
	}

	for {
		text, err = json.Marshal(one)
		if err != nil || len(text) <= rulestore.MaxNote {
			return text, gist, err
		}

		half := len(one.Instances) / 2 // the others have newer rules
		one.More += len(one.Instances) - half
		one.Instances, one.Peaks = one.Instances[:half], nil
	}
}

// gathered is what the coordinators of a fleet know together.
type gathered struct {
	instances []coordinator.Instance // ordered by name
	more      int
	asked     []ledger.Tally
	peaks     []coordinator.Peak
	// newest is the version of the rules in the store, as people see it; 0 where there is none to ask.
	newest uint64
	// coordinators is how many know this, and partial says that others may know more.
	coordinators int
	partial      bool
}

// own is what this coordinator knows.
func (n *notes) own() *gathered {
	g := &gathered{coordinators: 1, asked: n.coordinator.Asked()}
	g.instances, g.more = n.coordinator.Roster(maxPinned)

	if n.self != nil {
		self := n.self()
		g.instances = slices.DeleteFunc(g.instances, func(one coordinator.Instance) bool {
			if one.Incarnation == self.Incarnation {
				self.Tallies = one.Tallies
			}

			return one.Incarnation == self.Incarnation
		})
		g.instances = append(g.instances, self)
	}

	if n.meter != nil {
		set := n.rules()
		ids := make([]string, len(set.Rules))

		for i, r := range set.Rules {
			ids[i] = r.ID
		}

		g.peaks = n.meter.Peaks(n.now().UnixMicro(), ids...)
	}

	return g
}

// gather adds to what this coordinator knows what the others of its store do.
func (n *notes) gather(ctx context.Context) *gathered {
	g := n.own()
	defer func() { g.settle(n.now()) }()

	if n.board == nil {
		g.partial = !n.alone

		return g
	}

	ctx, cancel := context.WithTimeout(ctx, notesWithin)
	defer cancel()

	list, head, err := n.board.Notes(ctx)
	if err != nil {
		g.partial = true

		return g
	}

	g.newest, g.partial = head.Rules, len(list) == rulestore.MaxNotes

	for _, one := range list {
		var other note
		if one.From == n.from || json.Unmarshal(one.Body, &other) != nil { // of another release, or written by hand
			continue
		}

		g.add(&other, n.now().Add(-one.Age))
	}

	return g
}

// add takes in what another coordinator wrote at a time.
func (g *gathered) add(other *note, at time.Time) {
	g.coordinators++
	g.more += other.More
	g.asked = append(g.asked, ledgerOf(other.Asked)...)

	for _, in := range other.Instances {
		g.instances = append(g.instances, coordinator.Instance{
			Name: in.Name, Incarnation: in.Incarnation, Version: in.Version, Bare: in.Bare, Tallies: ledgerOf(in.Tallies),
			Seen: at.Add(-time.Duration(in.AgeMillis) * time.Millisecond),
		})
	}

	for _, p := range other.Peaks {
		use := coordinator.Use{Tokens: p.Tokens, Per: time.Duration(p.PerMillis) * time.Millisecond}
		g.peaks = append(g.peaks, coordinator.Peak{Rule: p.Rule, Key: p.Key, Use: use})
	}
}

func talliesOf(list []ledger.Tally) []tally {
	out := make([]tally, len(list))
	for i, one := range list {
		out[i] = tally(one)
	}

	return out
}

func ledgerOf(list []tally) []ledger.Tally {
	out := make([]ledger.Tally, len(list))
	for i, one := range list {
		out[i] = ledger.Tally(one)
	}

	return out
}

// processName is what a process calls itself in notes.
func processName(incarnation uint64) string { return strconv.FormatUint(incarnation, 16) }
