// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// A source is where the files of packages are, and what the names in them mean.
type source struct {
	set  *token.FileSet
	info *types.Info
}

func newSource() *source {
	return &source{token.NewFileSet(), &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{},
		Selections: map[*ast.SelectorExpr]*types.Selection{}, Implicits: map[ast.Node]types.Object{},
	}}
}

// compiled is a package in the output of go list -export.
type compiled struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// compiledPackages returns packages and what they import. A package comes after those that it imports.
func compiledPackages(t *testing.T, patterns ...string) (out []compiled) {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles"}, patterns...)...)
	cmd.Dir = "../.."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	list, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	for d := json.NewDecoder(bytes.NewReader(list)); ; {
		var c compiled
		if err := d.Decode(&c); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			t.Fatal(err)
		}
		out = append(out, c)
	}
}

// packageImporter imports the packages of the module that were checked before, and all others from the export data of the compiler.
type packageImporter struct {
	checked map[string]*types.Package
	others  types.Importer
}

func newPackageImporter(set *token.FileSet, all []compiled) packageImporter {
	exports := map[string]string{}
	for _, c := range all {
		exports[c.ImportPath] = c.Export
	}
	lookup := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	return packageImporter{map[string]*types.Package{}, importer.ForCompiler(set, "gc", lookup)}
}

// Import returns the package with an import path.
func (i packageImporter) Import(path string) (*types.Package, error) {
	if p := i.checked[path]; p != nil {
		return p, nil
	}
	return i.others.Import(path)
}

// check parses the files of a package and finds their types.
func (i packageImporter) check(t *testing.T, s *source, path string, names []string) (files []*ast.File) {
	t.Helper()
	for _, name := range names {
		f, err := parser.ParseFile(s.set, name, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	config := types.Config{Importer: i}
	checked, err := config.Check(path, s.set, files, s.info)
	if err != nil {
		t.Fatalf("check %s: %v", path, err)
	}
	i.checked[path] = checked
	return files
}

// checkedModule is the module with its types, read once for all tests.
var checkedModule struct {
	sync.Once
	source *source
	files  []*ast.File
}

// checked returns the files of all packages of the module without tests, and their types.
func checked(t *testing.T) (*source, []*ast.File) {
	t.Helper()
	checkedModule.Do(func() {
		s := newSource()
		all := compiledPackages(t, "./...")
		packages := newPackageImporter(s.set, all)
		for _, c := range all {
			if under(c.ImportPath, []string{module}) {
				names := make([]string, len(c.GoFiles))
				for i, name := range c.GoFiles {
					names[i] = filepath.Join(c.Dir, name)
				}
				checkedModule.files = append(checkedModule.files, packages.check(t, s, c.ImportPath, names)...)
			}
		}
		checkedModule.source = s
	})
	if checkedModule.source == nil {
		t.Fatal("the types of the module are not known")
	}
	return checkedModule.source, checkedModule.files
}
