// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// weaknesses is the number of known weaknesses of upstream: W-01 to W-29.
const weaknesses = 29

func TestWeaknesses_each_hasTestOrReason(t *testing.T) {
	var text strings.Builder
	read := func(path string) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(b)
	}
	read("../../docs/scope.md")
	for _, root := range []string{"../../internal", "../../test"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			test := strings.HasSuffix(path, "_test.go") && !strings.HasSuffix(path, "weaknesses_test.go")
			if test || strings.HasSuffix(path, ".txt") && strings.Contains(path, "testdata") {
				read(path)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for n := 1; n <= weaknesses; n++ {
		if id := fmt.Sprintf("W-%02d", n); !strings.Contains(text.String(), id) {
			t.Errorf("no test names %s, and docs/scope.md gives no reason why not", id)
		}
	}
}
