// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package archtest

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	largePackage = 3000 // lines
	largestApp   = 400  // lines of internal/app, which only connects the jobs
)

// lines returns the number of lines of each package below internal, without tests, by its path below internal.
func lines(t *testing.T) map[string]int {
	t.Helper()
	out := map[string]int{}
	err := filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		data, err := os.ReadFile(path)
		out[strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "../")] += bytes.Count(data, []byte("\n"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A larger package has two topics, and is split.
func TestSize_packages_areSmall(t *testing.T) {
	present := lines(t)
	if len(present) < 50 {
		t.Errorf("found only %d packages", len(present))
	}
	for _, problem := range tooLong(present) {
		t.Error(problem)
	}
}

// tooLong returns the packages with too many lines.
func tooLong(packages map[string]int) (problems []string) {
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		most := largePackage
		if name == "app" {
			most = largestApp
		}
		if n := packages[name]; n > most {
			problems = append(problems, fmt.Sprintf("%s has %d lines, at most %d are allowed; give a topic of it a package of its own", name, n, most))
		}
	}
	return problems
}

func TestTooLong_limits_areChecked(t *testing.T) {
	got := tooLong(map[string]int{"core/a": largePackage, "core/b": largePackage + 1, "app": largestApp + 1, "app/a": largestApp + 1})
	want := []string{
		"app has 401 lines, at most 400 are allowed; give a topic of it a package of its own",
		"core/b has 3001 lines, at most 3000 are allowed; give a topic of it a package of its own",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
