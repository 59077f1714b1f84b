package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/leaseway/leaseway/internal/server"
)

const proxyHelp = `Run a reverse proxy that limits what it passes on to an API, in whatever language that is written.

It takes HTTP/1.1 and HTTP/2, with TLS or without, and passes on all of it: streams both ways, WebSockets, server-sent events,
gRPC (to an h2c:// or https:// upstream), trailers. Refusals are answered by the proxy: 429 for the caller's budget and 503
when the API is to be spared, with Retry-After, the RateLimit fields and a problem document; those alone have Leaseway-Reason.
An upstream that cannot be reached is 502, one that does not answer in time 504.

X-Forwarded-For, -Host and -Proto are set anew, and kept only from peers in --trusted-proxies; Forwarded is removed. Of several
upstreams one that fails three times in a row gets no requests for five seconds, or until probes (--health-path) succeed.

It listens on loopback unless told otherwise. Every flag can also be set in the environment (LEASEWAY_UPSTREAM) or in the file
that --config names (upstream: …). SIGTERM or SIGINT stop it gracefully; SIGHUP has it look at its files now, which it does by
itself when they change: rules, certificate and key.`

func newProxy() *cobra.Command {
	settings := server.NewProxySettings()

	cmd := &cobra.Command{
		Use:   "proxy --upstream URL,… (--rules FILE | --coordinator URL,…)",
		Short: "Limit an API by standing in front of it",
		Long:  proxyHelp,
		Example: "  leaseway proxy --upstream http://127.0.0.1:3000 --rules rules.yaml\n" +
			"  leaseway proxy --upstream http://10.0.0.1:3000,http://10.0.0.2:3000 --health-path /healthz \\\n" +
			"      --coordinator grpcs://limits.example:8081 --coordinator-key ed25519:… \\\n" +
			"      --listen :443 --tls-cert cert.pem --tls-key key.pem --metrics-listen 127.0.0.1:9090 --access-log access.log\n" +
			"  leaseway proxy --upstream h2c://127.0.0.1:50051 --rules rules.yaml   # gRPC",
		Args: noArguments,
		RunE: run(func(cmd *cobra.Command, _ []string) error {
			return serveUntilStopped(cmd, settings, func(ctx context.Context, config server.Config) error {
				return server.RunProxy(ctx, config, cmd.OutOrStdout(), cmd.ErrOrStderr())
			})
		}),
	}
	cmd.Flags().AddFlagSet(settings.Flags())
	cmd.Flags().SortFlags = false

	return cmd
}
