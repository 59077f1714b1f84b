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
	"time"

	"github.com/spf13/cobra"

	"github.com/leaseway/leaseway/internal/doctor"
	"github.com/leaseway/leaseway/internal/server"
	"github.com/leaseway/leaseway/rule"
)

const doctorHelp = `Look whether Redis and the coordinators before it are as they should be, and say what to do where they are not.

Of Redis: that it can be reached with these settings, its version, the state of the cluster or the sentinels, memory and
what it evicts, clocks, the functions that it must know, how fast it answers, replicas, what is on its disk, and whether data
was lost. Of coordinators (--coordinator): that they answer, sign with a key of --coordinator-key, count in this Redis, and
have the same rules, those of --rules if given.

It changes nothing. Give it the same --store… flags as leaseway serve; or --coordinator alone, from where Redis cannot be
reached, and it looks at the coordinators, and whether they count in the same Redis as each other. Each line is ok, warn (it works, and
may lose counts or time one day) or bad (limits cannot be decided, or do not hold).

The exit status is 0 if nothing is bad, 1 if something is, and 2 if it was asked wrongly.`

// doctorWithin bounds a whole look.
const doctorWithin = 30 * time.Second

// doctorFlags are what doctor was asked.
type doctorFlags struct {
	config        server.Config
	rules, output string
}

func newDoctor() *cobra.Command {
	f := &doctorFlags{}
	cmd := &cobra.Command{
		Use:   "doctor [--store URL] [--coordinator URLs]",
		Short: "Say what is wrong with Redis and the coordinators, and what to do",
		Long:  doctorHelp,
		Example: "  leaseway doctor --store redis://10.0.0.1:6379,10.0.0.2:6379\n" +
			"  leaseway doctor --store rediss://app@10.0.0.1:6379 --store-password-file password --store-ca ca.pem\n" +
			"  leaseway doctor --store redis://10.0.0.1:6379 --coordinator limits-1:8081,limits-2:8081 --coordinator-key ed25519:… \\\n" +
			"      --rules rules.yaml -o json",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			write, err := formOf(f.output, writeFindings)
			if err != nil {
				return err
			}

			look, err := f.read(cmd)
			if err != nil {
				return err
			}

			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()

			ctx, cancel := context.WithTimeout(ctx, doctorWithin)
			defer cancel()

			findings := look(ctx)
			if err := write(cmd.OutOrStdout(), &diagnosis{State: doctor.Worst(findings), Findings: findings}); err != nil {
				return &failure{err}
			}

			if doctor.Worst(findings) == doctor.Bad {
				return &failure{errors.New("something is bad: see what to do above")}
			}

			return nil
		},
	}

	flags := cmd.Flags()
	flags.AddFlagSet(f.config.StoreFlags(""))
	flags.AddFlagSet(f.config.CoordinatorFlags("look at the coordinators at these `URLs` as well, grpcs://HOST:PORT or HOST:PORT"))
	flags.StringVar(&f.config.TLSCert, "tls-cert", "", "`file` with the certificate to show to coordinators that ask for one")
	flags.StringVar(&f.config.TLSKey, "tls-key", "", "`file` with its private key")
	flags.BoolVar(&f.config.Insecure, "insecure", false, "look at coordinators on other machines without TLS or --coordinator-key")
	flags.StringVar(&f.rules, "rules", "", "the rules that the coordinators should have, in this `file`")
	flags.StringVarP(&f.output, "output", "o", outputTable, "`form` of the answer: table, json or yaml")
	flags.SortFlags = false
	completeForms(cmd)

	return cmd
}

// read reads what the flags name, and returns what looks.
func (f *doctorFlags) read(cmd *cobra.Command) (func(context.Context) []doctor.Finding, error) {
	look, err := f.redis(cmd)
	if err != nil {
		return nil, err
	}

	fleet := &doctor.Fleet{}

	if f.rules != "" {
		text, err := readAtMost(f.rules, rule.MaxDocument)
		if err != nil {
			return nil, err
		}

		if fleet.Rules, err = rule.Parse(f.rules, text); err != nil {
			return nil, err
		}
	}

	if len(f.config.Coordinators) == 0 {
		if err := aboutCoordinators(cmd); err != nil {
			return nil, err
		}

		return func(ctx context.Context) []doctor.Finding {
			findings, _ := look(ctx)

			return findings
		}, nil
	}

	if fleet.Remote, err = f.config.RemoteConfig(); err != nil {
		return nil, err
	}

	fleet.Remote.Name = "leaseway doctor"

	return func(ctx context.Context) []doctor.Finding {
		findings, id := look(ctx)
		fleet.Store = id

		return append(findings, doctor.Coordinators(ctx, fleet)...)
	}, nil
}

// redis returns what looks at Redis, and says which data is there: at none where only coordinators are named.
func (f *doctorFlags) redis(cmd *cobra.Command) (func(context.Context) ([]doctor.Finding, uint64), error) {
	if f.config.Store == "" && len(f.config.Coordinators) > 0 {
		if _, err := f.config.RedisConfig(nil); err != nil { // of flags that are for a Redis
			return nil, err
		}

		return func(context.Context) ([]doctor.Finding, uint64) { return nil, 0 }, nil
	}

	config, err := redisOf(cmd, &f.config)
	if err != nil {
		return nil, err
	}

	return func(ctx context.Context) ([]doctor.Finding, uint64) { return doctor.Redis(ctx, config) }, nil
}

// aboutCoordinators refuses flags that say nothing without --coordinator: who gave one would think that it was looked at.
func aboutCoordinators(cmd *cobra.Command) error {
	for _, name := range []string{
		"coordinator-key", "coordinator-token-file", "coordinator-ca", "tls-cert", "tls-key", "insecure", "rules",
	} {
		if cmd.Flags().Changed(name) {
			return &server.UsageError{Problems: []string{
				"--" + name + " is about coordinators: name those to look at with --coordinator",
			}}
		}
	}

	return nil
}

// diagnosis is all findings, and the worst state among them.
type diagnosis struct {
	State    doctor.State     `json:"state"`
	Findings []doctor.Finding `json:"findings"`
}

// writeFindings prints findings for people.
func writeFindings(w io.Writer, d *diagnosis) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)

	for i := range d.Findings {
		f := &d.Findings[i]

		says := f.Says
		if f.Where != "" {
			says = f.Where + ": " + says
		}

		fmt.Fprintf(table, "%s\t%s\t%s\n", f.State, f.Check, says)

		if f.Fix != "" {
			fmt.Fprintf(table, "\t\t→ %s\n", f.Fix)
		}
	}

	return table.Flush()
}
