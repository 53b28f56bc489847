// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package archtest tests that imports follow the layers: main → app → jobs → process → edge → core → standard library. It also tests the
// other rules of docs/architecture.md about the source code, such as the sizes of packages and what may decide by the text of a message.
//
// If a rule prevents a change, discuss the design first. docs/architecture.md describes the layers.
package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "podfit.dev/podfit"

// pkg is a package in the output of go list.
type pkg struct {
	ImportPath   string
	Dir          string
	Standard     bool
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// layer returns the layer of a package: "core", "edge/kube", "app", "job/updater", "process", "api", "main" and others. It returns "" for packages of other modules.
func layer(path string) string {
	rest, ok := strings.CutPrefix(path, module)
	if !ok || rest != "" && rest[0] != '/' {
		return ""
	}
	switch parts := strings.Split(strings.Trim(rest, "/"), "/"); {
	case parts[0] == "":
		return "main"
	case parts[0] != "internal":
		return parts[0]
	case parts[1] == "edge" && len(parts) > 2:
		return "edge/" + parts[2]
	case parts[1] == "app" && len(parts) > 2 && parts[2] == "process":
		return "process"
	case parts[1] == "app" && len(parts) > 2:
		return "job/" + parts[2]
	default:
		return parts[1]
	}
}

// below lists the layers that a layer may import besides itself. "edge" means any edge, "job" any job. An edge must not import another
// edge, and a job must not import another job.
var below = map[string][]string{
	"main":          {"app"},
	"app":           {"job", "process", "edge", "deploy", "spelling", "compatibility"},
	"job":           {"process", "edge", "core", "api", "spelling", "compatibility"},
	"process":       {"edge", "core", "spelling", "compatibility"},
	"edge":          {"core", "api", "spelling", "look", "promql"},
	"core":          {},
	"spelling":      {},
	"compatibility": {},
	"look":          {},
	"promql":        {},
	"api":           {},
	"deploy":        {},
	"test":          {"compatibility", "core", "edge", "api"},
}

// impure lists the packages of the standard library that the core must not import, because they wait, do I/O, depend on the clock or on
// randomness.
var impure = []string{"context", "log", "net", "os", "sync", "math/rand", "syscall", "runtime", "unsafe"}

// pureEnough lists packages below impure ones that the core may import. The stack of a panic is part of the result of a pass.
var pureEnough = []string{"runtime/debug"}

// never lists the packages that podfit and its tests must not import: upstream, and code that only the modules for tests need.
var never = []string{
	"k8s.io/autoscaler", "k8s.io/kubernetes", "k8s.io/component-base", "sigs.k8s.io/controller-runtime",
	module + "/localcluster", module + "/test", module + "/tools",
}

// support lists the packages of test/ that only serve the tests of this module, and are part of it.
var support = []string{module + "/test/contract", module + "/test/kubetest", module + "/test/rowtest", module + "/test/steptest", module + "/test/transcript", module + "/test/webtest"}

// under reports whether an import path is one of the given ones or below it.
func under(path string, roots []string) bool {
	return slices.ContainsFunc(roots, func(r string) bool { return path == r || strings.HasPrefix(path, r+"/") })
}

// violations returns a message for each forbidden import.
func violations(all []pkg) (out []string) {
	standard := map[string]bool{}
	for _, p := range all {
		standard[p.ImportPath] = p.Standard
	}
	for _, p := range all {
		from := layer(p.ImportPath)
		if from == "" {
			if under(p.ImportPath, never) {
				out = append(out, p.ImportPath+" is linked")
			}
			continue
		}
		for _, i := range p.Imports {
			if why := forbidden(from, i, standard[i]); why != "" {
				out = append(out, fmt.Sprintf("%s imports %s: %s", p.ImportPath, i, why))
			}
		}
		for _, i := range slices.Concat(p.TestImports, p.XTestImports) {
			switch to := layer(i); {
			case under(i, never) && !under(i, support):
				out = append(out, fmt.Sprintf("a test of %s imports %s, which is allowed only in other modules", p.ImportPath, i))
			case to != from && from != "app" && (to == "app" || strings.HasPrefix(to, "job/")):
				out = append(out, fmt.Sprintf("a test of %s imports %s, which only tests of app and of other modules may do", p.ImportPath, i))
			}
		}
	}
	return out
}

// forbidden returns why a layer must not import a package, or "" if it may.
func forbidden(from, path string, standard bool) string {
	if under(path, never) {
		return "podfit must not link it"
	}
	to := layer(path)
	kind, _, _ := strings.Cut(from, "/")
	switch {
	case to == "" && kind == "core" && standard && under(path, impure) && !slices.Contains(pureEnough, path):
		return "the core is pure"
	case to == "" && kind == "core" && !standard:
		return "the core imports only the standard library"
	case to == "" && kind == "api" && !standard && !under(path, []string{"k8s.io/api", "k8s.io/apimachinery"}):
		return "the API types import only those of Kubernetes"
	case to == "" || to == from:
		return ""
	}
	target, _, _ := strings.Cut(to, "/")
	if target == kind { // each edge and each job is a layer of its own
		return kind + "s do not import each other"
	}
	if !slices.Contains(below[kind], target) {
		return fmt.Sprintf("%s may import %v", kind, below[kind])
	}
	return ""
}

func list(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,Standard,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = "../.."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	var all []pkg
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func TestImports_allPackages_followLayers(t *testing.T) {
	all := list(t)
	for _, v := range violations(all) {
		t.Error(v)
	}
	seen := map[string]bool{}
	for _, p := range all {
		seen[strings.SplitN(layer(p.ImportPath), "/", 2)[0]] = true
	}
	for _, l := range []string{"main", "app", "job", "process", "edge", "core", "api"} {
		if !seen[l] {
			t.Errorf("go list found no package of layer %s, so no rule was tested", l)
		}
	}
}

func TestImportRules_violation_isReported(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"/internal/core/plan", "os", "the core is pure"},
		{"/internal/core/plan", "log/slog", "the core is pure"},
		{"/internal/core/plan", "runtime", "the core is pure"},
		{"/internal/core/plan", "math/rand/v2", "the core is pure"},
		{"/internal/core/plan", "sync/atomic", "the core is pure"},
		{"/internal/core/plan", "k8s.io/api/core/v1", "the core imports only the standard library"},
		{"/internal/core/plan", module + "/api/v1", "core may import []"},
		{"/internal/core/plan", module + "/internal/edge/kube", "core may import []"},
		{"/internal/edge/webhook", module + "/internal/edge/kube", "edges do not import each other"},
		{"/internal/edge/webhook", module + "/internal/app", "edge may import [core api spelling look promql]"},
		{"/internal/edge/webhook", module + "/internal/app/updater", "edge may import [core api spelling look promql]"},
		{"/internal/edge/webhook", module + "/internal/app/process", "edge may import [core api spelling look promql]"},
		{"/internal/app", module + "/test/contract", "podfit must not link it"},
		{"/internal/app/recommender", module + "/internal/app/updater", "jobs do not import each other"},
		{"/internal/app/updater", module + "/internal/app/recommender/history", "jobs do not import each other"},
		{"/internal/app/recommender", module + "/internal/app/updater/freeze", "jobs do not import each other"},
		{"/internal/app/recommender", module + "/internal/app", "job may import [process edge core api spelling compatibility]"},
		{"/internal/app/process", module + "/internal/app", "process may import [edge core spelling compatibility]"},
		{"/internal/app/process", module + "/internal/app/updater", "process may import [edge core spelling compatibility]"},
		{"/test/contract", module + "/internal/app/updater", "test may import [compatibility core edge api]"},
		{"", module + "/internal/app/updater", "main may import [app]"},
		{"", module + "/internal/app/process", "main may import [app]"},
		{"/internal/app", "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/target", "podfit must not link it"},
		{"/internal/app", module + "/localcluster/client", "podfit must not link it"},
		{"", module + "/internal/core/plan", "main may import [app]"},
		{"/api/v1", "k8s.io/client-go/rest", "the API types import only those of Kubernetes"},
		{"/internal/unlisted", module + "/internal/core/plan", "unlisted may import []"},

		{"/internal/core/plan", "math", ""},
		{"/internal/core/plan", "runtime/debug", ""},
		{"/internal/core/plan", module + "/internal/core/policy", ""},
		{"/internal/edge/webhook", module + "/internal/core/policy", ""},
		{"/internal/edge/kube", module + "/internal/edge/kube/wire", ""},
		{"/internal/app", module + "/internal/edge/kube", ""},
		{"/internal/app", module + "/internal/app/updater", ""},
		{"/internal/app", module + "/internal/app/process", ""},
		{"/internal/app/updater", module + "/internal/app/process", ""},
		{"/internal/app/recommender", module + "/internal/app/recommender/history", ""},
		{"/internal/app/updater", module + "/internal/core/plan", ""},
		{"/internal/app/updater", module + "/internal/app/updater/surges", ""},
		{"/internal/app/updater/surges", module + "/internal/app/updater/freeze", ""},
		{"/internal/app/process", module + "/internal/edge/kube", ""},
		{"", module + "/internal/app", ""},
	} {
		standard := !strings.Contains(strings.SplitN(c.to, "/", 2)[0], ".")
		got := violations([]pkg{{ImportPath: module + c.from, Imports: []string{c.to}}, {ImportPath: c.to, Standard: standard}})
		got = slices.DeleteFunc(got, func(v string) bool { return strings.HasSuffix(v, " is linked") })
		want := []string{fmt.Sprintf("%s imports %s: %s", module+c.from, c.to, c.want)}
		if c.want == "" {
			want = nil
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := violations([]pkg{{ImportPath: module + "/internal/core/plan", XTestImports: []string{never[0] + "/x"}}}); len(got) != 1 {
		t.Errorf("violations of a test that imports upstream: %q, want 1", got)
	}
	for from, want := range map[string]int{"/internal/app/recommender": 2, "/internal/edge/kube": 2, "/internal/app/updater": 1, "/internal/app": 0} {
		p := pkg{ImportPath: module + from, TestImports: []string{module + "/internal/app"}, XTestImports: []string{module + "/internal/app/updater"}}
		if got := violations([]pkg{p}); len(got) != want {
			t.Errorf("violations of a test of %s that imports app and a job: %q, want %d", from, got, want)
		}
	}
	if got := violations([]pkg{{ImportPath: "k8s.io/kubernetes/pkg/apis"}}); len(got) != 1 {
		t.Errorf("violations of a dependency that links Kubernetes: %q, want 1", got)
	}
}

// clock lists the functions of package time that read the clock or wait. The core gets the time as a parameter.
var clock = []string{"Now", "Since", "Until", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer", "Sleep"}

// impurities returns the uses of the clock and the goroutines in a file of the core.
func impurities(set *token.FileSet, f *ast.File) (out []string) {
	timeName := ""
	for _, i := range f.Imports {
		if path, err := strconv.Unquote(i.Path.Value); err == nil && path == "time" {
			timeName = "time"
			if i.Name != nil {
				timeName = i.Name.Name
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == timeName && slices.Contains(clock, n.Sel.Name) {
				out = append(out, fmt.Sprintf("%s: time.%s", set.Position(n.Pos()), n.Sel.Name))
			}
		case *ast.GoStmt:
			out = append(out, fmt.Sprintf("%s: starts a goroutine", set.Position(n.Pos())))
		}
		return true
	})
	return out
}

func TestCore_source_usesNoClockAndNoGoroutine(t *testing.T) {
	files, err := filepath.Glob("../core/*/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("core files: %v, %v", files, err)
	}
	set := token.NewFileSet()
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range impurities(set, f) {
			t.Error(i)
		}
	}

	f, err := parser.ParseFile(set, "sample.go", "package p\nimport clock \"time\"\nfunc f() { go f(); _ = clock.Now() }", 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := impurities(set, f); len(got) != 2 {
		t.Errorf("impurities of a file with a goroutine and a use of the clock: %q, want 2", got)
	}
}
