// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"html/template"
	"net/http"
	"path"
	"strings"
	"sync"

	"podfit.dev/podfit/internal/look"
	"podfit.dev/podfit/internal/look/chart"
	document "podfit.dev/podfit/internal/look/page"
)

//go:generate go test . -run TestFiles_packed -update

// packed are the files of the folders assets and templates: a JSON object with their texts by path, compressed to a third of their size.
//
//go:embed files.json.gz
var packed []byte

// Paths of single files.
const (
	ownStyle     = "assets/app.css"              // the style of these pages; it is served together with the common one
	uPlotLicense = "assets/uplot-1.6.32/LICENSE" // which the page of podfit's own version shows
)

// An asset is a file that pages load. Its name contains a checksum, so browsers may keep it.
type asset struct {
	contentType string
	body, small []byte // small is compressed
}

// A bundle is everything that the pages consist of.
type bundle struct {
	templates *template.Template
	assets    map[string]asset  // by the name in the URL
	urls      map[string]string // these names by the name of the file
	license   string            // of the charts

	style  template.CSS // of offline pages
	policy string       // allows exactly this style, and no scripts
}

// unpackOnce sets unpacked at its first call: most commands show no page. It is not a sync.OnceValue, because the linker keeps all exported
// methods of the types that generic functions are made for: here 13 KB of html/template that no page needs.
var (
	unpacked   *bundle
	unpackOnce = sync.OnceFunc(func() { unpacked = unpack() })
)

func bundled() *bundle {
	unpackOnce()
	return unpacked
}

var contentTypes = map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}

// unpack returns the files. They are a part of this binary, so it panics if they are not valid.
func unpack() *bundle {
	files := make(map[string]string)
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err == nil {
		err = json.NewDecoder(z).Decode(&files)
	}
	if err != nil {
		panic(err)
	}
	style := look.Style(chart.Style + files[ownStyle])
	b := &bundle{
		templates: template.New("").Funcs(functions), assets: make(map[string]asset), urls: make(map[string]string), license: files[uPlotLicense],
		style: template.CSS(style), policy: look.Policy(style),
	}
	document.AddTo(b.templates)
	files[ownStyle] = style
	for file, text := range files {
		base := path.Base(file)
		extension := path.Ext(file)
		switch {
		case extension == ".html":
			template.Must(b.templates.New(base).Parse(text))
		case contentTypes[extension] != "":
			body := []byte(text)
			sum := sha256.Sum256(body)
			name := strings.TrimSuffix(base, extension) + "-" + hex.EncodeToString(sum[:6]) + extension
			b.assets[name] = asset{contentTypes[extension], body, compressed(body, gzip.BestCompression)}
			b.urls[base] = name
		}
	}
	return b
}

func (h *handler) asset(w http.ResponseWriter, r *http.Request, name string) {
	a, ok := bundled().assets[name]
	if !ok {
		h.fail(w, r, http.StatusNotFound, "There is no such file.")
		return
	}
	body := a.body
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	if acceptsGzip(r) {
		body = a.small
		w.Header().Set("Content-Encoding", "gzip")
	}
	h.sendAsIs(w, r, http.StatusOK, a.contentType, body)
}
