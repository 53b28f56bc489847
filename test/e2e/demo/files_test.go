// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The executable of an archive uses only what is beside it; in the repository it is in .cache/bin, beside podfit and localcluster.
func TestArchived_folders_onlyThoseOfAnArchiveAre(t *testing.T) {
	root := t.TempDir()
	bin := filepath.Join(root, "bin")
	for _, path := range []string{"bin/podfit", "bin/localcluster", "deploy/00-crds.yaml"} {
		if f := archived(bin); f != nil {
			t.Errorf("without %s: %+v", path, f)
		}
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	f := archived(bin)
	if f == nil || f.root != "" || f.executables != bin || f.deploy != filepath.Join(root, "deploy") {
		t.Fatalf("of an archive: %+v", f)
	}
	if err := f.build(t.Context(), nil); err != nil { // it would write progress to nil
		t.Error(err)
	}
	for _, text := range []string{f.next(), introduction(f)} {
		if strings.Contains(text, "make ") || strings.Contains(text, "build") {
			t.Errorf("the demo of an archive speaks of the repository:\n%s", text)
		}
	}
	if repository := (&files{root: "/podfit"}); !strings.Contains(repository.next(), "make demo KEEP=1") || !strings.Contains(introduction(repository), "build podfit") {
		t.Errorf("the demo of the repository speaks of an archive:\n%s%s", introduction(repository), repository.next())
	}
}

func introduction(f *files) string {
	var out strings.Builder
	f.introduce(&out, options{Nodes: 3}, 7)
	return out.String()
}

func TestIsPodfit_names_thoseOfTheCommandAndThePlugin(t *testing.T) {
	for path, want := range map[string]bool{
		"/x/bin/podfit": true, "kubectl-podfit": true, "/x/kubectl_complete-podfit": true, "/x/podfit_demo/bin/demo": false, "/podfit/.cache/bin/demo": false, "/tmp/demo.test": false,
	} {
		if got := isPodfit(path); got != want {
			t.Errorf("%s: got %v", path, got)
		}
	}
}
