package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/leaseway/leaseway/internal/demo"
	"github.com/leaseway/leaseway/internal/server"
)

const demoHelp = `Run a coordinator and three API servers on this machine, each a process of its own, and send them the requests of many
callers over HTTP. The API servers share the limits through the coordinator, and decide in their own memory. At 40 % of
the time the coordinator is killed; at 60 % it is started again.

In the end a table for each phase says what every caller got, and what was promised is held against it: the limit is
never passed, over all servers together and in any stretch of time; callers above their limit get all of it; a busy
caller costs few calls to the coordinator; without a coordinator nobody gets an error, or more than the share that is
meant for that case. The exit status is 1 if a promise was not kept,
and 130 after Ctrl-C; q stops the live view, too.

With --redis there are three coordinators, and the counts are in a cluster of six Redis servers that the demo starts for
itself (redis-server 7 or later, from the PATH). At 40 % a master is killed, at 60 % one of the coordinators. Callers whose
keys are on the other masters do not notice; the rest get their share until a replica has taken over; and a coordinator
takes nothing with it.

With --log the requests are those of an access log (common or combined format), compressed to the duration.`

const defaultDuration = 30 * time.Second

func newDemo() *cobra.Command {
	cfg, output, scenario := demo.Config{}, "", ""

	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch three API servers share limits through a coordinator",
		Long:  demoHelp + scenarioHelp,
		Example: "  leaseway demo\n" +
			"  leaseway demo --redis\n" +
			"  leaseway demo --scenario noisy-neighbour\n" +
			"  leaseway demo --duration 1m --seed 7\n" +
			"  leaseway demo --log /var/log/nginx/access.log\n" +
			"  leaseway demo -o json > result.json",
		Args: noArguments,
		RunE: run(func(cmd *cobra.Command, _ []string) (err error) {
			if scenario != "" {
				return runScenario(cmd, demo.ScenarioConfig{
					Scenario: scenario, Duration: scenarioDuration(cmd, cfg.Duration), Seed: cfg.Seed,
				}, output)
			}

			if err := checkDemo(cfg, output); err != nil {
				return err
			}

			if cfg.Program, err = os.Executable(); err != nil {
				return fmt.Errorf("find this program, to start it for the servers: %w", err)
			}

			return runDemo(cmd, cfg, output == outputJSON)
		}),
	}
	cmd.Flags().DurationVar(&cfg.Duration, "duration", defaultDuration,
		"how long to send requests, a `time` from 6s (12s with --redis) to 1h; 9s unless said with --scenario, 10m at most")
	cmd.Flags().StringVar(&scenario, "scenario", "", "show another kind of trouble, without Leaseway and with it: a `name` of those above")
	cmd.Flags().BoolVar(&cfg.Redis, "redis", false, "keep the counts in a Redis cluster of its own, with three coordinators over it")
	cmd.Flags().Uint64Var(&cfg.Seed, "seed", 1, "`number` that the traffic is made from: the same one, the same requests")
	cmd.Flags().StringVar(&cfg.Log, "log", "", "access log `file` to send instead, in common or combined format")
	cmd.Flags().StringVarP(&output, "output", "o", "text", "`form` of the results: text or json")
	cmd.Flags().SortFlags = false

	_ = cmd.RegisterFlagCompletionFunc("scenario", // the flag is there
		func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return demo.Scenarios(), cobra.ShellCompDirectiveNoFileComp
		})

	return cmd
}

// checkDemo refuses what the flags must not say. The error is a *server.UsageError.
func checkDemo(cfg demo.Config, output string) error {
	var wrong server.UsageError

	if output != outputText && output != outputJSON {
		wrong.Problems = append(wrong.Problems, fmt.Sprintf("--output %q is neither text nor json", output))
	}

	if least := cfg.MinDuration(); cfg.Duration < least || cfg.Duration > demo.MaxDuration {
		wrong.Problems = append(wrong.Problems, fmt.Sprintf(
			"--duration %v is not within %v and %v: in less the phases are too short to tell anything",
			cfg.Duration, least, demo.MaxDuration))
	}

	if wrong.Problems != nil {
		return &wrong
	}

	return nil
}

// runDemo runs the demo that cfg says, and reports what it found.
func runDemo(cmd *cobra.Command, cfg demo.Config, asJSON bool) error {
	ctx, cancel, release := endable(cmd.Context())
	defer release()

	out := &outlet{w: cmd.OutOrStdout(), failed: cancel}
	cfg.Watcher = watcher(cmd, out, asJSON)

	result, err := demo.Run(ctx, cfg)
	if result != nil {
		err = report(out, result, columns(cmd.OutOrStdout()), asJSON)
	}

	var (
		wrongLog *demo.LogError
		stopped  *ended
	)

	switch {
	case out.failure() != nil:
		return out.failure()
	case errors.As(context.Cause(ctx), &stopped):
		return stopped
	case errors.Is(err, demo.ErrInterrupted), result != nil && result.Interrupted:
		return &ended{syscall.SIGINT}
	case errors.As(err, &wrongLog):
		return &server.UsageError{Problems: []string{withFix(err)}}
	case err != nil:
		return err
	case !result.Held:
		return errPromise
	}

	return nil
}

// newDemoChild runs another command, as a process of a demo: it ends when the demo does, however that ends.
func newDemoChild() *cobra.Command {
	return &cobra.Command{
		Use:                demo.ChildCommand + " COMMAND ARG…",
		Short:              "Run a command until the standard input ends",
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			go endWith(cmd.InOrStdin())

			root := newRoot()
			root.SetArgs(args)
			root.SetIn(cmd.InOrStdin())
			root.SetOut(cmd.OutOrStdout())
			root.SetErr(cmd.ErrOrStderr())

			return root.Execute()
		},
	}
}

// endWith kills this process when in ends: nobody is left to be served, and nothing worth keeping was written.
func endWith(in io.Reader) {
	_, _ = io.Copy(io.Discard, in) // a failure is an end, too

	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill() // it is about to be gone
	}
}

// newDemoRedis runs a Redis server of a demo: it ends when the demo does, however that ends.
func newDemoRedis() *cobra.Command {
	return &cobra.Command{
		Use:                demo.RedisCommand + " PROGRAM --port PORT ARG…",
		Short:              "Run a Redis server until the standard input ends",
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			return demo.RunRedis(cmd.InOrStdin(), args, cmd.OutOrStdout())
		},
	}
}

func newDemoAPI() *cobra.Command {
	cfg := demo.APIConfig{}

	cmd := &cobra.Command{
		Use:    demo.APICommand,
		Short:  "Run an API server of the demo",
		Hidden: true,
		Args:   noArguments,
		RunE: run(func(cmd *cobra.Command, _ []string) error {
			return untilStopped(cmd.Context(), func(ctx context.Context) error {
				return demo.ServeAPI(ctx, cfg, cmd.OutOrStdout())
			})
		}),
	}
	cmd.Flags().StringVar(&cfg.Name, "name", "", "`name` of the holder")
	cmd.Flags().StringVar(&cfg.Coordinator, "coordinator", "", "`address` to lease from")
	cmd.Flags().StringVar(&cfg.CoordinatorKey, "coordinator-key", "", "public `key` of the coordinator")

	return cmd
}
