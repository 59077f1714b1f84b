package arch

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const modulePath = "github.com/leaseway/leaseway"

// A module is every Go file of this module, parsed. The files are read here and
// not through "go list", so that a cached test result is dropped as soon as one
// of them changes, and so that files for other systems count too.
type module struct {
	dir      string // of go.mod
	fileSet  *token.FileSet
	packages []*goPackage
}

type goPackage struct {
	path  string // in the module, with slashes; "." for the root
	files []*goFile
}

// code returns the files that are not tests.
func (p *goPackage) code() []*goFile {
	var code []*goFile

	for _, file := range p.files {
		if !file.isTest() {
			code = append(code, file)
		}
	}

	return code
}

func (p *goPackage) isGenerated() bool { return strings.HasPrefix(p.path, "gen/") }

type goFile struct {
	name  string // path in the module
	lines int
	tree  *ast.File
}

func (f *goFile) isTest() bool { return strings.HasSuffix(f.name, "_test.go") }

func (f *goFile) imports() []string {
	paths := make([]string, 0, len(f.tree.Imports))

	for _, spec := range f.tree.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil {
			paths = append(paths, p)
		}
	}

	return paths
}

// inModule returns an import path as the table of floors names it, and whether
// it is of this module at all.
func inModule(importPath string) (string, bool) {
	if importPath == modulePath {
		return root, true
	}

	return strings.CutPrefix(importPath, modulePath+"/")
}

// loadModule parses the module once for all tests.
func loadModule(t *testing.T) *module {
	t.Helper()

	m, err := parseModule()
	if err != nil {
		t.Fatal(err)
	}

	return m
}

var parseModule = sync.OnceValues(func() (*module, error) {
	dir, err := filepath.Abs("../..")
	if err != nil {
		return nil, err
	}

	m := &module{dir: dir, fileSet: token.NewFileSet()}
	byPath := map[string]*goPackage{}

	err = filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			return skipForeign(dir, name)
		case filepath.Ext(name) != ".go":
			return nil
		}

		file, err := m.parse(name)
		if err != nil {
			return err
		}

		pkgPath := path.Dir(file.name)
		if byPath[pkgPath] == nil {
			byPath[pkgPath] = &goPackage{path: pkgPath}
			m.packages = append(m.packages, byPath[pkgPath])
		}

		byPath[pkgPath].files = append(byPath[pkgPath].files, file)

		return nil
	})

	return m, err
})

// skipForeign leaves out the directories that the go command leaves out too.
func skipForeign(moduleDir, name string) error {
	base := filepath.Base(name)

	switch {
	case name == moduleDir:
		return nil
	case base == "testdata", base == "node_modules", strings.HasPrefix(base, "."), strings.HasPrefix(base, "_"):
		return fs.SkipDir
	}

	if _, err := os.Stat(filepath.Join(name, "go.mod")); !errors.Is(err, fs.ErrNotExist) {
		return fs.SkipDir // a module of its own
	}

	return nil
}

func (m *module) parse(name string) (*goFile, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}

	tree, err := parser.ParseFile(m.fileSet, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}

	rel, err := filepath.Rel(m.dir, name)
	if err != nil {
		return nil, err
	}

	return &goFile{name: filepath.ToSlash(rel), lines: strings.Count(string(text), "\n"), tree: tree}, nil
}
