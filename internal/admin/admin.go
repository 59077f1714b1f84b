// Package admin is the door for people: a REST API to read and change rules, settings, overrides and kill switches, to see who
// changed what, and to look after a key's budget.
//
//	HTTP ── access ── route ──┬── rulestore.Store   rules, settings, overrides, records; each write is one version
//	           │              ├── Latest            the rules as this server follows them, also while the store is down
//	         tokens           └── Fleet             who runs which version, what a key has left
//
// It is a door like the others: it decides nothing and keeps nothing of its own. Whoever may call is in access.go, and every
// route names the role that it asks for. What a write changed, who made it and why goes into the record of its version.
//
// Neighbours: internal/rulestore and rule below; internal/server above, which implements Fleet, opens the listener and hands
// rules on to the fleet.
package admin

import (
	"errors"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/leaseway/leaseway/internal/rulestore"
)

// ErrUnknownRule is what Fleet answers about a rule that is not in force.
var ErrUnknownRule = errors.New("there is no such rule in force")

// Config is what a Door works with.
type Config struct {
	// Store keeps what the API changes. One that takes no changes, such as a file, answers Write with an error of code
	// rulestore.ReadOnly, whose Place and Fix name the file. Required.
	Store rulestore.Store
	// Latest is the state as the server follows it, which may be a moment old, and goes on while the store is down; nil before
	// the first. The door does not change it. Required.
	Latest func() *rulestore.State
	// Fleet is the running fleet. Required.
	Fleet Fleet
	// Callers says whether a token is one of those by which services and holders call; nil when none is asked for.
	Callers interface{ Allows(token string) bool }
	// Certificates are the roles of those who show a client certificate that the listener has verified.
	Certificates []Certificate
	// Now is the clock; nil for that of the system.
	Now func() time.Time
	// Logger hears of writes and refused callers; nil for nobody.
	Logger *slog.Logger
}

// Certificate gives the client certificates of a name a role.
type Certificate struct {
	// Name is the common name, or a DNS, URI or e-mail name, of the certificate.
	Name string
	// Role is what they may do.
	Role Role
	// Rules are how the ids of the rules begin that they may see and change; empty for all.
	Rules []string
}

// Door is the admin API. It is safe for concurrent use.
type Door struct {
	config  Config
	log     *slog.Logger
	view    *view
	strikes *strikes
	bare    *bare

	tokens, callers atomic.Pointer[tokenBook] // of the state last asked for
}

// New returns a Door. The error names what config lacks.
func New(config Config) (*Door, error) {
	switch {
	case config.Store == nil:
		return nil, errors.New("admin: Config.Store is missing (pass a rule store)")
	case config.Latest == nil:
		return nil, errors.New("admin: Config.Latest is missing (pass the state that the server follows)")
	case config.Fleet == nil:
		return nil, errors.New("admin: Config.Fleet is missing (pass what knows the running fleet)")
	}

	if config.Now == nil {
		config.Now = time.Now
	}

	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}

	return &Door{
		config: config, log: config.Logger, strikes: newStrikes(), bare: &bare{seen: map[netip.Addr]*atomic.Int64{}},
		view: &view{store: config.Store, latest: config.Latest, turn: make(chan struct{}, 1)},
	}, nil
}

// Register adds the door's routes for people to api, all below /admin.
func (d *Door) Register(api huma.API) {
	secure(api)
	d.registerRules(api)
	d.registerHistory(api)
	d.registerAudit(api)
	d.registerDocument(api)
	d.registerOverrides(api)
	d.registerStreams(api)
	d.registerSettings(api)
	d.registerSwitches(api)
	d.registerTokens(api)
	d.registerFleet(api)
	d.registerBudgets(api)
}

// RegisterLimits adds /v1/limits to api, which services ask, too: it belongs beside the door where they ask for decisions.
func (d *Door) RegisterLimits(api huma.API) {
	secure(api)
	d.registerLimits(api)
}
