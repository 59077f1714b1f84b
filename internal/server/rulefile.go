package server

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/leaseway/leaseway/rule"
)

// maxRules is the size of the largest rule document, in bytes.
const maxRules = 32 << 20

// ruleFile puts the rules of a file in force, and again whenever its content changed. A bad content, or none, leaves the last
// good rules in force. Every content is judged, and logged, once.
//
//	open ──good──▶ in force ◀──good── refresh ──bad, gone──▶ in force still; failed
//	  └───bad────▶ refusal to start
type ruleFile struct {
	path  string
	now   func() *rule.Set                            // in force; nil before there is any, and for tests of the file alone
	apply func(*rule.Set) (version uint64, err error) // version is 0 as long as nobody has numbered them
	log   *slog.Logger

	content [sha256.Size]byte // that was judged last
	trouble string            // why there was none to judge, when last logged

	failed  atomic.Bool  // the rules in force are not those of the file
	good    atomic.Int64 // contents that were put in force, the first not counted
	refused atomic.Int64 // contents that were refused
	missed  atomic.Int64 // times at which there was none to read: the file was gone, or is no file, or is another's
}

// open puts the rules in force for the first time. The error is a *UsageError that lists everything wrong with the file.
func (f *ruleFile) open() error {
	text, err := readBounded(f.path, maxRules)
	if err != nil {
		return unusable("--rules", err)
	}

	f.content = sha256.Sum256(text)

	set, err := rule.Parse(f.path, text)
	if err != nil {
		return &UsageError{Problems: eachError(err)}
	}

	version, err := f.apply(set)
	if err != nil {
		return usage("--rules %s: %v", f.path, err)
	}

	if version > 0 { // or else they are numbered when there is a store
		f.log.Info("rules in force", "path", f.path, "rules", len(set.Rules), "version", version)
	}

	return nil
}

// refresh looks at the file again. Only the follower calls it.
func (f *ruleFile) refresh() {
	text, err := readBounded(f.path, maxRules)

	switch {
	case errors.Is(err, errUnsettled):
		return // there will be another notice
	case errors.Is(err, os.ErrNotExist):
		f.unreadable(err, "it is gone; put it back, or restart without --rules")

		return
	case errors.Is(err, errNotRegular):
		f.unreadable(err, "put a regular file there")

		return
	case errors.Is(err, errTooLarge):
		f.unreadable(err, "write fewer rules: one rule counts for any number of keys, and overrides give some of them limits of their own")

		return
	case err != nil:
		f.unreadable(err, "let this process read it")

		return
	}

	content := sha256.Sum256(text)
	if content == f.content && f.trouble == "" {
		return
	}

	f.content, f.trouble = content, ""
	f.judge(text)
}

// judge puts text in force, or says why not.
func (f *ruleFile) judge(text []byte) {
	// A file that is being written is empty at first. No limits at all must be said, not left out.
	if len(bytes.TrimSpace(text)) == 0 {
		f.refuse(fmt.Errorf("%s is empty (to have no rules, write: rules: [])", f.path))

		return
	}

	set, err := rule.Parse(f.path, text)
	if err != nil {
		f.refuse(err)

		return
	}

	var renamed map[string]string
	if f.now != nil {
		renamed = set.Renamed(f.now())
	}

	version, err := f.apply(set)
	if err != nil {
		f.refuse(err)

		return
	}

	for _, id := range slices.Sorted(maps.Keys(renamed)) {
		f.log.Warn("a rule has another id: it is another rule, whose budgets are whole", "was", renamed[id], "rule", id)
	}

	f.failed.Store(false)
	f.good.Add(1)
	f.log.Info("rules in force", "path", f.path, "rules", len(set.Rules), "version", version)
}

func (f *ruleFile) refuse(err error) {
	f.failed.Store(true)
	f.refused.Add(1)

	list := eachError(err)
	f.log.Error("the changed rules are refused: the last good ones stay in force",
		"path", f.path, "error", list[0], "more", len(list)-1)
}

func (f *ruleFile) unreadable(err error, fix string) {
	f.failed.Store(true)

	if f.trouble == err.Error() {
		return // said already
	}

	f.trouble = err.Error()
	f.missed.Add(1)
	f.log.Warn("the rule file cannot be read: the last good rules stay in force", "path", f.path, "error", err, "fix", fix)
}

// eachError is the single errors of a rule document, or the one that it is.
func eachError(err error) []string {
	var list rule.Errors
	if !errors.As(err, &list) || len(list) == 0 {
		return []string{strings.TrimSpace(err.Error())}
	}

	texts := make([]string, len(list))
	for i := range list {
		texts[i] = list[i].Error()
	}

	return texts
}
