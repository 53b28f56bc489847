// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write files.json.gz")

// maxPacked bounds what the files of the page add to the binary, in bytes. Charts of uPlot take 22 KiB of it.
const maxPacked = 40 << 10

// The binary contains the files of the folders assets and templates, and they are small.
func TestFiles_packed_equalTheFoldersAndAreSmall(t *testing.T) {
	want := make(map[string]string)
	for _, folder := range []string{"assets", "templates"} {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			want[filepath.ToSlash(path)] = string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if *update {
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("files.json.gz", compressed(text, gzip.BestCompression), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	if err := json.NewDecoder(z).Decode(&got); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(got, want) {
		t.Errorf("files.json.gz has not the content of the folders; run go generate ./internal/edge/web")
	}
	if len(packed) > maxPacked {
		t.Errorf("the files of the page take %d bytes of the binary, want at most %d", len(packed), maxPacked)
	}
}
