package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/leaseway/leaseway/internal/admin"
	"github.com/leaseway/leaseway/rule"
)

// switchList is the kill switches that are thrown.
type switchList struct {
	Version  uint64             `json:"version"`
	Switches []admin.SwitchView `json:"switches"`
}

const killHelp = `Switch a rule, a kind of limiter or everything off, in the whole fleet within a second. What is off decides nothing:
requests pass it, and are charged nothing. With --for it is on again by itself, whoever forgets it.

WHAT is rule:ID, limiter: and one of rate, concurrency, fleet or worker, or all. Without it the switches that are thrown are
listed. Those of single processes (leaseway serve --kill) are not among them.`

func newKill() *cobra.Command {
	var (
		w     writing
		lasts time.Duration
		until string
	)

	cmd := &cobra.Command{
		Use: "kill [WHAT]", Short: "Switch a rule, a kind of limiter or everything off", Long: killHelp,
		Example: "  leaseway kill rule:search-per-key --for 1h --reason 'incident 42'\n" +
			"  leaseway kill                # which are off\n" +
			"  leaseway unkill rule:search-per-key",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}

			return switchArgument(cmd, args)
		},
		RunE: w.run(func(ctx context.Context, cmd *cobra.Command, c *client, args []string) error {
			if len(args) == 0 {
				var list switchList
				if err := c.do(ctx, get("switches"), &list); err != nil {
					return err
				}

				return show(cmd, &w.remote, list, writeSwitches)
			}

			body := map[string]any{}
			if w.reason != "" {
				body["reason"] = w.reason
			}

			if lasts > 0 {
				body["forSec"] = int64((lasts + time.Second - 1) / time.Second)
			}

			if until != "" {
				body["until"] = until
			}

			return w.finish(ctx, cmd, c, switchCall(http.MethodPut, args[0]).sending(body))
		}),
	}
	cmd.Flags().DurationVar(&lasts, "for", 0, "after `how long` it is on again by itself (default: never)")
	cmd.Flags().StringVar(&until, "until", "", "`when` it is on again by itself, such as 2026-12-01T18:00:00Z")
	w.addTo(cmd, false)
	cmd.MarkFlagsMutuallyExclusive("for", "until")

	return cmd
}

// switchArgument takes what ParseSwitches reads. Whether there is such a rule the server knows.
func switchArgument(cmd *cobra.Command, args []string) error {
	if err := arguments("WHAT")(cmd, args); err != nil {
		return err
	}

	_, err := rule.ParseSwitches(args[0])

	return err
}

func switchCall(method, what string) apiCall {
	return adminCall(method, "switches", what)
}

func newUnkill() *cobra.Command {
	w := &writing{}
	cmd := &cobra.Command{
		Use: "unkill WHAT", Short: "Switch on again what was switched off", Args: switchArgument,
		Example: "  leaseway unkill rule:search-per-key --reason 'incident 42 is over'",
		RunE: w.run(func(ctx context.Context, cmd *cobra.Command, c *client, args []string) error {
			return w.finish(ctx, cmd, c, switchCall(http.MethodDelete, args[0]))
		}),
	}
	w.addTo(cmd, false)

	return cmd
}

func writeSwitches(out io.Writer, list switchList) error {
	if len(list.Switches) == 0 {
		_, err := fmt.Fprintln(out, "nothing is switched off")

		return err
	}

	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "WHAT\tNOW\tUNTIL\tREASON")

	for _, one := range list.Switches {
		now, until := "on again", "never"
		if one.Off {
			now = "off"
		}

		if !one.Until.IsZero() {
			until = one.Until.Format(time.RFC3339)
		}

		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", one.What, now, until, one.Reason)
	}

	return w.Flush()
}
