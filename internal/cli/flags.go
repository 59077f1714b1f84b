package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leaseway/leaseway/internal/server"
	"github.com/leaseway/leaseway/internal/spelling"
)

// flagError is what to say of flags that cannot be read, without what the parsers of Go say among themselves.
func flagError(cmd *cobra.Command, err error) error {
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		flag, value := wrong.GetFlag(), wrong.GetValue()

		return fmt.Errorf("--%s %q %s (see %s --help)", flag.Name, value, server.Unfit(flag.Value.Type(), value), cmd.CommandPath())
	}

	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		var names []string

		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })

		if near := spelling.Closest(unknown.GetSpecifiedName(), names); near != "" {
			return fmt.Errorf("%w (did you mean --%s?)", err, near)
		}
	}

	return fmt.Errorf("%w (see %s --help)", err, cmd.CommandPath())
}

// aboveZero refuses numbers and times of 0 and less: commands to a server take none, and would take them for what is not said.
func aboveZero(cmd *cobra.Command) error {
	wrong := &server.UsageError{}

	cmd.Flags().Visit(func(f *pflag.Flag) {
		text := f.Value.String()

		switch f.Value.Type() {
		case "duration":
			if d, err := time.ParseDuration(text); err == nil && d <= 0 {
				wrong.Problems = append(wrong.Problems, fmt.Sprintf("--%s %s is no time to come: write such as 90s or 48h", f.Name, text))
			}
		case "int", "int64", "uint64":
			if n, err := strconv.ParseInt(text, 10, 64); err == nil && n <= 0 {
				wrong.Problems = append(wrong.Problems, fmt.Sprintf("--%s %s is too small: write a whole number from 1 on", f.Name, text))
			}
		}
	})

	if len(wrong.Problems) > 0 {
		return wrong
	}

	return nil
}

// inOurWords says what cobra finds out by itself about flags, where it can be told by its words, as other errors are said.
func inOurWords(root *cobra.Command, args []string, err error) error {
	text := err.Error()

	var names []string

	switch missing, isMissing := strings.CutPrefix(text, `required flag(s) "`); {
	case isMissing:
		names = strings.Split(strings.TrimSuffix(missing, `" not set`), `", "`)
	case strings.HasPrefix(text, "if any flags in the group ["):
		_, last, _ := strings.Cut(text, "can be; [")
		names = strings.Fields(strings.TrimSuffix(last, "] were all set"))
	default:
		return err
	}

	cmd, _, findErr := root.Find(args)
	if findErr != nil {
		return err
	}

	for i, name := range names {
		names[i] = "--" + name
		if flag := cmd.Flags().Lookup(name); flag != nil && flag.Shorthand != "" {
			names[i] = "-" + flag.Shorthand
		}
	}

	if strings.HasPrefix(text, "required") {
		return fmt.Errorf("%s needs %s (see %[1]s --help)", cmd.CommandPath(), strings.Join(names, " and "))
	}

	return fmt.Errorf("%s do not go together: leave one out (see %s --help)", strings.Join(names, " and "), cmd.CommandPath())
}

// completeValues has shells complete the values of flags that take one of a few words, in cmd and all below it.
func completeValues(cmd *cobra.Command) {
	for name, values := range map[string][]string{
		"log-level":  {"debug", "info", "warn", "error"},
		"log-format": {outputText, outputJSON},
		"output":     {outputText, outputJSON},
		"template":   templateNames(),
		"algorithm":  {"token_bucket", "fixed_window", "sliding_window"},
		"class":      {"critical", "write", "read", "test"},
		"lower-to":   {"critical", "write", "read", "test"},
	} {
		if cmd.Flags().Lookup(name) != nil {
			// It fails for flags that do not exist, or have one already.
			_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
		}
	}

	for _, sub := range cmd.Commands() {
		completeValues(sub)
	}
}

// addCompletion adds the command that prints the scripts for shells, to where root writes now. A shell that it does not know
// is an error, as every other command that does not exist.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()

	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			cmd.Args = noArguments
			cmd.RunE = run(func(cmd *cobra.Command, _ []string) error { return cmd.Help() })
		}
	}
}
