package arch

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

// impureImports are the standard packages that the pure floor must not import,
// by what they would bring in. A name covers what is below it too. Atomics and
// locks are allowed: they guard a value, and start nothing.
func impureImports() map[string]string {
	const (
		io     = "input or output"
		logger = "a logger"
		async  = "goroutines or their tools"
	)

	return map[string]string{
		"log": logger, "os": io, "io/ioutil": io, "net/http": io, "net/rpc": io, "database": io, "syscall": io,
		"path/filepath": io, "embed": io, "testing": "tests", "runtime": async, "context": async,
		"crypto/rand": "chance: let the caller draw, so that a test can repeat it",
	}
}

// clockReads are the functions of package time that read or await the clock.
func clockReads() []string {
	return []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}
}

func TestPureFloorIsPure(t *testing.T) {
	t.Parallel()

	table := floors()
	checked := 0

	for _, pkg := range loadModule(t).packages {
		if place, known := table[pkg.path]; !known || place.floor != pure {
			continue
		}

		for _, file := range pkg.code() {
			checked++

			for _, fault := range impurities(file) {
				t.Errorf("%s: %s; package %s is on the pure floor: take now and what else varies as arguments, "+
					"and let the engine keep the clock, the goroutines, the logger and the files", file.name, fault, pkg.path)
			}
		}
	}

	if checked == 0 {
		t.Error("no file of a pure package was found")
	}
}

func impurities(file *goFile) []string {
	var faults []string

	for _, imported := range file.imports() {
		for forbidden, why := range impureImports() {
			if imported == forbidden || strings.HasPrefix(imported, forbidden+"/") {
				faults = append(faults, fmt.Sprintf("imports %s (%s)", imported, why))
			}
		}
	}

	clock := localName(file.tree, "time")

	ast.Inspect(file.tree, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.GoStmt:
			faults = append(faults, "starts a goroutine")
		case *ast.SendStmt, *ast.SelectStmt, *ast.ChanType:
			faults = append(faults, "uses a channel")
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && clock != "" && x.Name == clock && slices.Contains(clockReads(), n.Sel.Name) {
				faults = append(faults, "reads the clock (time."+n.Sel.Name+")")
			}
		}

		return true
	})

	return faults
}

// localName returns what a file calls an imported package; "" if it has none.
func localName(tree *ast.File, importPath string) string {
	for _, spec := range tree.Imports {
		if spec.Path.Value != `"`+importPath+`"` {
			continue
		}

		if spec.Name != nil {
			return spec.Name.Name
		}

		return path.Base(importPath)
	}

	return ""
}
