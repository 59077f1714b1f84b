package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/leaseway/leaseway/internal/demo"
)

func newDemo() *cobra.Command {
	cfg := demo.Config{}
	output := ""

	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch three API servers share limits",
		Args:  noArguments,
		RunE: run(func(cmd *cobra.Command, _ []string) (err error) {
			if cfg.Program, err = os.Executable(); err != nil {
				return err
			}

			cfg.Watcher = plain{cmd.ErrOrStderr()}

			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()

			result, err := demo.Run(ctx, cfg)
			if err != nil {
				return err
			}

			e := json.NewEncoder(cmd.OutOrStdout())
			e.SetIndent("", "  ")
			e.Encode(result)

			if !result.Held {
				return errors.New("a claim was missed")
			}

			return nil
		}),
	}
	cmd.Flags().DurationVar(&cfg.Duration, "duration", 30*time.Second, "how long")
	cmd.Flags().Uint64Var(&cfg.Seed, "seed", 1, "seed")
	cmd.Flags().StringVar(&cfg.Log, "log", "", "log")
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")

	return cmd
}

type plain struct{ w io.Writer }

func (p plain) Say(s string)                                   { fmt.Fprintln(p.w, s) }
func (p plain) Follow(ctx context.Context, l *demo.Live) error { <-ctx.Done(); return nil }

func newDemoChild() *cobra.Command {
	return &cobra.Command{
		Use: demo.ChildCommand, Hidden: true, DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			go func() {
				_, _ = io.Copy(io.Discard, cmd.InOrStdin())

				if self, err := os.FindProcess(os.Getpid()); err == nil {
					_ = self.Kill()
				}
			}()

			root := newRoot()
			root.SetArgs(args)
			root.SetOut(cmd.OutOrStdout())
			root.SetErr(cmd.ErrOrStderr())

			return root.Execute()
		},
	}
}

func newDemoAPI() *cobra.Command {
	cfg := demo.APIConfig{}
	cmd := &cobra.Command{
		Use: demo.APICommand, Hidden: true, Args: noArguments,
		RunE: run(func(cmd *cobra.Command, _ []string) error {
			return untilStopped(cmd.Context(), func(ctx context.Context) error {
				return demo.ServeAPI(ctx, cfg, cmd.OutOrStdout())
			})
		}),
	}
	cmd.Flags().StringVar(&cfg.Name, "name", "", "name")
	cmd.Flags().StringVar(&cfg.Coordinator, "coordinator", "", "coordinator")
	cmd.Flags().StringVar(&cfg.CoordinatorKey, "coordinator-key", "", "key")

	return cmd
}
