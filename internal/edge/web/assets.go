// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"

	"podfit.dev/podfit/internal/look"
)

//go:embed assets
var files embed.FS

// uPlotLicense is the license of the charts, which the page of podfit's own version shows.
//
//go:embed assets/uplot-1.6.32/LICENSE
var uPlotLicense string

// ownStyle is the file with the style of these pages. It is served together with the common one.
const ownStyle = "app.css"

// An asset is a file that pages load. Its name contains a checksum, so browsers may keep it.
type asset struct {
	contentType string
	body, small []byte // small is compressed
}

// assets are the files by the name in their URL, and assetURLs these names by the path of the file.
var assets, assetURLs = loadAssets()

var contentTypes = map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}

func loadAssets() (byName map[string]asset, names map[string]string) {
	byName = make(map[string]asset)
	names = make(map[string]string)
	err := fs.WalkDir(files, "assets", func(file string, entry fs.DirEntry, err error) error {
		extension := path.Ext(file)
		if err != nil || entry.IsDir() || contentTypes[extension] == "" {
			return err
		}
		body, err := files.ReadFile(file)
		if err != nil {
			return err
		}
		base := path.Base(file)
		if base == ownStyle {
			body = []byte(look.Style(string(body)))
		}
		sum := sha256.Sum256(body)
		name := strings.TrimSuffix(base, extension) + "-" + hex.EncodeToString(sum[:6]) + extension
		byName[name] = asset{contentTypes[extension], body, compressed(body, gzip.BestCompression)}
		names[base] = name
		return nil
	})
	if err != nil {
		panic(err) // the files are part of this binary
	}
	return byName, names
}

// asset sends a file.
func (h *handler) asset(w http.ResponseWriter, r *http.Request, name string) {
	a, ok := h.assets[name]
	if !ok {
		h.fail(w, r, http.StatusNotFound, "There is no such file.")
		return
	}
	body := a.body
	header := w.Header()
	header.Set("Cache-Control", "public, max-age=31536000, immutable")
	header.Set("Content-Type", a.contentType)
	header.Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		body = a.small
		header.Set("Content-Encoding", "gzip")
	}
	header.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method == http.MethodHead {
		return
	}
	_, _ = w.Write(body) // the client may be gone
}
