// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package compatibility_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// casesOfUpstream are the numbers of upstream's end-to-end cases, by the folder of their tables.
var casesOfUpstream = map[string]int{"internal/app/updater": 45, "internal/app/recommender": 11, "internal/app": 9, "test/admission": 29}

// Each end-to-end case of upstream is a row of one of podfit's tables of these cases, or has a test of its own, and each row is a case.
func TestUpstreamCases_each_isRowOfATableOrTest(t *testing.T) {
	list, err := os.ReadFile("testdata/upstreamcases.txt")
	if err != nil {
		t.Fatal(err)
	}
	folder, cases := "", map[string]int{}
	rows, listed := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(string(list)) {
		name := strings.TrimSpace(line)
		switch {
		case name == "" || strings.HasPrefix(line, "#"):
			continue
		case !strings.HasPrefix(line, "\t"):
			complain(t, folder, rows, listed)
			folder, rows, listed = path.Dir(name), rowsOf(t, name), map[string]bool{}
			continue
		}
		name, isSecond := strings.CutPrefix(name, "+ ")
		if !isSecond {
			cases[folder]++
		}
		if _, known := rows[name]; !known || listed[name] {
			t.Errorf("%s: no row or test %q, or it is listed twice", folder, name)
		}
		listed[name] = true
	}
	complain(t, folder, rows, listed)
	if !maps.Equal(cases, casesOfUpstream) {
		t.Errorf("cases %v, want %v", cases, casesOfUpstream)
	}
}

// complain reports rows of tables that are not listed.
func complain(t *testing.T, folder string, rows, listed map[string]bool) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		if rows[name] && !listed[name] {
			t.Errorf("%s: the row %q is not listed as a case of upstream", folder, name)
		}
	}
}

// rowsOf returns the names in the tables of a file, and its tests. The value is true for the rows of a table of upstream's cases, which are the
// composite literals with a field "name".
func rowsOf(t *testing.T, file string) map[string]bool {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), "../../"+file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	var kinds []string // of the workloads over which a table iterates
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if strings.HasPrefix(n.Name.Name, "Test") {
				out[n.Name.Name] = false
			}
		case *ast.RangeStmt:
			ast.Inspect(n.X, func(n ast.Node) bool {
				if value, isKind := valueOf(n, "Kind"); isKind {
					kinds = append(kinds, textOf(value, ""))
				}
				return true
			})
		case *ast.KeyValueExpr:
			value, isName := valueOf(n, "name")
			_, isLiteral := value.(*ast.BasicLit)
			switch key, ofMap := n.Key.(*ast.BasicLit); {
			case isName && isLiteral:
				out[textOf(value, "")] = true
			case isName:
				for _, kind := range kinds {
					out[textOf(value, kind)] = true
				}
			case ofMap:
				out[textOf(key, "")] = false
			}
		}
		return true
	})
	return out
}

// valueOf returns the value of a field of a composite literal.
func valueOf(n ast.Node, field string) (ast.Expr, bool) {
	pair, isPair := n.(*ast.KeyValueExpr)
	if !isPair {
		return nil, false
	}
	key, isIdentifier := pair.Key.(*ast.Ident)
	return pair.Value, isIdentifier && key.Name == field
}

// textOf returns the text of a literal or of a sum of literals and a kind.
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
