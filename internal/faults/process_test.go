//go:build unix

package faults

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leaseway/leaseway/internal/proctest"
	"github.com/leaseway/leaseway/internal/rpc"
)

// patience is how long a test waits for what should come soon, on a machine that has other things to do.
const patience = proctest.Patience

// start runs this binary in another role.
func start(t *testing.T, as string, args ...string) *proctest.Process {
	t.Helper()

	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = []string{role + "=" + as}

	return proctest.Start(t, cmd)
}

// program is "leaseway serve" at fixed addresses, so that it can come again.
type program struct {
	*proctest.Process

	dir, grpc, http string
	args            []string
}

// newProgram has a directory and addresses, and does not run yet.
func newProgram(t *testing.T) *program {
	t.Helper()

	addresses := proctest.FreeAddresses(t, 2)

	return &program{dir: t.TempDir(), grpc: addresses[0], http: addresses[1]}
}

// newCoordinator starts one with these rules. It keeps its data, as a real one would.
func newCoordinator(t *testing.T, rules string, args ...string) *program {
	t.Helper()

	c := newProgram(t)
	write(t, c.path("rules.yaml"), rules)

	if _, err := rpc.GenerateKeyFile(c.path("key")); err != nil {
		t.Fatal(err)
	}

	c.args = append([]string{
		"serve", "--rules", c.path("rules.yaml"), "--listen", c.http, "--grpc-listen", c.grpc,
		"--data-dir", c.path("data"), "--signing-key-file", c.path("key"), "--log-format", "json",
	}, args...)
	c.run(t)

	return c
}

// run starts the process, again or for the first time, and waits until it serves.
func (c *program) run(t *testing.T) {
	t.Helper()
	c.Process = start(t, "program", c.args...)
	c.serving(t)
}

func (c *program) serving(t *testing.T) {
	t.Helper()
	c.Eventually(t, "it serves", func() bool { return strings.Contains(c.Log.String(), `"listening"`) })
}

func (c *program) path(name string) string { return filepath.Join(c.dir, name) }

// said returns the values that the log has for a key of its lines.
func (c *program) said(key string) (values []string) {
	for line := range strings.Lines(c.Log.String()) {
		var fields map[string]any
		if json.Unmarshal([]byte(line), &fields) == nil && fields[key] != nil {
			values = append(values, fmt.Sprint(fields[key]))
		}
	}

	return values
}

// metric returns the value of a metric without labels, or "" if the program does not tell.
func (c *program) metric(t *testing.T, name string) string {
	t.Helper()

	resp, err := http.Get("http://" + c.http + "/metrics")
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()

	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return value
		}
	}

	return ""
}

func write(t *testing.T, path, text string) {
	t.Helper()

	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()

	proctest.Eventually(t, what, holds)
}

// within reports whether a condition comes to hold in time.
func within(d time.Duration, holds func() bool) bool { return proctest.Within(d, holds) }
