package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/leaseway/leaseway/internal/admin"
	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/internal/server"
)

// tokenList is the tokens without their secrets.
type tokenList struct {
	Tokens []admin.TokenView `json:"tokens"`
}

// drawnToken is a new token, which is shown this once.
type drawnToken struct {
	admin.TokenView

	Token    string   `json:"token,omitempty"`
	Required bool     `json:"required,omitempty"`
	Without  []string `json:"without,omitempty"`
}

func newToken() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make and revoke the tokens by which people and servers call, and require them",
		Args:  noArguments,
		RunE:  run(func(cmd *cobra.Command, _ []string) error { return cmd.Help() }),
	}
	cmd.AddCommand(newTokenCreate(), newTokenList(), newTokenRevoke(), newTokenRequire())

	return cmd
}

func newTokenCreate() *cobra.Command {
	var (
		w          writing
		name, role string
		prefixes   []string
		lasts      time.Duration
		require    bool
		store      server.Config
	)

	cmd := &cobra.Command{
		Use: "create --name NAME --role ROLE", Short: "Make a token, and print it this once", Args: noArguments,
		Long: "Make a token. It is printed this once, and kept as a hash. The first one has the role admin: until it is made callers\n" +
			"from the server's machine need none, and afterwards everybody does.\n\n" +
			"Roles: viewer reads; operator changes rules, overrides and switches; admin settings and tokens, too; holder is for API\n" +
			"servers that lease, and for callers of the check API. Who shows none is let in until leaseway token require is said, or\n" +
			"--require here.",
		Example: "  leaseway token create --name ada --role admin > ~/.leaseway-token\n" +
			"  leaseway token create --name api --role holder --token-file ~/.leaseway-token > holder.token\n" +
			"  leaseway token create --name ada --role admin --rule-store postgres://leaseway@db/leaseway\n" +
			"  leaseway token create --name team-search --role operator --rules search-",
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		// An empty variable of a shell must not make a token for all rules.
		if cmd.Flags().Changed("rules") && (len(prefixes) == 0 || slices.Contains(prefixes, "")) {
			return errors.New(`--rules "" would be all rules: write how the ids of some begin, or leave it out`)
		}

		if store.RuleStore != "" || store.DataDir != "" {
			return run(func(cmd *cobra.Command, _ []string) error {
				return drawInStore(cmd, &store, &admin.Token{Name: name, Role: role, Rules: prefixes}, w.reason)
			})(cmd, args)
		}

		return w.run(func(ctx context.Context, cmd *cobra.Command, c *client, _ []string) error {
			body := map[string]any{"name": name, "role": role}
			if len(prefixes) > 0 {
				body["rules"] = prefixes
			}

			if require {
				body["require"] = true
			}

			if lasts > 0 {
				body["expiresInSec"] = int64((lasts + time.Second - 1) / time.Second)
			}

			var drawn drawnToken

			call := adminCall(http.MethodPost, "tokens").sending(body)
			if err := c.do(ctx, w.on(call), &drawn); err != nil {
				return err
			}

			tellWithout(cmd.ErrOrStderr(), &drawn)

			return show(cmd, &w.remote, drawn, func(out io.Writer, drawn drawnToken) error {
				_, err := fmt.Fprintln(out, orDash(drawn.Token))

				return err
			})
		})(cmd, args)
	}
	flags := cmd.Flags()
	flags.StringVar(&name, "name", "", "`whose` it is: the author of what is done with it")
	flags.StringVar(&role, "role", "", "what it may do: `viewer`, operator, admin or holder")
	flags.StringSliceVar(&prefixes, "rules", nil, "how the `ids` of the rules begin that it is for (default: all rules)")
	flags.DurationVar(&lasts, "for", 0, "after `how long` it ends (default: never)")
	flags.BoolVar(&require, "require", false, "with the role holder: shut out at once who shows no token")
	flags.AddFlagSet(store.RuleStoreFlags())
	flags.StringVar(&store.DataDir, "data-dir", "", "the server's data `directory`, to make the token in its rule store without asking it")
	w.addTo(cmd, false)

	for _, flag := range []string{"name", "role"} {
		if err := cmd.MarkFlagRequired(flag); err != nil {
			panic(err) // the flags are just above
		}
	}

	return cmd
}

// tellWithout says what a new token for holders means to those that show none.
func tellWithout(w io.Writer, drawn *drawnToken) {
	who := strings.Join(drawn.Without, ", ")

	switch {
	case drawn.Role != admin.HolderRole || drawn.Token == "":
	case drawn.Required && who == "":
		fmt.Fprintln(w, "leaseway: API servers and callers of the check API that show no token are refused")
	case drawn.Required:
		fmt.Fprintf(w, "leaseway: API servers and callers of the check API that show no token are refused; these did until now: %s\n", who)
	case who == "":
		fmt.Fprintln(w, "leaseway: who shows no token is still let in, though this server has heard of nobody lately; "+
			"leaseway token require ends that")
	default:
		fmt.Fprintf(w, "leaseway: who shows no token is still let in: %s. Give them this one, then run leaseway token require\n", who)
	}
}

func newTokenRequire() *cobra.Command {
	var (
		w          writing
		off, force bool
	)

	cmd := &cobra.Command{
		Use: "require", Short: "Refuse API servers and services that show no token", Args: noArguments,
		Long: "Refuse API servers that lease, and callers of the check API, unless they show a token of role holder, and name who shows\n" +
			"none yet: nothing is changed then. It knows those who asked this coordinator within the last minute: where there are\n" +
			"several, look at leaseway rules status, or at the metric leaseway_without_token, of each before. --off lets all in again.",
		Example: "  leaseway token create --name api --role holder > holder.token     # give it to all that lease\n" +
			"  leaseway token require --reason 'all have one'",
		RunE: w.run(func(ctx context.Context, cmd *cobra.Command, c *client, _ []string) error {
			call := adminCall(http.MethodPut, "settings", "requireHolderToken").sending(!off)

			return w.send(ctx, cmd, c, call.with("force", onlyTrue(force)))
		}),
	}
	cmd.Flags().BoolVar(&off, "off", false, "let in again who shows none")
	cmd.Flags().BoolVar(&force, "force", false, "shut out who shows none yet, too")
	w.addTo(cmd, false)

	return cmd
}

// drawInStore makes a token in the rule store itself, for who may write to it: the first, where a server asks everybody for one.
func drawInStore(cmd *cobra.Command, store *server.Config, t *admin.Token, reason string) error {
	if t.Role != admin.Admin.String() || len(t.Rules) > 0 {
		return errors.New("in a rule store itself only tokens of role admin, for all rules, are made: ask the server for others")
	}

	// A token that never ends, where one was asked for that does, would go unnoticed.
	if cmd.Flags().Changed("for") || cmd.Flags().Changed("require") {
		return errors.New("--for and --require do not go with --data-dir and --rule-store: in a rule store itself only tokens " +
			"without an end are made; leave them out, or ask the server")
	}

	if store.DataDir != "" {
		store.DataDir = filepath.Clean(store.DataDir)
	}

	opened, err := store.OpenRuleStore(cmd.Context())
	if err != nil {
		return err
	}
	defer opened.Close()

	t.Created = time.Now().UTC().Truncate(time.Second)

	drawn, err := admin.NewToken(*t)
	if err != nil {
		return err
	}

	record, err := opened.Write(cmd.Context(), &rulestore.Change{
		Author: "rule store", Action: "tokens.create", Target: drawn.ID, Reason: reason, Settings: []rulestore.SettingChange{drawn.Setting},
	})
	if err != nil {
		return err
	}

	// A mistyped directory is a new store, too.
	if record.Seq == 1 {
		fmt.Fprintln(cmd.ErrOrStderr(),
			"leaseway: no server has used this rule store yet: start it with the same --data-dir or --rule-store")
	}

	_, err = fmt.Fprintln(cmd.OutOrStdout(), drawn.Text)

	return err
}

func newTokenList() *cobra.Command {
	r := &remote{}
	cmd := &cobra.Command{
		Use: "list", Short: "List the tokens, without what is secret of them", Args: noArguments,
		RunE: r.run(func(ctx context.Context, cmd *cobra.Command, c *client, _ []string) error {
			var list tokenList
			if err := c.do(ctx, get("tokens"), &list); err != nil {
				return err
			}

			return show(cmd, r, list, writeTokens)
		}),
	}
	r.addTo(cmd.Flags(), true)
	completeForms(cmd)

	return cmd
}

func writeTokens(out io.Writer, list tokenList) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tNAME\tROLE\tRULES\tCREATED\tEXPIRES")

	for i := range list.Tokens {
		one := &list.Tokens[i]

		prefixes, expires := "all", "never"
		if len(one.Rules) > 0 {
			prefixes = strings.Join(one.Rules, "*, ") + "*"
		}

		if !one.Expires.IsZero() {
			expires = one.Expires.Format(time.RFC3339)
		}

		if one.Expired {
			expires += " (over)"
		}

		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", one.ID, one.Name, one.Role, prefixes, one.Created.Format(time.RFC3339), expires)
	}

	return w.Flush()
}

func newTokenRevoke() *cobra.Command {
	w := &writing{}
	cmd := &cobra.Command{
		Use: "revoke ID", Short: "Have a token admit nobody any more", Args: arguments("ID"),
		RunE: w.run(func(ctx context.Context, cmd *cobra.Command, c *client, args []string) error {
			return w.finish(ctx, cmd, c, adminCall(http.MethodDelete, "tokens", args[0]))
		}),
	}
	w.addTo(cmd, false)

	return cmd
}
