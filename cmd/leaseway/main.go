// Command leaseway runs coordinators and holders of leases. All it can do is in internal/cli.
package main

import (
	"os"

	"github.com/leaseway/leaseway/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
