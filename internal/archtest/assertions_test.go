// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package archtest

import (
	"go/ast"
	"go/types"
	"strings"
	"testing"
)

// assertions lists the type assertions to interfaces of podfit, each with the reason why the type has no such method in its interface.
var assertions = map[string]string{
	"edge/kube.Gate":             "the value of a context, which has no type",
	"edge/kube/scale.discoverer": "methods of each client of client-go, which its interface has only in newer versions",

	"interface{Peaks(r podfit.dev/podfit/internal/core/cluster.Resource) *podfit.dev/podfit/internal/core/hourly.Peaks}": "only some algorithms keep hourly peaks, and usage is below the package of Peaks",

	"interface{Equal(crypto.PublicKey) bool}": "the standard library declares no interface for public keys, and names this one in the text of crypto.PublicKey",
}

// optional returns the interfaces of the module, and those without a name, that a type assertion or a type switch in the files asks for.
func optional(info *types.Info, files []*ast.File) map[string]ast.Expr {
	out := map[string]ast.Expr{}
	add := func(e ast.Expr) {
		t := info.TypeOf(e)
		_, isParameter := t.(*types.TypeParam)
		if t == nil || isParameter || !types.IsInterface(t) {
			return
		}
		named, ok := t.(*types.Named)
		switch {
		case !ok:
			out[t.String()] = e
		case named.Obj().Pkg() != nil && under(named.Obj().Pkg().Path(), []string{module}):
			out[strings.TrimPrefix(named.Obj().Pkg().Path(), module+"/internal/")+"."+named.Obj().Name()] = e
		}
	}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeAssertExpr:
				if n.Type != nil {
					add(n.Type)
				}
			case *ast.TypeSwitchStmt:
				for _, c := range n.Body.List {
					if clause, ok := c.(*ast.CaseClause); ok {
						for _, e := range clause.List {
							add(e)
						}
					}
				}
			}
			return true
		})
	}
	return out
}

// An interface that a type implements or not is a method that it should have.
func TestAssertions_interfacesOfPodfit_areExplained(t *testing.T) {
	s, files := checked(t)
	found := optional(s.info, files)
	for name, e := range found {
		if assertions[name] == "" {
			t.Errorf("%s: asks whether a value implements %s; add the method to its interface, or the type with a reason to assertions", s.set.Position(e.Pos()), name)
		}
	}
	for name := range assertions {
		if found[name] == nil {
			t.Errorf("no type assertion asks for %s; remove it from assertions", name)
		}
	}
}
