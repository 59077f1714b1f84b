package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/leaseway/leaseway/internal/cases"
)

const testHelp = `Run the tests in case files: which requests come when, and what each must get. The requests are decided by the same code
as in production, over leases from a coordinator with a memory store, in virtual time: a month takes milliseconds.

A case file has rules (or names a file of them) and tests:

  rules:                          # or rulesFile: PATH, from where the case file is
    - {id: per-key, scope: /v1/**, keyBy: apikey, limit: 100, window: 1m}
  tests:
    - name: a client that polls faster than the refill still gets in
      start: 2026-01-01T00:00:00Z # the date at 0s; 1970-01-01T00:00:00Z unless said
      holders: 3                  # servers that share the limits, named 0, 1, 2; 1 unless said
      latency: 2ms                # of a call to the coordinator, which decides after half of it; 0s unless said
      steps:
        - {at: 0s, send: 3, apikey: k, path: /v1/a, expect: AAA}      # A is allowed, D is denied, one letter a request
        - {at: 1s, send: 90, every: 1s, apikey: k, path: /v1/a, holder: 2, expect: {allowed: 90, denied: 0}, tolerance: 1}
        - {at: 95s, apikey: k, path: /v1/a, expect: {rule: per-key, limit: 100, remaining: 99, retryAfter: 0}}
        - {at: 96s, apply: {id: per-key, limit: 5, window: 1m}}       # save a rule everywhere; remove: per-key takes it away
        - {at: 97s, switches: {all: off}}                             # or classes, or shedders: say anew what stands beside the rules
        - {at: 98s, load: 95%}                                        # how busy all servers are; unknown when nobody tells

A step sends one request, or as many as send says, the first at its time and the others every so often. Requests have user,
ip, apikey, method, path, host, headers, descriptors, class and cost; a cost of 0 only looks. What Envoy sends is a domain and
entries: [{key: NAME, value: VALUE}, ...]. With hold: 2s each of them is in flight for so long, which concurrency rules and
the fleet shedder count; without it, it is over at once. Steps are played in order of their times, and those of one time in
the order of the file; a step that takes long does not hold up the next. A server decides one request after the other: while
one waits for the coordinator the next ones wait too. What a rule document has beside its rules (identity, headers, classes,
shedders, switches) may stand beside them here as well.

In expect, allowed and denied count the requests of the step, give or take tolerance (with letters: as many may differ). The
rest is about the last one's answer: rule, limit, remaining, reason, class, shadowDenied, shadowShed, retryAfter and reset in
seconds, rounded up, before jitter, and delay, the time for which a leaky bucket holds the request.

The exit status is 0 if everything is as expected, 1 if not, and 2 if a file is wrong.`

func newTest() *cobra.Command {
	var (
		only, output string
		verbose      bool
	)

	cmd := &cobra.Command{
		Use:   "test FILE...",
		Short: "Test a rule set with requests in virtual time",
		Long:  testHelp,
		Example: "  leaseway test cases.yaml\n" +
			"  leaseway test --run burst -v cases/*.yaml\n" +
			"  leaseway test -o json cases.yaml",
		Args: atLeastOneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			asJSON, err := jsonOutput(output)
			if err != nil {
				return err
			}

			pattern, err := regexp.Compile(only)
			if err != nil {
				return fmt.Errorf("--run is no regular expression: %w", err)
			}

			files, err := loadCases(args)
			if err != nil {
				return err
			}

			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()

			report, err := cases.RunAll(ctx, files, pattern)

			switch {
			case errors.Is(err, context.Canceled):
				return &failure{errors.New("interrupted")}
			case err != nil:
				return err
			case len(report.Results) == 0:
				return fmt.Errorf("no test has a name that matches --run %q", only)
			}

			return writeReport(cmd, report, reportForm{json: asJSON, verbose: verbose})
		},
	}
	cmd.Flags().StringVar(&only, "run", "", "run only the tests whose names match this `regexp`")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "show what came of every step")
	cmd.Flags().StringVarP(&output, "output", "o", outputText, "`form` of the results: text or json")
	cmd.Flags().SortFlags = false

	return cmd
}

func atLeastOneFile(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("%s needs a file (see %[1]s --help)", cmd.CommandPath())
	}

	return nil
}

// loadCases reads all files, and reports all that is wrong with any of them.
func loadCases(paths []string) ([]*cases.File, error) {
	var (
		files []*cases.File
		wrong []error
	)

	for _, path := range paths {
		file, err := cases.Load(path)
		if err != nil {
			wrong = append(wrong, err)

			continue
		}

		files = append(files, file)
	}

	return files, errors.Join(wrong...)
}

type reportForm struct{ json, verbose bool }

// writeReport prints a report, and returns an error if something in it failed.
func writeReport(cmd *cobra.Command, report *cases.Report, form reportForm) error {
	var err error
	if form.json {
		err = report.JSON(cmd.OutOrStdout())
	} else {
		err = report.Text(cmd.OutOrStdout(), form.verbose)
	}

	switch {
	case err != nil:
		return &failure{fmt.Errorf("write the results: %w", err)}
	case report.Failed == 1:
		return &failure{errors.New("1 test failed")}
	case report.Failed > 1:
		return &failure{fmt.Errorf("%d tests failed", report.Failed)}
	}

	return nil
}

// The forms that results are written in.
const (
	outputText = "text"
	outputJSON = "json"
)

// jsonOutput reports whether --output asks for JSON.
func jsonOutput(form string) (bool, error) {
	if form != outputText && form != outputJSON {
		return false, fmt.Errorf("--output %q is neither text nor json", form)
	}

	return form == outputJSON, nil
}
