// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"podfit.dev/podfit/internal/look"
	"podfit.dev/podfit/internal/look/chart"
)

var update = flag.Bool("update", false, "write files.json.gz")

// maxPacked bounds what the files of the page add to the binary, in bytes. Charts of uPlot take 22 KiB of it.
const maxPacked = 40 << 10

// The binary contains the files of the folders assets and templates, and they are small.
func TestFiles_packed_equalTheFoldersAndAreSmall(t *testing.T) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // tags would be longer
	if err := encoder.Encode(bundleOfFolders(t)); err != nil {
		t.Fatal(err)
	}
	want := text.Bytes()
	if *update {
		if err := os.WriteFile("files.json.gz", compressed(want, gzip.BestCompression), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(z); err != nil || !bytes.Equal(got, want) {
		t.Errorf("files.json.gz has not the content of the folders, error %v; run go generate ./internal/edge/web", err)
	}
	if len(packed) > maxPacked {
		t.Errorf("the files of the page take %d bytes of the binary, want at most %d", len(packed), maxPacked)
	}
}

var contentTypes = map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}

// bundleOfFolders returns the bundle of the files in the folders assets and templates.
func bundleOfFolders(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{Templates: map[string]string{}, Assets: map[string]asset{}, URLs: map[string]string{}}
	for _, folder := range []string{"assets", "templates"} {
		err := filepath.WalkDir(folder, func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := os.ReadFile(file)
			b.add(filepath.Base(file), string(text))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// add adds a file. The style of these pages is served together with the common one.
func (b *bundle) add(base, text string) {
	if base == "app.css" {
		text = look.Style(chart.Style + text)
	}
	extension := filepath.Ext(base)
	switch {
	case base == "LICENSE":
		b.License = text
	case extension == ".html":
		b.Templates[base] = text
	default:
		sum := sha256.Sum256([]byte(text))
		name := strings.TrimSuffix(base, extension) + "-" + hex.EncodeToString(sum[:6]) + extension
		b.Assets[name] = asset{Type: contentTypes[extension], Body: text}
		b.URLs[base] = name
	}
}
