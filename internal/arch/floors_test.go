package arch

import (
	"slices"
	"strings"
	"testing"
)

// A floor is a level of the module; a higher number is further from the wire.
type floor int

const (
	wire     floor = iota // generated messages
	pure                  // arithmetic and documents: no clock, goroutine, logger or I/O
	engine                // leases on the move: stores, coordinator, table, gRPC
	sdk                   // the root package
	doors                 // what turns foreign requests into Decide
	assembly              // wiring and commands
)

func (f floor) String() string {
	return [...]string{"wire", "pure", "engine", "SDK", "doors", "assembly"}[f]
}

// A place is where a package stands and what it may import of this module.
type place struct {
	floor   floor
	imports []string
}

// root is the SDK's name in the table.
const root = "."

// anything lets a package import whatever stands below its floor, or on it.
// Only the assembly may: it is what the rest is wired together by.
const anything = "*"

// floors is the table of allowed edges, for code that is not a test. A package
// is named by its path in the module. Add an edge only when the lower package
// offers what the upper one needs anyway: an edge is a promise to change both.
func floors() map[string]place {
	return map[string]place{
		"cmd/leaseway":    {assembly, []string{"internal/cli"}},
		"internal/cli":    {assembly, []string{anything}},
		"internal/server": {assembly, []string{anything}},
		"internal/demo":   {assembly, []string{anything}},
		"internal/cases":  {assembly, []string{anything}},
		"internal/doctor": {assembly, []string{"internal/store/redis", "internal/rpc", "rule"}},
		"internal/plots":  {assembly, []string{"internal/rate"}},
		"internal/faults": {assembly, nil}, // tests alone
		"deploy":          {assembly, nil}, // tests alone, beside what they run
		"internal/sim": {assembly, []string{
			"internal/table", "internal/coordinator", "internal/store/memory", "internal/ledger", "internal/rate", "rule", "internal/plots",
		}},

		"leasewayhttp":        {doors, []string{root, "rule", "internal/mishap", "internal/counts", "internal/phrase"}},
		"leasewaygrpc":        {doors, []string{root, "rule", "leasewayhttp", "internal/mishap", "internal/phrase"}},
		"internal/counts":     {doors, []string{root, "rule"}},
		"internal/rest":       {doors, nil},
		"internal/check":      {doors, []string{root, "internal/rest", "rule"}},
		"internal/admin":      {doors, []string{"internal/check", "internal/rest", "internal/rulestore", "rule"}},
		"internal/accesslog":  {doors, []string{root}},
		"internal/envoyrls":   {doors, []string{root, "internal/check", "leasewayhttp", "rule"}},
		"internal/proxy":      {doors, []string{root, "leasewayhttp", "leasewaygrpc", "internal/accesslog", "internal/phrase"}},
		"internal/proxycheck": {doors, []string{root, "leasewayhttp", "internal/check"}},

		root: {sdk, []string{
			"internal/table", "internal/coordinator", "internal/store", "internal/store/memory", "internal/rpc",
			"internal/load", "rule", "internal/holder", "internal/heavy", "internal/ledger", "internal/rate", "internal/shed", "internal/mishap",
		}},

		// The one public package with a driver. It stands on the SDK, whose Limiter it returns.
		"leasewayredis": {doors, []string{
			root, "rule", "internal/coordinator", "internal/ledger", "internal/store/redis",
		}},

		"internal/load":                  {engine, nil},
		"internal/mishap":                {engine, nil},
		"internal/proctest":              {engine, nil}, // for tests alone
		"internal/table":                 {engine, []string{"rule", "internal/holder", "internal/ledger", "internal/rate", "internal/slots", "internal/mishap"}},
		"internal/coordinator":           {engine, []string{"internal/store", "rule", "internal/ledger", "internal/rate"}},
		"internal/rpc":                   {engine, []string{"gen/leaseway/v1", "rule", "internal/ledger", "internal/rate", "internal/phrase"}},
		"internal/store":                 {engine, []string{"internal/ledger", "internal/rate"}},
		"internal/store/memory":          {engine, []string{"internal/store", "internal/ledger", "internal/rate", "internal/slots"}},
		"internal/store/redis":           {engine, []string{"internal/store", "internal/ledger", "internal/rate", "internal/slots"}},
		"internal/store/redis/joined":    {engine, nil},
		"internal/store/redis/redistest": {engine, []string{"internal/proctest", "internal/store/redis/joined"}}, // for tests alone
		"internal/store/storetest":       {engine, []string{"internal/store", "internal/ledger", "internal/rate", "internal/slots"}},

		// Nothing below the assembly keeps rules by a driver: the SDK and the coordinator are given a rule.Set.
		"internal/rulestore":                       {engine, []string{"rule"}},
		"internal/rulestore/relational":            {engine, []string{"internal/rulestore", "rule"}},
		"internal/rulestore/sqlite":                {engine, []string{"internal/rulestore", "internal/rulestore/relational"}},
		"internal/rulestore/postgres":              {engine, []string{"internal/rulestore", "internal/rulestore/relational"}},
		"internal/rulestore/postgres/postgrestest": {engine, nil}, // for tests alone
		"internal/rulestore/rulestoretest":         {engine, []string{"internal/rulestore", "rule"}},
		"internal/rulefeed":                        {engine, []string{"internal/rulestore", "internal/coordinator", "rule"}},
		"internal/rulestore/file":                  {engine, []string{"internal/rulestore", "rule"}},

		"rule":                       {pure, []string{"internal/rate"}},
		"internal/rulespec":          {pure, nil},
		"internal/envoyimport":       {pure, []string{"rule", "internal/spelling"}},
		"internal/spelling":          {pure, nil},
		"internal/phrase":            {pure, nil},
		"internal/shed":              {pure, nil},
		"internal/heavy":             {pure, nil},
		"internal/holder":            {pure, []string{"internal/ledger", "internal/rate"}},
		"internal/ledger":            {pure, []string{"internal/rate", "internal/slots"}},
		"internal/ledger/ledgertest": {pure, []string{"internal/ledger", "internal/rate"}}, // for tests alone
		"internal/slots":             {pure, nil},
		"internal/rate":              {pure, nil},

		"gen/leaseway/v1": {wire, nil},
		"internal/arch":   {wire, nil},
	}
}

func TestEdgesAreInTheTable(t *testing.T) {
	t.Parallel()

	table := floors()

	for _, pkg := range loadModule(t).packages {
		from, known := table[pkg.path]
		if !known {
			if !strings.HasPrefix(pkg.path, "examples/") { // an example uses what a user can
				t.Errorf("package %s has no floor: add it, with what it may import, to the table in internal/arch/floors_test.go", pkg.path)
			}

			continue
		}

		for _, file := range pkg.code() {
			for _, path := range file.imports() {
				to, ours := inModule(path)
				if !ours || slices.Contains(from.imports, to) || slices.Contains(from.imports, anything) && table[to].floor <= from.floor {
					continue
				}

				t.Errorf("%s: %s (%v) imports %s (%v): not an edge of the table in internal/arch/floors_test.go; "+
					"turn the dependency around, or add the edge and say why in the commit",
					file.name, pkg.path, from.floor, to, table[to].floor)
			}
		}
	}
}

// The table could allow what the floors forbid; this keeps it honest.
func TestTablePointsDown(t *testing.T) {
	t.Parallel()

	table := floors()

	for path, from := range table {
		for _, to := range from.imports {
			target, known := table[to]

			switch {
			case to == anything && from.floor != assembly:
				t.Errorf("%s stands on the floor %v: only the assembly may import anything", path, from.floor)
			case to != anything && !known:
				t.Errorf("%s may import %s, which the table does not know", path, to)
			case to != anything && target.floor > from.floor:
				t.Errorf("%s (%v) may import %s (%v): imports point down", path, from.floor, to, target.floor)
			}
		}
	}
}

// Examples show what a user can write, so they may only import what a user can.
func TestExamplesUseThePublicPackages(t *testing.T) {
	t.Parallel()

	for _, pkg := range loadModule(t).packages {
		for _, file := range pkg.files {
			if !strings.HasPrefix(pkg.path, "examples/") {
				continue
			}

			for _, path := range file.imports() {
				if to, ours := inModule(path); ours && strings.HasPrefix(to, "internal/") {
					t.Errorf("%s imports %s, which a user of the module cannot", file.name, to)
				}
			}
		}
	}
}
