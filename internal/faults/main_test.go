//go:build unix

package faults

import (
	"fmt"
	"os"
	"testing"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/leaseway/leaseway/internal/cli"
	"github.com/leaseway/leaseway/internal/demo"
	"github.com/leaseway/leaseway/internal/store/redis/redistest"
)

// role is the variable that tells this binary to be something else than tests: the program, or a holder.
const role = "FAULTS_ROLE"

// redisServers has the cluster that tests share which do no harm to it.
var redisServers redistest.Servers

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "program":
		os.Exit(cli.Main(append([]string{demo.ChildCommand}, os.Args[1:]...), os.Stdin, os.Stdout, os.Stderr))
	case "holder":
		os.Exit(holderMain(os.Args[1], os.Args[2], os.Stdin, os.Stdout))
	case "slots":
		os.Exit(slotsMain(os.Args[1], os.Args[2], os.Stdin, os.Stdout))
	}

	zerolog.SetGlobalLevel(zerolog.Disabled) // some toxics log by themselves

	code := m.Run()
	redisServers.Stop()

	if err := goleak.Find(redistest.ProxyRemains()...); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)

		code = 1
	}

	os.Exit(code)
}
