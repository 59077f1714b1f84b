// Command bench measures Leaseway beside other rate limiters for Go, and
// writes the tables of docs/benchmarks.md.
//
//	go run .                    # some minutes; make bench does the same
//	go run . -tables hot,http   # these tables only; -h lists them
//	go run . -out ""            # to the terminal
//	go test -bench .            # the timed ones, one after the other
//
// Both sides of each comparison run in one process, turn by turn, in several
// rounds: what else the machine does then hits all of them alike. Each table
// quotes medians, and the ratio of each round's own pair.
//
//	contest ──▶ entrants, each opened for one measurement and closed again
//	   │
//	   ▼
//	measure: rounds × columns × entrants ──▶ report: medians, ratios ──▶ docs/benchmarks.md
//
// It is a module of its own, so that the other limiters stay out of the SDK's
// dependencies.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout, progress io.Writer) error {
	if len(args) == 1 && (args[0] == echoFlag || args[0] == ownEchoFlag) {
		return beEcho(os.Stdin, stdout, args[0] == ownEchoFlag)
	}

	if len(args) > 1 && args[0] == roleFlag {
		return be(args[1:], os.Stdin, stdout)
	}

	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	rounds := flags.Int("rounds", 5, "how often each entrant is measured; the tables quote the median")
	tables := flags.String("tables", "",
		"which tables are measured, separated by commas: "+strings.Join(names(contests(0)), ", ")+"; all if empty")
	out := flags.String("out", "../docs/benchmarks.md", `the page whose tables are replaced; "" prints them`)

	rows := flags.String("rows", "", "only the rows whose name has this in it, such as Leaseway; all if empty")
	fleet := flags.Duration("fleet", fleetTime, "how long each fleet is measured")

	if err := flags.Parse(args); err != nil {
		return err
	}

	if *rounds < 1 {
		return fmt.Errorf("-rounds %d: there must be one at least", *rounds)
	}

	chosen, err := choose(contests(*fleet), *tables)
	if err != nil {
		return err
	}

	for i := range chosen {
		chosen[i].entrants = slices.DeleteFunc(chosen[i].entrants, func(e entrant) bool { return !strings.Contains(e.name, *rows) })
	}

	m := thisMachine(time.Now())

	results, err := measure(chosen, *rounds, progress)
	if err != nil {
		return err
	}

	m.loadAfter = loadAverage()

	titles, fresh := titles(contests(0)), sections(results, m, *rounds)
	if *out == "" {
		_, err := io.WriteString(stdout, join(titles, nil, fresh))

		return err
	}

	return rewrite(*out, titles, fresh)
}

// choose returns the contests that a list of names, separated by commas, is about; without any all that can be held.
func choose(all []contest, list string) ([]contest, error) {
	if list == "" {
		return slices.DeleteFunc(all, func(c contest) bool {
			if len(c.entrants) == 0 {
				fmt.Fprintf(os.Stderr, "left out: %s (%s)\n", c.title, c.needs)
			}

			return len(c.entrants) == 0
		}), nil
	}

	var chosen []contest

	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(all, func(c contest) bool { return c.name == strings.TrimSpace(name) })
		if i < 0 {
			return nil, fmt.Errorf("-tables: there is no %q, only %s", name, strings.Join(names(all), ", "))
		}

		if len(all[i].entrants) == 0 {
			return nil, fmt.Errorf("-tables: %s cannot be measured here: %s", name, all[i].needs)
		}

		chosen = append(chosen, all[i])
	}

	return chosen, nil
}

func names(all []contest) []string {
	list := make([]string, len(all))
	for i := range all {
		list[i] = all[i].name
	}

	return list
}

func titles(all []contest) []string {
	list := make([]string, len(all))
	for i := range all {
		list[i] = all[i].title
	}

	return list
}
