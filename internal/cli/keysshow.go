package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/leaseway/leaseway/internal/admin"
	"github.com/leaseway/leaseway/internal/server"
)

const keysShowHelp = `Ask a server what a key has left: under each rule, whatever the rule counts by, or under the one that is named. It
only looks: nothing is charged or changed.

With --store it is read from Redis itself, without a server, and under one rule: how many tokens are left and when they were
last refilled, who holds leases of it, and where it is kept. A rule with keyBy: global has no KEY there.

Redis keeps no keys as they are. A rule and a key are hashed together, and the hash says in which Redis key the ledger is; so
one must know the key to find it, and whoever reads Redis does not learn who is limited. A ledger that says nothing any more
(a full bucket without leases) is not kept at all.

With --store and --rules, KEY is read as the rule would: its parts are one argument each (a list in keyBy), normalized, with an
address as its network and "METHOD /path" for endpoint; and a key that Redis does not have is shown with its whole budget.
Without --rules KEY is taken as it is.`

// keysShow is what keys show was asked.
type keysShow struct {
	remote

	store server.Config
	rules string
	test  bool
}

func newKeysShow() *cobra.Command {
	f := &keysShow{}
	cmd := &cobra.Command{
		Use:   "show [RULE] [KEY]",
		Short: "Show what a key has left",
		Long:  keysShowHelp,
		Example: "  leaseway keys show acme\n" +
			"  leaseway keys show search-per-key acme --context prod\n" +
			"  leaseway keys show --store redis://127.0.0.1:6379 search-per-key acme\n" +
			"  leaseway keys show --store redis://127.0.0.1:6379 --rules rules.yaml per-user-and-endpoint ada 'GET /v1/search'\n" +
			"  leaseway keys show --store redis://127.0.0.1:6379 login-per-ip 203.0.113.7 -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			asked, err := f.whom(cmd, args)

			switch {
			case err != nil:
				return err
			case asked:
				return f.run(f.ask)(cmd, args)
			default:
				return f.read(cmd, args)
			}
		},
	}

	flags := cmd.Flags()
	f.addTo(flags, true)
	flags.AddFlagSet(f.store.StoreFlags(""))
	flags.StringVar(&f.rules, "rules", "", "with --store: read KEY as the rule in this `file` would")
	flags.BoolVar(&f.test, "test", false, "with --store: of the budget that requests of class test spend")
	flags.SortFlags = false
	completeForms(cmd)

	return cmd
}

// whom says whether a server is asked, rather than Redis read, and refuses what does not go together.
func (f *keysShow) whom(cmd *cobra.Command, args []string) (asked bool, err error) {
	given := func(names ...string) string {
		for _, name := range names {
			if cmd.Flags().Changed(name) {
				return name
			}
		}

		return ""
	}

	switch {
	case !cmd.Flags().Changed("store"):
		if len(args) != 1 && len(args) != 2 {
			return true, errors.New("keys show needs the KEY, or RULE and KEY, to ask a server (see leaseway keys show --help)")
		}

		if name := given("rules", "test", "store-prefix", "store-password-file", "store-sentinel-password-file", "store-ca", "store-cert",
			"store-key", "store-connections", "store-dial-timeout", "store-silence", "store-own-clock"); name != "" {
			return true, fmt.Errorf("--%s needs --store redis://HOST:PORT, which it is for (see leaseway keys show --help)", name)
		}

		return true, nil
	case len(args) == 0:
		return false, errors.New("keys show needs the RULE, and the KEY unless it is global (see leaseway keys show --help)")
	}

	if name := given("server", "context", "token", "token-file", "ca", "client-cert", "client-key"); name != "" {
		return false, fmt.Errorf("--%s is for asking a server, --store for reading Redis: leave one out", name)
	}

	return false, nil
}

// limitPage is what a key has left under some rules.
type limitPage struct {
	Limits []admin.LimitView `json:"limits"`
	Next   string            `json:"next,omitempty"`
}

// ask has a server say what a key has left.
func (f *keysShow) ask(ctx context.Context, cmd *cobra.Command, c *client, args []string) error {
	all, ruleID, key := limitPage{Limits: []admin.LimitView{}}, "", args[len(args)-1]
	if len(args) > 1 {
		ruleID = args[0]
	}

	for more := true; more; more = all.Next != "" {
		page := limitPage{}
		call := apiCall{method: http.MethodPost, path: []string{"v1", "limits"}}.sending(map[string]string{"key": key})

		if err := c.do(ctx, call.with("rule", ruleID, "limit", "1000", "after", all.Next), &page); err != nil {
			return err
		}

		page.Limits = append(all.Limits, page.Limits...)
		all = page
	}

	if ruleID != "" && len(all.Limits) == 0 {
		return fmt.Errorf("the server has no rule %q for such a key (leaseway rules list shows the rules)", ruleID)
	}

	return show(cmd, &f.remote, all, func(w io.Writer, all limitPage) error { return writeLimits(w, all.Limits) })
}

// read prints what Redis has of a key.
func (f *keysShow) read(cmd *cobra.Command, args []string) error {
	write, err := formOf(f.output, writeKeyTable)
	if err != nil {
		return err
	}

	config, err := redisOf(cmd, &f.store)
	if err != nil {
		return err
	}

	key, set, err := f.key(args[0], args[1:])
	if err != nil {
		return err
	}

	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	shown, err := showKey(ctx, config, set, key)
	if err != nil {
		return &failure{err}
	}

	if shown.Key = strings.Join(args[1:], " "); set != nil && set.Rule(args[0]).Secret {
		shown.Key = "(secret)"
	}

	return write(cmd.OutOrStdout(), shown)
}
