// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// readsText lists the expressions that decide by the text of a message, by the function that contains them, each with the reason why no type,
// code or field takes its place.
var readsText = map[string]string{
	`edge/kube.isDenial: strings.Contains(text, "admission webhook ")`:                     "the webhook chooses the code and the reason of its denial",
	`edge/kube.isDenial: strings.Contains(text, " denied the request")`:                    "the webhook chooses the code and the reason of its denial",
	`edge/kube.isUncalledWebhook: strings.Contains(err.Error(), "failed calling webhook")`: "an InternalError without a cause",
	`edge/kube.IsOtherUID: strings.Contains(err.Error(), "UID in precondition")`:           "a Conflict like any other, without a cause",
	`edge/kube.isQuota: strings.Contains(text, words)`:                                     "ResourceQuota and LimitRange add no cause to Forbidden",
	`edge/kube.reasonOf: strings.Contains(text, exceededQuota)`:                            "ResourceQuota adds no cause to Forbidden",
	`edge/kube.reasonOfCode: strings.Contains(status.Status().Message, "more than one PodDisruptionBudget")`: "an error with code 500 " +
		"without a reason or a cause",
	`edge/kube/projection.problemOf: strings.Contains(c.Message, "decrease memory limits")`: "the kubelet has one reason for all failed resizes",
	`edge/kube/projection.problemOf: strings.Contains(c.Message, "below current usage")`:    "the kubelet has one reason for all failed resizes",

	`core/explanation.conditions: slices.ContainsFunc(said, (func(line string) bool literal))`: "prints no text twice, whatever it says",
	`core/explanation.conditions: strings.Contains(line, c.Message)`:                           "prints no text twice, whatever it says",

	`edge/prom/survey.isLimit: strings.Contains(detail, part)`:                         "each server reports limits with its own codes and types",
	`edge/prom/survey.isWrongPath: strings.Contains(detail, "unsupported path")`:       "VictoriaMetrics has status 400 for all wrong requests",
	`edge/prom/survey.isWrongPath: strings.Contains(detail, "unsupported URL")`:        "VictoriaMetrics has status 400 for all wrong requests",
	`edge/prom/survey.isWrongPath: strings.Contains(detail, "cannot parse accountID")`: "VictoriaMetrics has status 400 for all wrong requests",
	`edge/prom/survey.reading.unwarned: r.warned[text]`:                                "returns each warning of Prometheus once, whatever it says",
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
func (i packageImporter) check(t *testing.T, ta *taintAnalysis, path string, names []string) (files []*ast.File) {
	t.Helper()
	for _, name := range names {
		f, err := parser.ParseFile(ta.set, name, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	config := types.Config{Importer: i}
	checked, err := config.Check(path, ta.set, files, ta.info)
	if err != nil {
		t.Fatalf("check %s: %v", path, err)
	}
	i.checked[path] = checked
	return files
}

// checkedModule is the module with its types, read once for all tests.
var checkedModule struct {
	sync.Once
	analysis *taintAnalysis
	files    []*ast.File
}

// checked returns the files of all packages of the module without tests, and their types.
func checked(t *testing.T) (*taintAnalysis, []*ast.File) {
	t.Helper()
	checkedModule.Do(func() {
		ta := newTaintAnalysis()
		all := compiledPackages(t, "./...")
		packages := newPackageImporter(ta.set, all)
		for _, c := range all {
			if under(c.ImportPath, []string{module}) {
				names := make([]string, len(c.GoFiles))
				for i, name := range c.GoFiles {
					names[i] = filepath.Join(c.Dir, name)
				}
				checkedModule.files = append(checkedModule.files, packages.check(t, ta, c.ImportPath, names)...)
			}
		}
		checkedModule.analysis = ta
	})
	if checkedModule.analysis == nil {
		t.Fatal("the types of the module are not known")
	}
	return checkedModule.analysis, checkedModule.files
}

// No code decides by the text of a message, because texts change: a typed reason, a code or a field says what is the case.
func TestMessages_allPackages_decideNothingByText(t *testing.T) {
	ta, files := checked(t)
	if len(files) < 300 {
		t.Errorf("read only %d files", len(files))
	}
	found := ta.find(files)
	for _, expression := range slices.Sorted(maps.Keys(found)) {
		if readsText[expression] == "" {
			t.Errorf("%s: decides by the text of a message; use a type, a code or a field, or add %q with a reason to readsText", found[expression][0], expression)
		}
	}
	for expression := range readsText {
		if found[expression] == nil {
			t.Errorf("%s is not found or does not decide by the text of a message; remove it from readsText", expression)
		}
	}
}

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
	ta, files := checked(t)
	found := optional(ta.info, files)
	for name, e := range found {
		if assertions[name] == "" {
			t.Errorf("%s: asks whether a value implements %s; add the method to its interface, or the type with a reason to assertions", ta.set.Position(e.Pos()), name)
		}
	}
	for name := range assertions {
		if found[name] == nil {
			t.Errorf("no type assertion asks for %s; remove it from assertions", name)
		}
	}
}

// The comments of the sample say which lines decide by the text of a message.
func TestTaintAnalysis_sample_findsEachDecision(t *testing.T) {
	ta := newTaintAnalysis()
	const dir = "testdata/messages"
	packages := newPackageImporter(ta.set, compiledPackages(t, "fmt", "io", "regexp", "slices", "k8s.io/api/core/v1", "k8s.io/api/events/v1"))
	files := packages.check(t, ta, module+"/other", []string{filepath.Join(dir, "other.go.txt")})
	files = append(files, packages.check(t, ta, module+"/sample", []string{filepath.Join(dir, "sample.go.txt")})...)
	asked := optional(ta.info, files)
	if len(asked) != 2 || asked[module+"/other.Matcher"] == nil || asked["interface{Fits() bool}"] == nil {
		t.Errorf("optional interfaces of the sample: %v", asked)
	}
	var got, want []string
	for _, positions := range ta.find(files) {
		for _, at := range positions {
			got = append(got, fmt.Sprintf("%s:%03d", filepath.Base(at.Filename), at.Line))
		}
	}
	for _, f := range files {
		for _, group := range f.Comments {
			for _, c := range group.List {
				if at := ta.set.Position(c.Pos()); c.Text == "// decides" {
					want = append(want, fmt.Sprintf("%s:%03d", filepath.Base(at.Filename), at.Line))
				}
			}
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	got = slices.Compact(got)
	if len(want) < 20 || !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
