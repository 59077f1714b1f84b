package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/leaseway/leaseway/internal/demo"
	"github.com/leaseway/leaseway/internal/server"
)

const scenarioHelp = `

With --scenario the same requests go to two APIs at the same time, one without Leaseway and one with it, and a table shows
what became of those who do nothing wrong: how many were served, and how long it took. It takes some 15 seconds.

  noisy-neighbour     one caller sends twenty times what it should: a rate limit for each key
  expensive-endpoint  few requests that take all workers: a limit on what is in flight
  fleet-full          many callers fill all servers: the fleet shedder keeps room for charges
  workers-busy        a server has more work than workers: the worker shedder drops what matters least`

// checkScenario refuses what the flags must not say beside --scenario. The error is a *server.UsageError.
func checkScenario(cmd *cobra.Command, cfg *demo.ScenarioConfig, output string) error {
	var wrong server.UsageError

	if !slices.Contains(demo.Scenarios(), cfg.Scenario) {
		wrong.Problems = append(wrong.Problems, fmt.Sprintf("--scenario %q is none of %s",
			cfg.Scenario, strings.Join(demo.Scenarios(), ", ")))
	}

	if output != outputText && output != outputJSON {
		wrong.Problems = append(wrong.Problems, fmt.Sprintf("--output %q is neither text nor json", output))
	}

	for _, name := range []string{"redis", "log"} {
		if cmd.Flags().Changed(name) {
			wrong.Problems = append(wrong.Problems, fmt.Sprintf("--%s and --scenario are two demos: leave one out", name))
		}
	}

	if cfg.Duration < demo.MinScenario || cfg.Duration > demo.MaxScenario {
		wrong.Problems = append(wrong.Problems, fmt.Sprintf("--duration %v is not within %v and %v, with --scenario",
			cfg.Duration, demo.MinScenario, demo.MaxScenario))
	}

	if wrong.Problems != nil {
		return &wrong
	}

	return nil
}

// runScenario shows a scenario, and reports what became of it.
func runScenario(cmd *cobra.Command, cfg demo.ScenarioConfig, output string) (err error) {
	if err := checkScenario(cmd, &cfg, output); err != nil {
		return err
	}

	if cfg.Program, err = os.Executable(); err != nil {
		return fmt.Errorf("find this program, to start it for the servers: %w", err)
	}

	ctx, cancel, release := endable(cmd.Context())
	defer release()

	out := &outlet{w: cmd.OutOrStdout(), failed: cancel}

	lines := demo.NewPlain(out)
	if output == outputJSON {
		lines = demo.NewPlain(cmd.ErrOrStderr())
	}

	cfg.Say = lines.Say

	result, err := demo.RunScenario(ctx, cfg)
	if err == nil {
		err = reportDuel(out, result, columns(cmd.OutOrStdout()), output == outputJSON)
	}

	var stopped *ended

	switch {
	case out.failure() != nil:
		return out.failure()
	case errors.As(context.Cause(ctx), &stopped):
		return stopped
	case errors.Is(err, demo.ErrStopped):
		return &ended{syscall.SIGINT}
	case err != nil:
		return err
	case !result.Held:
		return errPromise
	}

	return nil
}

// reportDuel writes the result to w, which keeps errors, as report does.
func reportDuel(w *outlet, result *demo.Duel, width int, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")

		return e.Encode(result)
	}

	if width == 0 {
		width = demo.UsualWidth
	}

	result.Write(w, width)

	return nil
}

// scenarioDuration is how long a scenario takes if the flag does not say.
func scenarioDuration(cmd *cobra.Command, flag time.Duration) time.Duration {
	if cmd.Flags().Changed("duration") {
		return flag
	}

	return demo.UsualScenario
}

// newDemoWorkplace runs a server of a scenario.
func newDemoWorkplace() *cobra.Command {
	cfg := demo.WorkplaceConfig{}

	cmd := &cobra.Command{
		Use:    demo.WorkplaceCommand,
		Short:  "Run a server of a scenario of the demo",
		Hidden: true,
		Args:   noArguments,
		RunE: run(func(cmd *cobra.Command, _ []string) error {
			return untilStopped(cmd.Context(), func(ctx context.Context) error {
				return demo.ServeWorkplace(ctx, cfg, cmd.OutOrStdout())
			})
		}),
	}
	cmd.Flags().StringVar(&cfg.Name, "name", "", "`name` of the holder")
	cmd.Flags().IntVar(&cfg.Workers, "workers", 1, "how many requests it works at, at a time: a `number`")
	cmd.Flags().StringVar(&cfg.Coordinator, "coordinator", "", "`address` to lease from; left out, nothing is limited")
	cmd.Flags().StringVar(&cfg.CoordinatorKey, "coordinator-key", "", "public `key` of the coordinator")

	return cmd
}
