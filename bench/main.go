// Command bench measures Leaseway beside other rate limiters for Go, and
// writes the tables of docs/benchmarks.md.
//
//	go run .            # a few minutes; make bench does the same
//	go run . -out ""    # to the terminal
//	go test -bench .    # the same measurements, one after the other
//
// Both sides of each comparison run in one process, turn by turn, in several
// rounds: what else the machine does then hits all of them alike. Each table
// quotes medians, and the ratio of each round's own pair.
//
//	contest ──▶ entrants, each opened for one measurement and closed again
//	   │
//	   ▼
//	measure: rounds × processors × entrants ──▶ report: medians, ratios ──▶ docs/benchmarks.md
//
// It is a module of its own, so that the other limiters stay out of the SDK's
// dependencies.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"testing"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout, progress io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	rounds := flags.Int("rounds", 7, "how often each entrant is measured; the tables quote the median")
	each := flags.Duration("benchtime", 300*time.Millisecond, "how long one measurement takes")
	out := flags.String("out", "../docs/benchmarks.md", `the page whose tables are replaced; "" prints them`)

	if err := flags.Parse(args); err != nil {
		return err
	}

	if *rounds < 1 {
		return fmt.Errorf("-rounds %d: there must be one at least", *rounds)
	}

	testing.Init()

	if err := flag.Set("test.benchtime", each.String()); err != nil {
		return err
	}

	m := thisMachine(time.Now())

	results, err := measure(contests(), *rounds, progress)
	if err != nil {
		return err
	}

	m.loadAfter = loadAverage()

	text := render(results, m, *rounds)
	if *out == "" {
		_, err := io.WriteString(stdout, text)

		return err
	}

	return replace(*out, text)
}
