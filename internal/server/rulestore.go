package server

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/rulefeed"
	"github.com/leaseway/leaseway/internal/rulestore/postgres"
	"github.com/leaseway/leaseway/internal/rulestore/sqlite"
	"github.com/leaseway/leaseway/rule"
)

const (
	sqliteStore = "sqlite"
	// rulesName is the file of the rule store in the data directory, when nothing is said.
	rulesName = "rules.db"
)

// opener opens a rule store.
type opener func(ctx context.Context) (rulefeed.Opened, error)

// ruleStore returns how the store that the settings name is opened. The error is a *UsageError without the password in it.
func (c *Config) ruleStore() (opener, error) {
	kind, rest, hasRest := strings.Cut(c.RuleStore, ":")

	switch {
	case c.RuleStore == "" || c.RuleStore == sqliteStore:
		return openSQLite(filepath.Join(c.stateDir(), rulesName)), c.noRulePassword()
	case kind == sqliteStore && hasRest && rest != "":
		return openSQLite(rest), c.noRulePassword()
	case kind == "postgres" || kind == "postgresql":
		return c.postgres()
	}

	return nil, usage("--rule-store is none of sqlite, sqlite:FILE and postgres://USER@HOST/DATABASE: write one of them")
}

// ruleStoreKind returns what the rule store is: sqlite or postgres.
func (c *Config) ruleStoreKind() string {
	if strings.HasPrefix(c.RuleStore, "postgres") {
		return "postgres"
	}

	return sqliteStore
}

// OpenRuleStore opens the rule store that RuleStore, RuleStorePasswordFile and DataDir name, beside a server that may have it open,
// too. The error is a *UsageError where the settings are wrong.
func (c *Config) OpenRuleStore(ctx context.Context) (rulefeed.Opened, error) {
	if c.DataDir == "" && (c.RuleStore == "" || c.RuleStore == sqliteStore) {
		return nil, usage("--rule-store sqlite is in a data directory: name the server's by --data-dir, or write sqlite:FILE")
	}

	open, err := c.ruleStore()
	if err != nil {
		return nil, err
	}

	return open(ctx)
}

// RuleStoreFlags are the settings by which OpenRuleStore finds the store.
func (c *Config) RuleStoreFlags() *pflag.FlagSet {
	fs := pflag.NewFlagSet("rule store", pflag.ContinueOnError)
	fs.StringVar(&c.RuleStore, "rule-store", "",
		"where the rules are kept: sqlite, sqlite:FILE or postgres://USER:PASSWORD@HOST/DATABASE (default sqlite, in the data directory)")
	fs.StringVar(&c.RuleStorePasswordFile, "rule-store-password-file", "", "`file` with the password of the Postgres user")

	return fs
}

func openSQLite(path string) opener {
	return func(ctx context.Context) (rulefeed.Opened, error) { return sqlite.Open(ctx, sqlite.Config{Path: path}) }
}

func (c *Config) noRulePassword() error {
	if c.RuleStorePasswordFile != "" {
		return usage("--rule-store-password-file needs --rule-store postgres://…, which it is for")
	}

	return nil
}

// postgres adds the password of the file to the URL.
func (c *Config) postgres() (opener, error) {
	target, err := url.Parse(c.RuleStore)
	if err != nil {
		return nil, usage("--rule-store is no URL: write postgres://USER@HOST/DATABASE, with special characters as %%XX")
	}

	if path := c.RuleStorePasswordFile; path != "" {
		if _, has := target.User.Password(); has {
			return nil, usage("--rule-store and --rule-store-password-file both have a password: leave it out of the URL")
		}

		text, err := readBounded(path, maxPassword)
		if err != nil {
			return nil, unusable("--rule-store-password-file", err)
		}

		target.User = url.UserPassword(target.User.Username(), string(bytes.TrimRight(text, "\r\n")))
	}

	return func(ctx context.Context) (rulefeed.Opened, error) {
		return postgres.Open(ctx, postgres.Config{URL: target.String()})
	}, nil
}

// seed reads the rules that an empty store begins with; nil for none. The error is a *UsageError.
func (c *Config) seed() (*rule.Set, error) {
	if c.RulesSeed == "" {
		return nil, nil //nolint:nilnil // nothing is named, and nothing wrong
	}

	text, err := readBounded(c.RulesSeed, maxRules)
	if err != nil {
		return nil, unusable("--rules-seed", err)
	}

	set, err := rule.Parse(c.RulesSeed, text)
	if err != nil {
		return nil, &UsageError{Problems: eachError(err)}
	}

	return set, nil
}

// openFeed puts the rules of the rule store in force.
func (e *engine) openFeed(ctx context.Context, config *Config, book *coordinator.Book) error {
	open, err := config.ruleStore()
	if err != nil {
		return err
	}

	seed, err := config.seed()
	if err != nil {
		return err
	}

	e.ruleStore = rulefeed.NewLate(ctx, open)
	e.overrides = coordinator.NewOverrides(rulefeed.Source{Store: e.ruleStore}, nil, e.log)

	e.feed, err = rulefeed.New(rulefeed.Config{
		Store: e.ruleStore, Book: book, Dir: config.stateDir(), Kind: config.ruleStoreKind(), Seed: seed,
		OnOverrides: e.overrides.Changed, Logger: e.log,
	})
	if err != nil {
		return err
	}

	if err := e.feed.Open(ctx); err != nil {
		return fmt.Errorf("%w (--rule-store names the store, in --data-dir unless it says otherwise; --rules FILE needs none)", err)
	}

	if len(book.Current().Rules) == 0 {
		e.log.Warn("no rules: everything is allowed; write rules.yaml, then run: leaseway rules apply -f rules.yaml")
	}

	return nil
}

// closeRules closes the rule store, if there is one.
func (e *engine) closeRules() error {
	if e.ruleStore == nil {
		return nil
	}

	e.overrides.Wait()

	return e.ruleStore.Close()
}

// feedFault is what is worse than it should be about the rule store; "" for nothing.
func (e *engine) feedFault() string {
	if e.rules != nil && e.rules.failed.Load() {
		return "the rule file cannot be used, as the log says: the last good rules go on"
	}

	if e.feed == nil {
		return ""
	}

	switch stats := e.feed.Stats(); {
	case stats.Older:
		return "an older state of the rule store was found: the last good rules go on until it has stood for a few seconds"
	case stats.Down != "":
		return "the rule store does not answer: the last good rules go on, and none can be changed"
	case e.notes.unwritable.Load():
		return "the rule store takes no changes, as the log says: its rules go on"
	case stats.Stuck != "":
		return "the rules of the rule store are not in force: the last good ones go on"
	case stats.Bad > 0:
		return fmt.Sprintf("%d rows of the rule store are no rules: what they were before goes on", stats.Bad)
	}

	return ""
}

// feedCounts say whether the rules in force are those of the rule store.
func feedCounts(feed *rulefeed.Feed) source {
	return func(s *scrape) {
		stats := feed.Stats()
		s.gauge("rule_store_up", "1 while the rule store answers.", 1-flag(stats.Down != ""))
		s.gauge("rule_store_bad_rows", "Rows of the rule store that are no rules, as of the last reading.", int64(stats.Bad))
		s.gauge("rule_store_version", "Version of the rule store that is in force.", int64(stats.Version))
		s.gauge("rules_reload_failed", "1 while the rules of the store are not what is in force.", flag(stats.Stuck != ""))
		s.counter("rules_reloads_total", "Changes of the rules.", stats.Changes, ofOutcome("applied"))
		s.counter("rules_reloads_total", "Changes of the rules.", stats.Refused, ofOutcome("refused"))
	}
}

// overrideCounts say how overrides are found.
func overrideCounts(overrides *coordinator.Overrides) source {
	return func(s *scrape) {
		const lookups = "Asks for keys that may have an override, by whether it was known already."

		stats := overrides.Stats()
		s.counter("override_lookups_total", lookups, stats.Hits, ofOutcome("known"))
		s.counter("override_lookups_total", lookups, stats.Misses, ofOutcome("looked_up"))
		s.counter("override_lookups_failed_total", "Calls to the rule store for overrides that failed.", stats.Failures)
		s.counter("override_unfit_total", "Asks whose override the rule cannot keep any more: they had the rule's limit.", stats.Unfit)
		s.gauge("override_keys", "Keys that it is remembered of whether they have an override.", stats.Kept)
	}
}

// oneSource refuses settings that are for the other of the two places where rules may come from.
func (c *Config) oneSource() error {
	var errs []error

	if c.Rules != "" {
		if c.RuleStore != "" {
			errs = append(errs, usage("--rule-store does not go with --rules: rules come from a file or from a store; leave one out"))
		}

		if c.RulesSeed != "" {
			errs = append(errs, usage("--rules-seed is for a rule store: leave it out, since --rules names all the rules"))
		}
	}

	if _, err := c.ruleStore(); err != nil {
		errs = append(errs, err)
	}

	return problems(errs...)
}
