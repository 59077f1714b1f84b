package arch

import (
	"os/exec"
	"strings"
	"testing"
)

// unlinked are the modules that a program must not get by importing the SDK, by
// the beginning of their import paths, with who may link them instead.
func unlinked() map[string]string {
	const (
		driver = "a store's driver: only leasewayredis, internal/store and internal/rulestore link one"
		server = "the server's machinery: only internal/server and the doors it opens"
		cli    = "the command line: only internal/cli"
	)

	return map[string]string{
		"github.com/redis/":                      driver,
		"github.com/jackc/pgx":                   driver,
		"github.com/pressly/goose":               driver,
		"modernc.org/sqlite":                     driver,
		"github.com/mattn/go-sqlite3":            driver,
		"database/sql":                           driver,
		"github.com/danielgtaylor/huma":          server,
		"github.com/prometheus/client_golang":    server,
		"github.com/envoyproxy/go-control-plane": server,
		"github.com/spf13/cobra":                 cli,
		"github.com/charmbracelet/":              cli,
		"testing":                                "tests: it registers flags in every program",
		modulePath + "/internal/server":          server,
		modulePath + "/internal/store/storetest": "tests",
		"github.com/rogpeppe/go-internal":        "tests",
		"pgregory.net/rapid":                     "tests",
	}
}

func TestImportingTheSDKLinksNoDriver(t *testing.T) {
	t.Parallel()

	m := loadModule(t)

	for _, pkg := range m.packages {
		if !isSDK(pkg) {
			continue
		}

		list := exec.CommandContext(t.Context(), "go", "list", "-deps", "./"+pkg.path)
		list.Dir = m.dir

		deps, err := list.Output()
		if err != nil {
			t.Fatalf("go list -deps ./%s: %v", pkg.path, err)
		}

		for dep := range strings.FieldsSeq(string(deps)) {
			for prefix, why := range unlinked() {
				if dep == prefix || strings.HasPrefix(dep, strings.TrimSuffix(prefix, "/")+"/") {
					t.Errorf("importing %s links %s: %s. Find the path with: go mod why %[2]s", pkg.path, dep, why)
				}
			}
		}
	}
}

// isSDK tells the packages that users import, but for the one with a driver.
func isSDK(pkg *goPackage) bool {
	if len(pkg.code()) == 0 {
		return false
	}

	top, _, _ := strings.Cut(pkg.path, "/")

	switch top {
	case "cmd", "examples", "gen", "internal", "leasewayredis":
		return false
	default:
		return true
	}
}
