//go:build linux

package deploy

import (
	"math/rand/v2"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/leaseway/leaseway/internal/cli"
	"github.com/leaseway/leaseway/internal/demo"
)

// role is the variable that tells this binary to be the program, or an API, instead of tests.
const role = "DEPLOY_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "program":
		os.Exit(cli.Main(append([]string{demo.ChildCommand}, os.Args[1:]...), os.Stdin, os.Stdout, os.Stderr))
	case "api":
		os.Exit(apiMain(os.Args[1], os.Args[2], os.Stdin))
	}

	ports.Store(20_000 + rand.Int64N(10_000)) // test binaries that run beside this one begin elsewhere
	goleak.VerifyTestMain(m)
}
