// Package cli is the command line: it turns arguments into calls, results into output, and errors into one line and an exit
// status. What a command does is elsewhere, mostly in internal/server; a new command is a function here that returns a
// cobra.Command, and a line in commands.
//
// Exit statuses: 0 done; 1 it failed; 2 it was asked for wrongly, by arguments, settings or a file that cannot be used;
// 128 + n ended by signal n, where the command has something to clean up.
package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leaseway/leaseway/internal/server"
	"github.com/leaseway/leaseway/internal/spelling"
)

const (
	exitFailure = 1
	exitUsage   = 2
)

// Main runs the command that args (without the program's name) ask for, and returns the exit status.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	addCompletion(root)

	err := root.Execute()
	if err == nil {
		return 0
	}

	var (
		failed *failure
		told   *ended
		wrong  *server.UsageError
	)

	if errors.As(err, &wrong) {
		for _, problem := range wrong.Problems {
			fmt.Fprintln(stderr, "leaseway:", problem)
		}

		return exitUsage
	}

	if errors.As(err, &told) {
		return told.status()
	}

	if errors.Is(err, errDifferent) {
		return exitFailure
	}

	fmt.Fprintln(stderr, "leaseway:", strings.TrimPrefix(withFix(inOurWords(root, args, err)), "leaseway: "))

	if errors.As(err, &failed) {
		return exitFailure
	}

	return exitUsage
}

// withFix is the text of an error, with what to do about a file that cannot be opened unless that is said.
func withFix(err error) string {
	text := err.Error()
	if fix := server.FileFix(err); fix != "" && !strings.HasSuffix(text, ")") {
		text += " (" + fix + ")"
	}

	return text
}

// errDifferent is what a comparison ends with that found a difference and has shown it.
var errDifferent = errors.New("there are differences")

// failure marks an error of a command that was asked for rightly, to tell it from those that cobra finds in the arguments.
type failure struct{ error }

// Unwrap returns the error itself.
func (f *failure) Unwrap() error { return f.error }

// run makes what a command does fit for cobra.
func run(do func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := do(cmd, args); err != nil {
			return &failure{err}
		}

		return nil
	}
}

// commands are what the program can do, in the order of its help.
func commands() []*cobra.Command {
	return []*cobra.Command{
		newServe(), newProxy(), newValidate(), newTest(), newCheck(), newShadow(), newRules(), newOverrides(),
		newKill(), newUnkill(), newAudit(), newToken(), newContext(), newDemo(), newDemoChild(), newDemoAPI(), newDemoRedis(),
		newDemoWorkplace(),
		newSim(), newImport(), newKeys(), newDoctor(), newVersion(),
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "leaseway",
		Short: "Limits across a whole fleet, decided in each server's memory",
		Long: "Leaseway limits how fast callers may use an API, exactly across a whole fleet: each server decides in its own\n" +
			"memory, from a lease of tokens that a coordinator gave it.",
		Example: "  leaseway serve --rules rules.yaml\n" +
			"  leaseway serve --coordinator grpcs://limits.example:8081 --coordinator-key ed25519:…   # a holder beside the API",
		Args:          noArguments,
		RunE:          run(func(cmd *cobra.Command, _ []string) error { return cmd.Help() }),
		SilenceErrors: true,
		SilenceUsage:  true,
	}

	root.Version = versionText()
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(commands()...)
	completeValues(root)

	return root
}

// noArguments refuses arguments; at the root they are commands that do not exist.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}

	if !cmd.HasSubCommands() {
		return fmt.Errorf("%s takes no argument, but got %q (see %[1]s --help)", cmd.CommandPath(), args[0])
	}

	var names []string

	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}

	hint := fmt.Sprintf("see %s --help", cmd.CommandPath())
	if near := spelling.Closest(args[0], names); near != "" {
		hint = "did you mean " + near + "?"
	}

	return fmt.Errorf("there is no command %q (%s)", strings.Join(append(strings.Fields(cmd.CommandPath())[1:], args[0]), " "), hint)
}
