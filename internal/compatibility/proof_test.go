// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package compatibility_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"podfit.dev/podfit/test/rowtest"
)

// Each difference has a test and a row in docs/migrate.md, and is listed once. With a flag, the test runs both values.
func TestDifferences_each_hasTestAndRow(t *testing.T) {
	tests, rows := allTests(t), userRows(t)
	listed := map[string]bool{}
	for _, d := range slices.Concat(rowtest.Table, keptTable) {
		name, part, _ := strings.Cut(d.Test, "/")
		in, ok := tests[name]
		switch {
		case !ok || part != "" && !in.has(t, part):
			t.Errorf("%q has no test %s", d.Name, d.Test)
		case d.Flag != "" && !slices.Contains(in.both, d.Name):
			t.Errorf("%q: %s does not call rowtest.Both with this name, so it does not show both values of --%s", d.Name, d.Test, d.Flag)
		}
		if listed[d.Name] {
			t.Errorf("%q is listed twice", d.Name)
		}
		listed[d.Name] = true
		if weakness, ok := rows[d.Name]; !ok || weakness != d.Weakness {
			t.Errorf("docs/migrate.md has no row for %q with weakness %q", d.Name, d.Weakness)
		}
		if slices.Contains([]string{d.Name, d.Upstream, d.Podfit, d.Why}, "") {
			t.Errorf("%q has an empty field", d.Name)
		}
	}
	for name := range rows {
		if !listed[name] {
			t.Errorf("%q in docs/migrate.md is in no table", name)
		}
	}
	stay, err := os.ReadFile("../../docs/scope.md")
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= weaknesses; n++ {
		w := fmt.Sprintf("W-%02d", n)
		mended := slices.ContainsFunc(slices.Concat(rowtest.Table, keptTable), func(d rowtest.Deviation) bool { return d.Weakness == w })
		if mended == bytes.Contains(stay, []byte("**"+w)) {
			t.Errorf("%s must either be fixed by a difference or be listed in docs/scope.md; fixed by a difference: %v", w, mended)
		}
	}
}

// weaknesses is the number of upstream's weaknesses, numbered from W-01.
const weaknesses = 29

// userRows returns the rows of docs/migrate.md: the number of the weakness by the name of the difference.
func userRows(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/migrate.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tables, _ := bytes.Cut(text, []byte("## Where podfit differs"))
	rows := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^\| (?:([WS]-\d\d) )?([^|]+) \|`).FindAllSubmatch(tables, -1) {
		rows[string(m[2])] = string(m[1])
	}
	return rows
}

// A home is the file of a test.
type home struct {
	folder string
	text   []byte
	both   []string // texts in the test that calls rowtest.Both, one of which is the name of the row
}

// rowsOfBoth returns the texts of a test if it calls rowtest.Both: the name of the row, as an argument or in the table over which the test
// iterates, and others. rowtest.Both itself checks that the row exists and names the test, and that each value has its outcome.
func rowsOfBoth(test *ast.FuncDecl) (texts []string) {
	calls := false
	ast.Inspect(test, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			f, isSelector := n.Fun.(*ast.SelectorExpr)
			if !isSelector || f.Sel.Name != "Both" || len(n.Args) != 4 {
				break
			}
			if from, isName := f.X.(*ast.Ident); isName && from.Name == "rowtest" {
				calls = true
				texts = append(texts, textOf(n.Args[1]))
			}
		case *ast.RangeStmt:
			if table, isTable := n.X.(*ast.CompositeLit); isTable {
				for _, row := range table.Elts {
					if pair, isPair := row.(*ast.KeyValueExpr); isPair {
						texts = append(texts, textOf(pair.Key))
					}
				}
			}
		}
		return true
	})
	if !calls {
		return nil
	}
	return texts
}

// textOf returns the text of a literal, and "" for another expression.
func textOf(e ast.Expr) string {
	literal, isLiteral := e.(*ast.BasicLit)
	if !isLiteral {
		return ""
	}
	text, err := strconv.Unquote(literal.Value)
	if err != nil {
		return literal.Value
	}
	return text
}

func TestRowsOfBoth_sources_onlyTestsThatCallItHaveRows(t *testing.T) {
	for source, want := range map[string][]string{
		`rowtest.Both(t, "a", want, run)`: {"a"},
		`for row, c := range map[string]int{"a": 1, "b": 2} { rowtest.Both(t, row, c, run) }`: {"a", "b", ""},
		`for row := range map[string]int{"a": 1} { t.Run(row, run) }`:                         nil,
		`other.Both(t, "a", want, run)`:                                                       nil,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "", "package p\nfunc TestX(t *testing.T) {\n"+source+"\n}", 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := rowsOfBoth(f.Decls[0].(*ast.FuncDecl)); !slices.Equal(got, want) {
			t.Errorf("%s: rows %q, want %q", source, got, want)
		}
	}
}

// has reports whether a test has a part with that name: a case of a table, or a transcript.
func (h home) has(t *testing.T, part string) bool {
	t.Helper()
	if bytes.Contains(h.text, []byte(strconv.Quote(part))) {
		return true
	}
	for _, pattern := range []string{"testdata", "testdata/*"} {
		found, err := filepath.Glob(filepath.Join(h.folder, pattern, part+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		if len(found) > 0 {
			return true
		}
	}
	return false
}

// allTests returns the files of all tests in internal/, test/contract and test/differential, by name.
func allTests(t *testing.T) map[string]home {
	t.Helper()
	tests := map[string]home{}
	for _, root := range []string{"../../test/contract", "../../test/differential", ".."} {
		if err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, text, 0)
			if err != nil {
				return err
			}
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
					tests[fn.Name.Name] = home{filepath.Dir(path), text, rowsOfBoth(fn)}
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return tests
}
