// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package archtest

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A measure is the size of a type, a package or the module, for tools/counts.
type measure struct {
	name  string
	count int
}

// largest returns the n largest counts, equal ones by name.
func largest(counts map[string]int, n int) []measure {
	var all []measure
	for name, count := range counts {
		all = append(all, measure{name, count})
	}
	slices.SortFunc(all, func(a, b measure) int { return cmp.Or(cmp.Compare(b.count, a.count), strings.Compare(a.name, b.name)) })
	return all[:min(n, len(all))]
}

// measures counts what makes code hard to read.
type measures struct {
	set     *token.FileSet
	info    *types.Info
	product map[string]bool // files of the product: without generated files and packages for tests

	lines    map[string]int // by package
	methods  map[string]int // by type
	fields   map[string]int // by type
	returns  map[string]int // by package
	parallel map[string]int // assignments of several values that are no swaps, by package
	calls    map[string]map[[2]string]bool
}

func newMeasures(s *source) *measures {
	return &measures{
		set: s.set, info: s.info, product: map[string]bool{}, lines: map[string]int{}, methods: map[string]int{}, fields: map[string]int{},
		returns: map[string]int{}, parallel: map[string]int{}, calls: map[string]map[[2]string]bool{},
	}
}

// measureModule measures the packages that the program links, and those of the API. All others only serve tests.
func measureModule(t *testing.T) *measures {
	t.Helper()
	s, files := checked(t)
	m := newMeasures(s)
	linked := map[string]bool{}
	for _, c := range compiledPackages(t, ".") {
		linked[c.Dir] = true
	}
	var of []*ast.File
	for _, f := range files {
		name := m.set.Position(f.Package).Filename
		p := packageOf(name)
		if strings.HasPrefix(filepath.Base(name), "zz_generated") || !linked[filepath.Dir(name)] && !strings.HasPrefix(p, "api/") || p == "deploy" {
			continue
		}
		m.product[name] = true
		of = append(of, f)
	}
	for _, f := range of {
		m.read(f)
	}
	return m
}

// packageOf returns the path of the package of a file below the root of the module, without "internal/".
func packageOf(file string) string {
	root, err := filepath.Abs("../..")
	if err != nil {
		return file
	}
	dir, err := filepath.Rel(root, filepath.Dir(file))
	if err != nil {
		return file
	}
	return strings.TrimPrefix(filepath.ToSlash(dir), "internal/")
}

// read measures one file.
func (m *measures) read(f *ast.File) {
	name := m.set.Position(f.Package).Filename
	p := packageOf(name)
	m.lines[p] += m.set.File(f.Package).LineCount()
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Recv != nil {
				m.methods[p+"."+receiverOf(n)]++
			}
		case *ast.TypeSpec:
			if s, ok := n.Type.(*ast.StructType); ok {
				m.fields[p+"."+n.Name.Name] = s.Fields.NumFields()
			}
		case *ast.ReturnStmt:
			m.returns[p]++
		case *ast.AssignStmt:
			if len(n.Lhs) > 1 && len(n.Rhs) == len(n.Lhs) && !isSwap(n) {
				m.parallel[p]++
			}
		case *ast.Ident:
			m.call(p, name, m.info.Uses[n])
		}
		return true
	})
}

// receiverOf returns the name of the type of a method.
func receiverOf(f *ast.FuncDecl) string {
	t := f.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// isSwap reports whether an assignment has the same expressions on both sides.
func isSwap(n *ast.AssignStmt) bool {
	text := func(list []ast.Expr) []string {
		var out []string
		for _, e := range list {
			out = append(out, types.ExprString(e))
		}
		slices.Sort(out)
		return out
	}
	return slices.Equal(text(n.Lhs), text(n.Rhs))
}

// call records that a file uses what another file of its package declares.
func (m *measures) call(p, from string, used types.Object) {
	if used == nil || used.Pkg() == nil {
		return
	}
	if v, ok := used.(*types.Var); ok && v.IsField() {
		return
	}
	to := m.set.Position(used.Pos()).Filename
	if to == from || !m.product[to] || packageOf(to) != p {
		return
	}
	if m.calls[p] == nil {
		m.calls[p] = map[[2]string]bool{}
	}
	m.calls[p][[2]string{filepath.Base(from), filepath.Base(to)}] = true
}

// back returns how many of the arrows between the files of a package run back in the order of files with the fewest of them, as far as a
// greedy search finds it (Eades, Lin, Smyth 1993).
func back(arrows map[[2]string]bool) int {
	in, out := map[string]int{}, map[string]int{}
	left := map[string]bool{}
	for a := range arrows {
		out[a[0]]++
		in[a[1]]++
		left[a[0]], left[a[1]] = true, true
	}
	place := map[string]int{}
	first, last := 0, len(left)
	for len(left) > 0 {
		names := slices.Sorted(maps.Keys(left))
		next := slices.MaxFunc(names, func(a, b string) int { return cmp.Compare(rank(in[a], out[a]), rank(in[b], out[b])) })
		if out[next] == 0 {
			last--
			place[next] = last
		} else {
			place[next] = first
			first++
		}
		delete(left, next)
		for a := range arrows {
			if a[0] == next {
				in[a[1]]--
			}
			if a[1] == next {
				out[a[0]]--
			}
		}
	}
	n := 0
	for a := range arrows {
		if place[a[0]] > place[a[1]] {
			n++
		}
	}
	return n
}

// rank orders files by what is placed next: a file that uses no other that is left, one that no other uses, or the one with the most uses.
func rank(in, out int) int {
	const certain = 1 << 20
	switch {
	case out == 0:
		return 2 * certain
	case in == 0:
		return certain
	}
	return out - in
}

// largestProduct is the limit of the lines of the product: main.go, api and internal, without tests and generated files.
const largestProduct = 93_500

// tools/counts prints what this test logs.
func TestMeasures_ofTheModule_areWithinTheirLimits(t *testing.T) {
	m := measureModule(t)
	total, parallel := 0, 0
	for _, n := range m.lines {
		total += n
	}
	for _, n := range m.parallel {
		parallel += n
	}
	t.Logf("%d lines, at most %d", total, largestProduct)
	if total > largestProduct || total < largestProduct/2 {
		t.Errorf("the product has %d lines, at most %d are allowed", total, largestProduct)
	}
	t.Logf("%.1f parallel assignments per 1,000 lines", float64(parallel)*1000/float64(total))
	t.Logf("%d returns in core/policy", m.returns["core/policy"])
	for _, of := range []struct {
		what   string
		counts map[string]int
	}{{"lines of packages", m.lines}, {"methods of types", m.methods}, {"fields of types", m.fields}} {
		t.Logf("the largest %s:", of.what)
		for _, x := range largest(of.counts, 15) {
			t.Logf("  %6d %s", x.count, x.name)
		}
	}
	t.Log("arrows between files that run back, at most 30 %, of packages with 30 arrows or more:")
	for _, p := range slices.Sorted(maps.Keys(m.calls)) {
		if all := len(m.calls[p]); all >= 30 {
			n := back(m.calls[p])
			t.Logf("  %3d of %3d (%2d %%) %s", n, all, 100*n/all, p)
		}
	}
}

const (
	mostBack    = 30 // percent of the arrows between the files of a package that run back
	fewArrows   = 10 // a package with fewer is read as a whole, and one arrow would be a large share
	mostMethods = 40 // of a type: with more, too many functions may change the same fields
	mostFields  = 20 // of a struct
)

// Calls run down the list of files: one can read a package from its entry point without going back and forth.
func TestFiles_ofAPackage_callInOneDirection(t *testing.T) {
	m := measureModule(t)
	if len(m.calls) < 50 {
		t.Errorf("found arrows in only %d packages", len(m.calls))
	}
	for _, problem := range uphill(m.calls) {
		t.Error(problem)
	}
}

// uphill returns the packages of which too many arrows run back.
func uphill(calls map[string]map[[2]string]bool) (problems []string) {
	for _, p := range slices.Sorted(maps.Keys(calls)) {
		if n, all := back(calls[p]), len(calls[p]); all >= fewArrows && 100*n > mostBack*all {
			problems = append(problems, fmt.Sprintf("%s: %d of %d arrows between files run back, at most %d %% are allowed; move what two files need of each other to one of them, or to a third", p, n, all, mostBack))
		}
	}
	return problems
}

// mirrors are the structs that have a field for each field of something else, with what that is. To split them would only hide it.
var mirrors = map[string]string{
	"app/recommend.Config":    "flags",
	"app/recommender.Config":  "flags",
	"app/updater.Config":      "flags",
	"core/cluster.Autoscaler": "the VerticalPodAutoscaler, as far as podfit reads it",
	"core/cluster.Pod":        "the Pod, as far as podfit reads it",
	"core/review.Record":      "JSON of podfit recommend",
	"edge/web.overviewView":   "JSON of the web page",
}

// pending are the types that are larger than the limits and are to be divided, with the sizes that they may have until then.
var pending = map[string]int{}

// State has few hands: a large type is divided into types that own the fields that change together.
func TestTypes_methodsAndFields_areFew(t *testing.T) {
	m := measureModule(t)
	sizes := map[string]int{}
	for name, n := range m.methods {
		sizes[name+", methods"] = n
	}
	for name, n := range m.fields {
		sizes[name+", fields"] = n
	}
	for _, problem := range tooLarge(sizes, mirrors, pending) {
		t.Error(problem)
	}
}

// tooLarge returns which sizes are not allowed, and which exceptions are not needed.
func tooLarge(sizes map[string]int, mirrors map[string]string, pending map[string]int) (problems []string) {
	exceptions := maps.Clone(pending)
	for name := range mirrors {
		exceptions[name+", fields"] = math.MaxInt
	}
	for name, n := range sizes {
		most := mostMethods
		if strings.HasSuffix(name, ", fields") {
			most = mostFields
		}
		if exceptions[name] == 0 && n > most {
			problems = append(problems, fmt.Sprintf("%s: %d, at most %d are allowed; give those that belong together a type of their own", name, n, most))
		}
		if allowed := exceptions[name]; allowed > 0 && n > allowed {
			problems = append(problems, fmt.Sprintf("%s: %d, but the table pending allows %d", name, n, allowed))
		}
		if n > most {
			delete(exceptions, name)
		}
	}
	for name := range exceptions {
		problems = append(problems, fmt.Sprintf("%s: %d, which needs no exception", name, sizes[name]))
	}
	slices.Sort(problems)
	return problems
}

func TestTooLarge_limitsAndExceptions_areChecked(t *testing.T) {
	sizes := map[string]int{
		"a.Small, methods": 40, "a.Small, fields": 20, "a.Large, methods": 41, "a.Large, fields": 21,
		"a.Format, fields": 30, "a.Flags, fields": 20, "a.Grown, methods": 52, "a.Old, methods": 45, "a.Divided, methods": 9,
	}
	got := tooLarge(sizes, map[string]string{"a.Format": "JSON", "a.Flags": "flags"}, map[string]int{"a.Grown, methods": 51, "a.Old, methods": 45, "a.Divided, methods": 45, "a.Gone, fields": 30})
	want := []string{
		"a.Divided, methods: 9, which needs no exception",
		"a.Flags, fields: 20, which needs no exception",
		"a.Gone, fields: 0, which needs no exception",
		"a.Grown, methods: 52, but the table pending allows 51",
		"a.Large, fields: 21, at most 20 are allowed; give those that belong together a type of their own",
		"a.Large, methods: 41, at most 40 are allowed; give those that belong together a type of their own",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q,\nwant %q", got, want)
	}
}

// Ten files call the next one, and the last ones call the first one.
func TestUphill_sourceOfPackages_tooManyArrowsAreReported(t *testing.T) {
	m := newMeasures(newSource())
	for name, calls := range map[string]string{
		"straight": "ab bc cd de ef fg gh hi ij jk", "limit": "ab ba cd dc ef fe gh hi ij jk", "few": "ab ba cd dc ef fe gh hg",
		"tangled": "ab ba cd dc ef fe gh hg ij jk", "large": "ab ba cd dc ef fe gh hg ij jk jl jm jn jo jp",
	} {
		m.readSample(t, name, calls)
	}
	got := uphill(m.calls)
	if len(got) != 1 || !strings.HasPrefix(got[0], "sample/tangled: 4 of 10 arrows ") {
		t.Errorf("got %q, want a problem of tangled only", got)
	}
}

// readSample measures a package with a file and a function for each letter, which calls others.
func (m *measures) readSample(t *testing.T, name, calls string) {
	t.Helper()
	body := map[string]string{}
	for _, call := range strings.Fields(calls) {
		body[call[:1]] += call[1:] + "();"
		body[call[1:]] += ""
	}
	var files []*ast.File
	for letter, text := range body {
		path, err := filepath.Abs("../sample/" + name + "/" + letter + ".go")
		if err != nil {
			t.Fatal(err)
		}
		m.product[path] = true
		f, err := parser.ParseFile(m.set, path, "package p\nfunc "+letter+"() {"+text+"}", 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	if _, err := new(types.Config).Check(name, m.set, files, m.info); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		m.read(f)
	}
}

func TestBack_knownGraphs_fewestArrows(t *testing.T) {
	for want, text := range map[int]string{
		0: "ab bc ac cd",
		1: "ab bc ca cd",
		2: "ab ba cd dc bc",
	} {
		arrows := map[[2]string]bool{}
		for _, a := range strings.Fields(text) {
			arrows[[2]string{a[:1], a[1:]}] = true
		}
		if got := back(arrows); got != want {
			t.Errorf("%s: %d arrows run back, want %d", text, got, want)
		}
	}
}
