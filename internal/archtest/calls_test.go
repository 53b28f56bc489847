// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// callbacks are the exported functions, methods and fields of the core and the edges that take a function, each with the reason. All
// others get values, and return values or an iterator that the caller pulls from.
var callbacks = map[string]string{
	"core/cluster.Find":      "as slices.IndexFunc, for pointers to elements: the condition has no side effects",
	"core/cluster.FindOrAdd": "as Find",
	"core/cluster.Where":     "as Find",

	"core/cluster.Each":    "converts the elements of a list: the conversion has no side effects",
	"core/cluster.GroupBy": "as SetOf",
	"core/cluster.SetOf":   "makes the keys of a set: the conversion has no side effects",

	"core/cluster.Memo": "computes a value of a map only if it is missing: which values are asked for is known only to the caller",

	"core/cluster.Pod.Total": "has no side effects: the amounts are those of the spec, of the status or of a new size, and one formula adds them up",

	"core/packing.Trace.Measure": "chance, and whether to stop: a core package imports neither math/rand nor context",

	"core/wording.Fill": "has no side effects: only the values that the text names are computed, from reasons and steps of other packages",

	"core/recommend.Profile.Extend": "a constructor: it returns empty model state and has no side effects",
	"core/usage.Store.Extend":       "takes Profile.Extend: usage is below recommend and cannot import its types of model state",
	"core/usage.Store.Replace":      "takes Profile.Extend: usage is below recommend and cannot import its types of model state",

	"edge/prom/answer.Decode": "below prom and survey, which give it their own function: the rest of the answer, with its warnings, is known only after the last series",

	"edge/kube.EachPage":            "list is a method of client-go; an iterator would take it, too",
	"edge/kube/feed.Source.List":    "methods of client-go; an interface needs an adapter for each kind",
	"edge/kube/feed.Source.Watch":   "methods of client-go; an interface needs an adapter for each kind",
	"edge/kube/feed.Source.Project": "a function of projection without side effects, which has the type of the value",
}

// isExported reports whether a name, and the type it belongs to if any, can be used by other packages.
func isExported(names ...string) bool {
	return !slices.ContainsFunc(names, func(n string) bool { return !ast.IsExported(n) })
}

// functionTypes returns the names of the types of a package that are functions, and of those of other packages, such as "feed.Visit".
func functionTypes(files []*ast.File, others map[string]bool) map[string]bool {
	names := maps.Clone(others)
	if names == nil {
		names = map[string]bool{}
	}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			if t, ok := n.(*ast.TypeSpec); ok {
				if _, function := t.Type.(*ast.FuncType); function {
					names[t.Name.Name] = true
				}
			}
			return true
		})
	}
	return names
}

// takesFunction reports whether a type contains a function, so that a value of the type hands one over.
func takesFunction(e ast.Expr, functions map[string]bool) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.InterfaceType: // an interface that the package declares is dependency inversion
			return false
		case *ast.FuncType:
			found = true
		case *ast.SelectorExpr:
			x, _ := n.X.(*ast.Ident)
			found = found || x != nil && functions[x.Name+"."+n.Sel.Name]
			return false
		case *ast.Ident:
			found = found || functions[n.Name]
		}
		return !found
	})
	return found
}

// receiver returns the name of the type of a method, or "" for a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	name := ""
	ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
		if i, ok := n.(*ast.Ident); ok && name == "" {
			name = i.Name
		}
		return name == ""
	})
	return name
}

// takers returns the exported functions, methods, struct fields and variables of a package that take a function. others are the names of the
// function types of other packages.
func takers(files []*ast.File, others map[string]bool) (out []string) {
	functions := functionTypes(files, others)
	add := func(parts ...string) { out = append(out, strings.Join(parts, ".")) }
	for _, f := range files {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				name := []string{d.Name.Name}
				if r := receiver(d); r != "" {
					name = []string{r, d.Name.Name}
				}
				if isExported(name...) && slices.ContainsFunc(d.Type.Params.List, func(p *ast.Field) bool { return takesFunction(p.Type, functions) }) {
					add(name...)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if v, ok := s.(*ast.ValueSpec); ok {
						for i, name := range v.Names {
							isFunction := i < len(v.Values) && takesFunction(v.Values[i], nil) && isLiteral(v.Values[i])
							if name.IsExported() && (isFunction || v.Type != nil && takesFunction(v.Type, functions)) {
								add(name.Name)
							}
						}
						continue
					}
					t, ok := s.(*ast.TypeSpec)
					if !ok {
						continue
					}
					fields, ok := t.Type.(*ast.StructType)
					if !ok || !isExported(t.Name.Name) {
						continue
					}
					for _, field := range fields.Fields.List {
						for _, name := range field.Names {
							if isExported(name.Name) && takesFunction(field.Type, functions) {
								add(t.Name.Name, name.Name)
							}
						}
					}
				}
			}
		}
	}
	return out
}

// isLiteral reports whether the value of a variable is a function itself, rather than the result of one.
func isLiteral(e ast.Expr) bool {
	_, ok := e.(*ast.FuncLit)
	return ok
}

// Values go down and results come up: no layer calls a higher one through a function that it was handed.
func TestCalls_coreAndEdges_takeNoFunctions(t *testing.T) {
	packages := map[string][]*ast.File{}
	set := token.NewFileSet()
	for _, layer := range []string{"core", "edge"} {
		err := filepath.WalkDir(filepath.Join("..", layer), func(file string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
				return err
			}
			f, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
			name := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(file)), "../")
			packages[name] = append(packages[name], f)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(packages) < 15 {
		t.Errorf("found only %d packages", len(packages))
	}
	seen := map[string]bool{}
	others := map[string]bool{"context.CancelFunc": true, "context.CancelCauseFunc": true, "http.HandlerFunc": true}
	for name, files := range packages {
		for function := range functionTypes(files, nil) {
			others[path.Base(name)+"."+function] = true
		}
	}
	for name, files := range packages {
		for _, taker := range takers(files, others) {
			full := name + "." + taker
			seen[full] = true
			if callbacks[full] == "" {
				t.Errorf("%s takes a function; return values or an iterator instead, or add it with a reason to callbacks", full)
			}
		}
	}
	for name := range callbacks {
		if !seen[name] {
			t.Errorf("%s takes no function any more; remove it from callbacks", name)
		}
	}
}

func TestTakers_eachKindOfFunction_isFound(t *testing.T) {
	const source = `package p
type Visit func(int)
type visit func(int)
type Options struct { Wrap func(); each func(); Many map[string]visit; Name string }
type options struct { Wrap func() }
type Source interface { Each(func()) }
func Each(v Visit) {}
func each(v Visit) {}
func All() func() { return nil }
func (o *Options) Walk(f ...func(int) bool) {}
func (o *options) Walk(f func()) {}
func Read(s Source, n int) {}
func Wrap(h http.HandlerFunc) {}
var Hook func()
var Double = func(n int) int { return 2 * n }
var Total = func() int { return 1 }()
var hook func()
`
	f, err := parser.ParseFile(token.NewFileSet(), "sample.go", source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"Options.Wrap", "Options.Many", "Each", "Options.Walk", "Wrap", "Hook", "Double"}
	if got := takers([]*ast.File{f}, map[string]bool{"http.HandlerFunc": true}); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
