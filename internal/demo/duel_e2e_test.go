//go:build unix

package demo_test

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/leaseway/leaseway/internal/demo"
)

// Each scenario must go the way that it says, with much to spare: the demo claims a factor of 4, here half of that will do, and on
// a machine that by the demo's own word was too busy for the traffic, the direction.
func TestScenariosProtectTheInnocent(t *testing.T) {
	const share = 0.95

	for _, name := range demo.Scenarios() {
		t.Run(name, func(t *testing.T) {
			d := runDuel(t, command(t, "--scenario", name, "-o", "json"))

			innocents, refused, factor := 0, int64(0), 2.0
			if len(d.Warnings) > 0 {
				factor = 1
			}

			for i, is := range d.With.Crowds {
				was := d.Without.Crowds[i]
				if was.Requests != is.Requests || was.Refused > 0 {
					t.Errorf("the sides had %d and %d requests of %s, and that without Leaseway refused %d",
						was.Requests, is.Requests, is.Crowd, was.Refused)
				}

				refused += is.Refused

				if !is.Innocent {
					continue
				}

				innocents++

				if was.P99Ms < factor*is.P99Ms || is.P99Ms <= 0 {
					t.Errorf("%s: p99 %.1f ms without and %.1f ms with", is.Crowd, was.P99Ms, is.P99Ms)
				}

				if got := float64(is.Served) / float64(is.Requests); got < share || is.Served <= was.Served || is.Refused > 0 {
					t.Errorf("%s: %+v with, %+v without", is.Crowd, is, was)
				}
			}

			if innocents == 0 || refused == 0 || d.InFlight != 0 {
				t.Errorf("%d innocent crowds, %d refused, %d in flight at the end", innocents, refused, d.InFlight)
			}

			t.Logf("claims: %+v; warnings: %q", d.Claims, d.Warnings)
		})
	}
}

// runDuel runs a scenario for its document.
func runDuel(t *testing.T, cmd *exec.Cmd) (d demo.Duel) {
	t.Helper()

	var stdout, stderr bytes.Buffer

	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()

	if bad := json.Unmarshal(stdout.Bytes(), &d); bad != nil {
		t.Fatalf("%v: the document: %v\n%s%s", err, bad, stdout.Bytes(), stderr.Bytes())
	}

	temporary(t, cmd)

	if d.Held != (err == nil) || !strings.Contains(stderr.String(), "without Leaseway") {
		t.Errorf("held: %v, the exit status: %v, said: %s", d.Held, err, stderr.Bytes())
	}

	return d
}
