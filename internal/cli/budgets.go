package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/leaseway/leaseway/internal/admin"
)

func writeLimits(out io.Writer, limits []admin.LimitView) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RULE\tKEY\tLEFT\tLIMIT\tWHOLE IN\tNEXT IN\tMODE\tWHY NOT")

	for i := range limits {
		one := &limits[i]

		mode := one.Mode
		if one.Switch != "" {
			mode += " (switch " + one.Switch + ")"
		}

		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%ds\t%ds\t%s\t%s\n", one.Rule, one.Key, one.Remaining, one.Limit, one.ResetSec, one.RetryAfterSec,
			mode, cmp.Or(one.Reason, "-"))
	}

	return w.Flush()
}

// budgetOf is what a change of a budget answers.
type budgetOf struct {
	DryRun bool            `json:"dryRun,omitempty"`
	Limit  admin.LimitView `json:"limit"`
}

func newKeysReset() *cobra.Command {
	w := &writing{}
	cmd := &cobra.Command{
		Use: "reset RULE [KEY]", Short: "Make a key's budget whole again", Args: ruleAndKey,
		Long: "Make the budget of a key whole again. What servers have leased of it stays with them. A rule with keyBy: global has no KEY.",
		RunE: w.run(func(ctx context.Context, cmd *cobra.Command, c *client, args []string) error {
			return w.budget(ctx, cmd, c, budgetCall("reset", args, map[string]any{}))
		}),
	}
	w.addTo(cmd, false)

	return cmd
}

func newKeysRefund() *cobra.Command {
	w, tokens := &writing{}, int64(0)
	cmd := &cobra.Command{
		Use: "refund RULE [KEY] --tokens N", Short: "Give tokens back to a key", Args: ruleAndKey,
		RunE: w.run(func(ctx context.Context, cmd *cobra.Command, c *client, args []string) error {
			return w.budget(ctx, cmd, c, budgetCall("refund", args, map[string]any{"tokens": tokens}))
		}),
	}
	cmd.Flags().Int64Var(&tokens, "tokens", 1, "`how many`")
	w.addTo(cmd, false)

	return cmd
}

func ruleAndKey(cmd *cobra.Command, args []string) error {
	if len(args) == 1 {
		return nil
	}

	return arguments("RULE", "KEY")(cmd, args)
}

func budgetCall(what string, args []string, body map[string]any) apiCall {
	if len(args) > 1 {
		body["key"] = args[1]
	}

	return adminCall(http.MethodPost, "rules", args[0], what).sending(body)
}

func (w *writing) budget(ctx context.Context, cmd *cobra.Command, c *client, call apiCall) error {
	var after budgetOf
	if err := c.do(ctx, w.on(call), &after); err != nil {
		return err
	}

	return show(cmd, &w.remote, after, func(out io.Writer, after budgetOf) error {
		return writeLimits(out, []admin.LimitView{after.Limit})
	})
}
