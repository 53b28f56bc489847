// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"podfit.dev/podfit/test/rowtest"
)

// testdata/upstreamcases.txt has each end-to-end case of upstream, and the tests that show that podfit passes it with --compatibility=upstream. A
// test is the name of a function in a folder, and may have the name of a row of a table in that folder. Each row of a table of upstream's cases
// is behind a case.
func TestUpstreamCases_each_hasATestThatExists(t *testing.T) {
	text, err := os.ReadFile("testdata/upstreamcases.txt")
	if err != nil {
		t.Fatal(err)
	}
	folders, used := map[string]*testNames{}, map[string]bool{}
	seen := map[string]bool{}
	shown := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(strings.TrimSuffix(line, "\n"), " | ")
		if len(fields) < 3 || len(fields) > 4 || seen[fields[0]+fields[1]] {
			t.Errorf("%q does not have three or four fields, or the case is listed twice", line)
			continue
		}
		seen[fields[0]+fields[1]] = true
		if reason, missing := strings.CutPrefix(fields[2], "- "); missing {
			if reason == "" {
				t.Errorf("%q: no test and no reason", fields[1])
			}
			continue
		}
		shown++
		differs := len(fields) == 4
		if differs && !slices.ContainsFunc(rowtest.Table, func(d rowtest.Deviation) bool { return d.Name == fields[3] }) {
			t.Errorf("%q: the table of differences has no row %q", fields[1], fields[3])
		}
		for proof := range strings.SplitSeq(fields[2], "; ") {
			folder, name, _ := strings.Cut(proof, ": ")
			if folders[folder] == nil {
				folders[folder] = testsIn(t, folder)
			}
			function, row, hasRow := strings.Cut(name, "/")
			if !differs && !strings.HasSuffix(function, "WithBothValues") && !withoutFlag[function] {
				t.Errorf("%q: %s does not show that podfit's default has upstream's outcome, and there is no row of the table of differences", fields[1], function)
			}
			if !folders[folder].functions[function] {
				t.Errorf("%q: there is no test %s in %s", fields[1], function, folder)
			}
			if hasRow && !folders[folder].rows[row] {
				t.Errorf("%q: there is no row %q in %s", fields[1], row, folder)
			}
			used[folder+"/"+row] = true
		}
	}
	if want := fmt.Sprintf("# %d cases, of which %d are shown.", len(seen), shown); !strings.HasPrefix(string(text), want) {
		t.Errorf("the file does not begin with %q", want)
	}
	for folder, names := range folders {
		for _, row := range slices.Sorted(maps.Keys(names.cases)) {
			if !used[folder+"/"+row] {
				t.Errorf("%s: the row %q is not behind a case of upstream", folder, row)
			}
		}
	}
}

// withoutFlag are the tests that do not depend on --compatibility.
var withoutFlag = map[string]bool{
	"TestCompatibility_podIsAnnotatedAfterItsRecommendationChanged_isNotChanged": true, "TestServer_changedCertificateFiles_areReloaded": true,
}

// testNames has the names in the test files of a folder.
type testNames struct {
	functions map[string]bool
	rows      map[string]bool // of all tables
	cases     map[string]bool // of the tables of upstream's cases, which are in files named upstream*_test.go and have a field "name"
}

func testsIn(t *testing.T, folder string) *testNames {
	t.Helper()
	files, err := filepath.Glob("../../" + folder + "/*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", folder, len(files), err)
	}
	out := &testNames{functions: map[string]bool{}, rows: map[string]bool{}, cases: map[string]bool{}}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		out.addFile(parsed, strings.HasPrefix(filepath.Base(file), "upstream"))
	}
	return out
}

// addFile adds the names in a file. Rows are the keys of maps, and the fields "name" of composite literals.
func (n *testNames) addFile(file *ast.File, ofCases bool) {
	var kinds []string // of the workloads over which a table iterates
	addRow := func(name string) {
		n.rows[name] = true
		if ofCases {
			n.cases[name] = true
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.FuncDecl:
			if strings.HasPrefix(node.Name.Name, "Test") {
				n.functions[node.Name.Name] = true
			}
		case *ast.RangeStmt:
			ast.Inspect(node.X, func(node ast.Node) bool {
				if value, isKind := valueOf(node, "Kind"); isKind {
					kinds = append(kinds, textOf(value, ""))
				}
				return true
			})
		case *ast.KeyValueExpr:
			value, isName := valueOf(node, "name")
			_, isLiteral := value.(*ast.BasicLit)
			switch key, ofMap := node.Key.(*ast.BasicLit); {
			case isName && isLiteral:
				addRow(textOf(value, ""))
			case isName:
				for _, kind := range kinds {
					addRow(textOf(value, kind))
				}
			case ofMap:
				n.rows[textOf(key, "")] = true
			}
		}
		return true
	})
}

// valueOf returns the value of a field of a composite literal.
func valueOf(node ast.Node, field string) (ast.Expr, bool) {
	pair, isPair := node.(*ast.KeyValueExpr)
	if !isPair {
		return nil, false
	}
	key, isIdentifier := pair.Key.(*ast.Ident)
	return pair.Value, isIdentifier && key.Name == field
}

// textOf returns the text of a string literal, or of a sum of string literals and a variable, which stands for the kind of a workload.
func textOf(e ast.Expr, kind string) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		if err == nil {
			return text
		}
		return e.Value
	case *ast.BinaryExpr:
		return textOf(e.X, kind) + textOf(e.Y, kind)
	default:
		return kind
	}
}
