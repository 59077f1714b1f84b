package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/leaseway/leaseway/internal/admin"
	"github.com/leaseway/leaseway/internal/phrase"
)

func newOverrides() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "overrides",
		Short: "Negotiated limits: other limits for single keys",
		Args:  noArguments,
		RunE:  run(func(cmd *cobra.Command, _ []string) error { return cmd.Help() }),
	}
	cmd.AddCommand(newOverridesSet(), newOverridesList(), newOverridesDelete(), newOverridesImport(), newOverridesExport())

	return cmd
}

func newOverridesSet() *cobra.Command {
	var (
		w        writing
		text     admin.OverrideText
		lasts    time.Duration
		leaseTTL time.Duration
	)

	cmd := &cobra.Command{
		Use: "set RULE KEY", Short: "Give one key another limit", Args: arguments("RULE", "KEY"),
		Long: "Give one key of a rule another limit, burst or lease, in the place of any that it was given before. It is in force\n" +
			"within a second. Keys that are credentials are stored as hashes.",
		Example: "  leaseway overrides set search-per-key acme --limit 5000 --burst 8000 --note 'contract 17'\n" +
			"  leaseway overrides set search-per-key acme --limit 9000 --for 48h",
		RunE: w.run(func(ctx context.Context, cmd *cobra.Command, c *client, args []string) error {
			text.Key = args[1]

			if lasts > 0 {
				text.Expires = time.Now().Add(lasts + time.Second - 1).UTC().Format(time.RFC3339) // not sooner than was said
			}

			if leaseTTL > 0 {
				text.LeaseTTL = leaseTTL.String()
			}

			call := adminCall(http.MethodPut, "rules", args[0], "overrides").sending(text)

			return w.finish(ctx, cmd, c, call)
		}),
	}
	flags := cmd.Flags()
	flags.Int64Var(&text.Limit, "limit", 0, "`tokens` a window (default: the rule's)")
	flags.Int64Var(&text.Burst, "burst", 0, "`tokens` at most (default: the limit, or the rule's)")
	flags.DurationVar(&leaseTTL, "lease", 0, "how long a lease lives (default: the rule's)")
	flags.StringVar(&text.Expires, "expires", "", "`when` it ends, such as 2026-12-01T18:00:00Z")
	flags.DurationVar(&lasts, "for", 0, "how long it lasts, instead of --expires")
	flags.StringVar(&text.Note, "note", "", "a `note` for people")
	flags.BoolVar(&text.Secret, "secret", false, "store a hash of the key alone")
	w.addTo(cmd, false)
	cmd.MarkFlagsMutuallyExclusive("expires", "for")

	return cmd
}

// finish makes a call that answers with what it did.
func (w *writing) finish(ctx context.Context, cmd *cobra.Command, c *client, call apiCall) error {
	var done admin.Done
	if err := c.do(ctx, w.on(call), &done); err != nil {
		return err
	}

	return show(cmd, &w.remote, done, writeDone)
}

func writeDone(w io.Writer, done admin.Done) error {
	if done.Count > 0 {
		fmt.Fprintln(w, counted(int(done.Count), "override"))
	}

	return writeVersion(w, done.DryRun, done.Version)
}

// overridePage is a page of the list of overrides.
type overridePage struct {
	Overrides []admin.OverrideView `json:"overrides"`
	Next      string               `json:"next,omitempty"`
	Bad       []admin.BadRow       `json:"bad,omitempty"`
}

func newOverridesList() *cobra.Command {
	var (
		r        remote
		key      string
		after    string
		pageSize int
	)

	cmd := &cobra.Command{
		Use: "list RULE", Short: "List a rule's overrides, a page of them", Args: arguments("RULE"),
		Long: "List overrides of a rule, or look one key up. There may be a million: --after goes on where a page ended, and export\n" +
			"writes all of them.",
		RunE: r.run(func(ctx context.Context, cmd *cobra.Command, c *client, args []string) error {
			call := get("rules", args[0], "overrides").with("key", key, "after", after, "limit", strconv.Itoa(pageSize))

			var page overridePage
			if err := c.do(ctx, call, &page); err != nil {
				return err
			}

			return show(cmd, &r, page, writeOverrides)
		}),
	}
	cmd.Flags().StringVar(&key, "key", "", "look this `key` up")
	cmd.Flags().StringVar(&after, "after", "", "where the page begins: as the page before `says`")
	cmd.Flags().IntVar(&pageSize, "limit", 100, "`how many` at most, up to 1000")
	r.addTo(cmd.Flags(), true)
	completeForms(cmd)

	return cmd
}

func writeOverrides(out io.Writer, page overridePage) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "KEY\tLIMIT\tBURST\tLEASE\tEXPIRES\tVERSION\tNOTE")

	for i := range page.Overrides {
		one := &page.Overrides[i]

		key := one.Key
		switch {
		case one.Secret:
			key = one.Hint + " (secret)"
		case one.KeyHex != "":
			key = "0x" + one.KeyHex
		}

		expires := orDash(one.Expires)
		if one.Expired {
			expires += " (over)"
		}

		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\n", key, numberOrDash(one.Limit), numberOrDash(one.Burst), orDash(one.LeaseTTL),
			expires, one.Version, one.Note)
	}

	if err := w.Flush(); err != nil {
		return err
	}

	if page.Next != "" {
		fmt.Fprintf(out, "more: --after %s\n", page.Next)
	}

	return nil
}

func numberOrDash(n int64) string {
	if n == 0 {
		return "-"
	}

	return strconv.FormatInt(n, 10)
}

func newOverridesDelete() *cobra.Command {
	w, id := &writing{}, ""
	cmd := &cobra.Command{
		Use: "delete RULE KEY | RULE --id ID", Short: "Give one key its rule's limit again",
		Long: "Take the override of a key away: of KEY, or of the one that overrides list -o json shows with this id, for keys of which\n" +
			"only a hint is kept.",
		Example: "  leaseway overrides delete search-per-key acme\n" +
			"  leaseway overrides delete search-per-key --id c4w1MC0Ojpb-d4kBmcI_VpSdTdamKCDMnfPCFhHDPAlv",
		Args: func(cmd *cobra.Command, args []string) error {
			if id != "" {
				return arguments("RULE")(cmd, args)
			}

			return arguments("RULE", "KEY")(cmd, args)
		},
		RunE: w.run(func(ctx context.Context, cmd *cobra.Command, c *client, args []string) error {
			call := adminCall(http.MethodDelete, "rules", args[0], "overrides").with("id", id)
			if id == "" {
				call = call.with("key", args[1])
			}

			return w.finish(ctx, cmd, c, call)
		}),
	}
	cmd.Flags().StringVar(&id, "id", "", "the override with this `id`, instead of KEY")
	w.addTo(cmd, false)

	return cmd
}

func newOverridesImport() *cobra.Command {
	var (
		w                  writing
		file, form, ruleID string
	)

	cmd := &cobra.Command{
		PreRunE: func(*cobra.Command, []string) error { return lineForm(form) },
		Use:     "import -f FILE", Short: "Import many overrides: all of them, or none", Args: noArguments,
		Long: "Send overrides, one a line: in NDJSON, or in CSV with the names of the columns in the first line (rule, key, limit,\n" +
			"burst, leaseTtl, expires, note, delete). They take effect together. The first line that is wrong is named,\n" +
			"and nothing is changed.",
		Example: "  leaseway overrides import -f contracts.csv --rule search-per-key",
		RunE: w.run(func(ctx context.Context, cmd *cobra.Command, c *client, _ []string) error {
			in := cmd.InOrStdin()

			if file != "-" {
				opened, err := os.Open(file) //nolint:gosec // whoever runs the command names the file
				if err != nil {
					return unreadable(err)
				}
				defer opened.Close()

				in = opened
			}

			kind := "application/x-ndjson"
			if form == formCSV || form == "" && strings.HasSuffix(strings.ToLower(file), ".csv") {
				kind = "text/csv"
			}

			call := adminCall(http.MethodPost, "overrides", "import").sendingText(kind, in)

			done, err := followImport(ctx, c, w.on(call).with("rule", ruleID, "progress", "true"), cmd.ErrOrStderr())
			if err != nil {
				return atLines(err, namedInput(file))
			}

			return show(cmd, &w.remote, *done, writeDone)
		}),
	}
	cmd.Flags().StringVarP(&file, "filename", "f", "", "the `file`, or - for the standard input")
	cmd.Flags().StringVar(&form, "format", "", "`form` of the file: ndjson or csv (default: by its name)")
	cmd.Flags().StringVar(&ruleID, "rule", "", "the `rule` of lines that name none")
	w.addTo(cmd, false)

	if err := cmd.MarkFlagRequired("filename"); err != nil {
		panic(err) // the flag is just above
	}

	return cmd
}

// formCSV and formNDJSON are what many overrides are written in.
const (
	formCSV    = "csv"
	formNDJSON = "ndjson"
)

// lineForm refuses another form; "" is for the name of the file to say.
func lineForm(form string) error {
	if form != "" && form != formCSV && form != formNDJSON {
		return fmt.Errorf("--format %q is none of %s and %s", form, formNDJSON, formCSV)
	}

	return nil
}

// tellEvery is how many overrides are read between two lines about it.
const tellEvery = 100_000

// followImport sends an import and says how far it is.
func followImport(ctx context.Context, c *client, call apiCall, progress io.Writer) (*admin.Done, error) {
	resp, err := c.open(ctx, call)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()

	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		var p admin.Progress
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			return nil, fmt.Errorf("the server's answer is not that of an import: %w", err)
		}

		switch {
		case p.Problem != nil:
			return nil, &refused{server: phrase.Address(c.entry.Server), problem: *p.Problem}
		case p.Done != nil:
			if p.Read == 0 {
				fmt.Fprintln(progress, "there are no overrides, only the names of the columns")
			}

			return p.Done, nil
		case p.Read%tellEvery == 0:
			fmt.Fprintf(progress, "%d read\n", p.Read)
		}
	}

	return nil, errors.New("the server broke off: look with leaseway audit --action overrides. whether the import was made")
}

func newOverridesExport() *cobra.Command {
	var (
		r                 remote
		out, form, ruleID string
	)

	cmd := &cobra.Command{
		PreRunE: func(*cobra.Command, []string) error { return lineForm(form) },
		Use:     "export", Short: "Write all overrides, as import takes them", Args: noArguments,
		RunE: r.run(func(ctx context.Context, cmd *cobra.Command, c *client, _ []string) error {
			if form == "" && strings.HasSuffix(strings.ToLower(out), ".csv") {
				form = formCSV
			}

			resp, err := c.open(ctx, get("overrides", "export").with("rule", ruleID, "format", form))
			if err != nil {
				return err
			}
			defer resp.Body.Close()

			return toFile(out, cmd.OutOrStdout(), func(w io.Writer) error {
				_, err := io.Copy(w, resp.Body)

				return err
			})
		}),
	}
	cmd.Flags().StringVar(&out, "out", "", "`file` to write, which must not exist (default: the standard output)")
	cmd.Flags().StringVar(&form, "format", "", "`form`: ndjson or csv (default: by the name of the file)")
	cmd.Flags().StringVar(&ruleID, "rule", "", "only those of this `rule`")
	r.addTo(cmd.Flags(), false)

	return cmd
}
