package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/leaseway/leaseway/internal/server"
	"github.com/leaseway/leaseway/internal/sim"
	"github.com/leaseway/leaseway/rule"
)

const simHelp = `Run a fleet in virtual time: servers, coordinators, what callers want of them, and what goes wrong. What decides is the
code of production. Minutes of a fleet take less than a second, and the same seed gives the same results.

Each load says what its fleet is like, and what must hold: nothing passes above the limit, in any stretch of time; callers who
want it all get what one ideal central limiter would give, for few calls to the coordinator, and alike on every server. It is
run with each algorithm that can be leased. docs/simulator.md says how to read the table.

The exit status is 0 if every bar is reached, 1 if one is missed, and 2 for a flag that cannot be used.`

func newSim() *cobra.Command {
	var (
		loads, algorithms []string
		list              bool
		output, picture   string
		plan              sim.Plan
	)

	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Hold a fleet in virtual time against what is promised",
		Long:  simHelp,
		Example: "  leaseway sim\n" +
			"  leaseway sim --load 'large-*' --algorithm token_bucket\n" +
			"  leaseway sim --load outage --algorithm token_bucket --plot outage.svg\n" +
			"  leaseway sim --seed 7 -o json > results.json",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			asJSON, err := jsonOutput(output)
			if err != nil {
				return err
			}

			if plan.Runs, err = sim.Choose(loads, algorithms); err != nil {
				return err
			}

			if list {
				return listLoads(cmd.OutOrStdout(), plan.Runs)
			}

			if picture != "" && len(plan.Runs) != 1 {
				return fmt.Errorf("--plot draws one run, and these are %d (name it with --load and --algorithm)", len(plan.Runs))
			}

			plan.Draw = picture != ""

			return simulate(cmd, &plan, simForm{json: asJSON, picture: picture})
		},
	}
	cmd.Flags().StringArrayVar(&loads, "load", nil, "run only the loads whose names match this `pattern`, such as 'large-*'; repeatable")
	cmd.Flags().StringArrayVar(&algorithms, "algorithm", nil, "run the loads with this `algorithm` only; repeatable")
	cmd.Flags().BoolVar(&list, "list", false, "show the loads, and run none")
	cmd.Flags().Uint64Var(&plan.Seed, "seed", 1, "`number` that chance is made from: the same one, the same results")
	cmd.Flags().StringVar(&picture, "plot", "", "SVG `file` to draw the one run into: wanted, limit and admitted over time, per server")
	cmd.Flags().StringVarP(&output, "output", "o", outputText, "`form` of the results: text or json")
	cmd.Flags().SortFlags = false

	return cmd
}

// simForm is how the results of runs are written.
type simForm struct {
	json    bool
	picture string // the file for it, "" for none
}

// simulate makes the runs of plan and writes what came of them.
func simulate(cmd *cobra.Command, plan *sim.Plan, form simForm) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	erase := progress(cmd.ErrOrStderr(), plan)
	report, err := plan.Results(ctx)

	erase()

	switch {
	case errors.Is(err, context.Canceled):
		return &failure{errors.New("interrupted")}
	case err != nil:
		return &failure{err}
	}

	return form.write(cmd.OutOrStdout(), report)
}

// write writes the results, and the picture if there is one. The error says what could not be written, or how many runs miss a bar.
func (form simForm) write(w io.Writer, report *sim.Report) (err error) {
	if form.json {
		err = report.JSON(w)
	} else {
		err = report.Text(w)
	}

	if err == nil && form.picture != "" {
		err = os.WriteFile(form.picture, report.Picture, 0o644) //nolint:gosec // a picture, for everybody to see
		if err != nil {
			return &server.UsageError{Problems: []string{fmt.Sprintf("--plot: %v (name a file in a directory that is there)", err)}}
		}
	}

	switch missed := report.Missed(); {
	case err != nil:
		return &failure{fmt.Errorf("write the results: %w", err)}
	case missed == 1:
		return &failure{errors.New("1 run misses a bar")}
	case missed > 1:
		return &failure{fmt.Errorf("%d runs miss a bar", missed)}
	}

	return nil
}

// progress shows on a terminal how many runs are done, until erase is called.
func progress(w io.Writer, plan *sim.Plan) (erase func()) {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return func() {}
	}

	done := 0
	plan.Done = func(r *sim.Result) {
		done++
		fmt.Fprintf(w, "\r\x1b[K%d of %d: %s, %s", done, len(plan.Runs), r.Load, r.Algorithm)
	}

	return func() { fmt.Fprint(w, "\r\x1b[K") }
}

// listLoads shows what there is to run.
func listLoads(w io.Writer, runs []sim.Run) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)

	for i, run := range runs {
		if i == 0 || runs[i-1].Load.Name != run.Load.Name {
			fmt.Fprintf(t, "%s\t%s\t", run.Load.Name, run.Load.About)
		}

		fmt.Fprint(t, rule.Algorithm(run.Algorithm))

		if i == len(runs)-1 || runs[i+1].Load.Name != run.Load.Name {
			fmt.Fprintln(t)
		} else {
			fmt.Fprint(t, " ")
		}
	}

	return t.Flush()
}
