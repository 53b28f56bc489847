// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// factor is by how much more cases are run than usually.
func factor(t *testing.T) int {
	v := os.Getenv("PODFIT_DIFFERENTIAL")
	if v == "" {
		return 1
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		t.Fatalf("PODFIT_DIFFERENTIAL is %q, not a number of one or more", v)
	}
	return n
}

// check runs a comparison on so many random cases, times the factor. Tests that use it must not be parallel.
func check(t *testing.T, cases int, compare func(*rapid.T)) {
	t.Helper()
	set := func(name, value string) {
		f := flag.Lookup(name)
		before := f.Value.String()
		if err := f.Value.Set(value); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := f.Value.Set(before); err != nil {
				t.Fatal(err)
			}
		})
	}
	if flag.Lookup("rapid.checks").Value.String() == flag.Lookup("rapid.checks").DefValue {
		set("rapid.checks", strconv.Itoa(cases*factor(t)))
	}
	set("rapid.nofailfile", "true")
	rapid.Check(t, compare)
}

// Each difference is shown by a test, and is listed once.
func TestEveryDifferenceHasItsTest(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]bool{}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
				tests[fn.Name.Name] = true
			}
		}
	}
	names := map[string]bool{}
	for _, d := range Differences {
		if !tests[d.Test] {
			t.Errorf("%q has no test %s", d.Name, d.Test)
		}
		if names[d.Name] {
			t.Errorf("%q is listed twice", d.Name)
		}
		names[d.Name] = true
		for _, s := range []string{d.Name, d.Upstream, d.Podfit, d.Reason} {
			if s == "" {
				t.Errorf("%q is not complete", d.Name)
			}
		}
	}
}
