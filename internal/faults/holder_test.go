//go:build unix

package faults

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leaseway/leaseway"

	"github.com/leaseway/leaseway/internal/proctest"
)

// holderMain is a holder as a process of its own. For each line on in, a number, it takes as many times from key "k" of
// rule "r", at once, and writes how many passed, from when to when, in µs since the epoch. It ends with in.
func holderMain(url, wait string, in io.Reader, out io.Writer) int {
	patient, err := time.ParseDuration(wait)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)

		return 1
	}

	l, err := leaseway.Dial(context.Background(), []string{url}, leaseway.WithDeadline(patient))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)

		return 1
	}

	rule, err := l.Rule("r")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)

		return 1
	}

	fmt.Fprintln(out, "ready")

	for lines := bufio.NewScanner(in); lines.Scan(); {
		n, _ := strconv.Atoi(lines.Text())
		from, passed, leased := time.Now().UnixMicro(), 0, 0

		for range n {
			if d := rule.Take("k"); d.Allowed {
				passed++

				if !d.Origin.Degraded() {
					leased++
				}
			}
		}

		fmt.Fprintln(out, "took", passed, leased, from, time.Now().UnixMicro())
	}

	return 0
}

// remote is a holder that is a process of its own.
type remote struct {
	*proctest.Process

	answers int
}

func newRemote(t *testing.T, url string, wait time.Duration) *remote {
	t.Helper()

	r := &remote{Process: start(t, "holder", url, wait.String())}
	eventually(t, "the holder is ready", func() bool { return strings.Contains(r.Log.String(), "ready") })

	return r
}

// ask has it take n times.
func (r *remote) ask(t *testing.T, n int) {
	t.Helper()

	if _, err := fmt.Fprintln(r.Stdin, n); err != nil {
		t.Fatal(err)
	}

	r.answers++
}

// taken waits for the answer to the last ask, and returns how many passed, and of them not without a coordinator.
func (r *remote) taken(t *testing.T) (passed, leased int) {
	t.Helper()

	var lines []string

	eventually(t, "the holder answers", func() bool {
		lines = lines[:0]

		for line := range strings.Lines(r.Log.String()) {
			if strings.HasPrefix(line, "took") && strings.HasSuffix(line, "\n") {
				lines = append(lines, line)
			}
		}

		return len(lines) == r.answers
	})

	if _, err := fmt.Sscanf(lines[len(lines)-1], "took %d %d", &passed, &leased); err != nil {
		t.Fatal(err)
	}

	return passed, leased
}
