package cli

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/leaseway/leaseway/internal/server"
)

const serveHelp = `Run a coordinator, or with --coordinator a holder of leases, for callers of this machine or of a fleet.

It serves HTTP: POST /v1/check and POST /v1/rules/{ruleId}/check (described by GET /openapi.json), /healthz, /readyz and
/metrics; and gRPC: the API that other holders lease by, and Check. With --token-file, callers of anything but /healthz,
/readyz and /openapi.json must show a token.

Every flag can also be set in the environment (LEASEWAY_GRPC_LISTEN for --grpc-listen) or in the file that --config names
(grpcListen: …). Flags win over the environment, and the environment over the file.

SIGTERM or SIGINT stop it gracefully: requests under way are finished, leases returned and counts kept. A second one that comes
more than a second later stops it at once. SIGHUP has it look at the rule file, and the other files that it follows, now.`

func newServe() *cobra.Command {
	settings := server.NewSettings()

	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a coordinator, or a holder beside an API",
		Long:  serveHelp,
		Example: "  leaseway serve --rules rules.yaml\n" +
			"  curl -H 'Content-Type: application/json' -d '{\"attributes\": {\"user\": \"ada\"}}' http://127.0.0.1:8080/v1/check\n" +
			"  leaseway serve --rules rules.yaml --store redis://127.0.0.1:6379   # any number of coordinators share it\n" +
			"  leaseway serve --coordinator 127.0.0.1:8081 --listen 127.0.0.1:8090 --grpc-listen 127.0.0.1:8091",
		Args: noArguments,
		RunE: run(func(cmd *cobra.Command, _ []string) error {
			return serveUntilStopped(cmd, settings, func(ctx context.Context, config server.Config) error {
				return server.Run(ctx, config, cmd.ErrOrStderr())
			})
		}),
	}
	cmd.Flags().AddFlagSet(settings.Flags())
	cmd.Flags().SortFlags = false

	return cmd
}

var errStoppedAtOnce = errors.New("stopped at once by a second signal; counts since the last stop are lost")

// hasty is how long after the first signal another one is taken for the same: whoever signals a process and its group, as
// timeout does, means to stop it once.
const hasty = time.Second

// serveUntilStopped calls serve with what the settings say, until signals stop it.
func serveUntilStopped(cmd *cobra.Command, settings *server.Settings, serve func(context.Context, server.Config) error) error {
	config, err := settings.Load(server.Environ())
	if err != nil {
		return err
	}

	// net/http says by the log of the process that an upstream spoke out of turn. That is a line like the others.
	slog.SetDefault(config.NewLogger(cmd.ErrOrStderr()))

	// SIGHUP would end the process. A service manager sends it when there is something new to read.
	look := make(chan os.Signal, 1)

	signal.Notify(look, syscall.SIGHUP)
	defer signal.Stop(look)

	config.Look = look

	return untilStopped(cmd.Context(), func(ctx context.Context) error { return serve(ctx, config) })
}

// untilStopped calls serve with a context that the first signal ends. A second one, unless it comes hastily, does not wait for
// serve to return, since the process is about to end.
func untilStopped(ctx context.Context, serve func(context.Context) error) error {
	signals := make(chan os.Signal, 2)

	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)

	return untilSignalled(ctx, signals, serve)
}

func untilSignalled(ctx context.Context, signals <-chan os.Signal, serve func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()

	served := make(chan error, 1)
	go func() { served <- serve(ctx) }()

	var first time.Time

	for {
		select {
		case err := <-served:
			return err
		case <-signals:
			switch {
			case first.IsZero():
				first = time.Now()

				stop()
			case time.Since(first) > hasty:
				return errStoppedAtOnce
			}
		}
	}
}
