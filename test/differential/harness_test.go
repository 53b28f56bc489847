// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// Each difference is shown by a test, and is listed once.
func TestEveryDifferenceHasItsTest(t *testing.T) {
	tests := map[string]bool{}
	for _, root := range []string{".", "../../internal"} { // what happens to pods is shown where it is decided, too
		if err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
					tests[fn.Name.Name] = true
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	users, err := os.ReadFile("../../docs/migrate.md")
	if err != nil {
		t.Fatal(err)
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
		if !bytes.Contains(users, []byte(d.Weakness)) {
			t.Errorf("docs/migrate.md does not tell users of %s, %q", d.Weakness, d.Name)
		}
		for _, s := range []string{d.Name, d.Upstream, d.Podfit, d.Reason} {
			if s == "" {
				t.Errorf("%q is not complete", d.Name)
			}
		}
	}
}
