// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// Stored returns the golden file testdata/stored/NAME of a stored format, in which clusters hold data, and checks that what is written now is the same.
// JSON is indented in the file. Existing files never change; PODFIT_NEW_STORED=1 writes those that do not exist.
func Stored(t testing.TB, name string, written []byte) []byte {
	t.Helper()
	path := filepath.Join("testdata", "stored", name)
	golden, err := os.ReadFile(path)
	if os.IsNotExist(err) && os.Getenv("PODFIT_NEW_STORED") != "" {
		var indented bytes.Buffer
		if err := json.Indent(&indented, written, "", "  "); err != nil {
			t.Fatal(err)
		}
		golden = append(indented.Bytes(), '\n')
		err = os.WriteFile(path, golden, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	var want, got bytes.Buffer
	if err := json.Compact(&want, golden); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if err := json.Compact(&got, written); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want.Bytes(), got.Bytes()) {
		t.Errorf("written is\n%s\n%s has\n%s", got.Bytes(), path, want.Bytes())
	}
	return want.Bytes()
}
