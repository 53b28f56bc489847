// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package archtest

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const (
	largePackage = 3000 // lines; docs/architecture.md says why a larger package is not split
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

var explainedSize = regexp.MustCompile("(?m)^  - `([a-z/]+)` \\(([0-9]),([0-9]{3}) lines\\)")

// A large package has one topic, or is split. The document says which packages are large and why, with a number that is still true.
func TestSize_largePackages_areExplained(t *testing.T) {
	text, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	present := lines(t)
	if len(present) < 50 {
		t.Errorf("found only %d packages", len(present))
	}
	explained := map[string]bool{}
	for _, m := range explainedSize.FindAllStringSubmatch(string(text), -1) {
		name := m[1]
		explained[name] = true
		written, err := strconv.Atoi(m[2] + m[3])
		if err != nil {
			t.Fatal(err)
		}
		switch n := present[name]; {
		case n <= largePackage:
			t.Errorf("docs/architecture.md explains why %s is not split, but it has only %d lines", name, n)
		case n < written*9/10 || n > written*11/10:
			t.Errorf("docs/architecture.md says that %s has %d lines, but it has %d", name, written, n)
		}
	}
	for name, n := range present {
		if n > largePackage && !explained[name] {
			t.Errorf("%s has %d lines; split it if it has two topics, or say in docs/architecture.md why it has one", name, n)
		}
	}
	if n := present["app"]; n == 0 || n > largestApp {
		t.Errorf("internal/app has %d lines, at most %d are allowed: it contains only wiring", n, largestApp)
	}
}
