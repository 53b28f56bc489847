// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"html/template"
	"net/http"
	"sync"

	"podfit.dev/podfit/internal/look"
	document "podfit.dev/podfit/internal/look/page"
)

//go:generate go test . -run TestFiles_packed -update

// packed is a bundle as JSON, made of the files of the folders assets and templates and compressed to a third of their size.
//
//go:embed files.json.gz
var packed []byte

// An asset is a file that pages load.
type asset struct {
	Type  string `json:"type"`
	Body  string `json:"body"`
	small []byte // compressed
}

// A bundle is everything that the pages consist of.
type bundle struct {
	Templates map[string]string `json:"templates"`
	Assets    map[string]asset  `json:"assets"`  // by the name in the URL, which contains a checksum, so browsers may keep them
	URLs      map[string]string `json:"urls"`    // these names by the name of the file
	License   string            `json:"license"` // of the charts

	templates *template.Template
	style     template.CSS // of offline pages
	policy    string       // allows exactly this style, and no scripts
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

// unpack returns the files. They are a part of this binary, so it panics if they are not valid.
func unpack() *bundle {
	b := &bundle{templates: template.New("").Funcs(functions)}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err == nil {
		err = json.NewDecoder(z).Decode(b)
	}
	if err != nil {
		panic(err)
	}
	document.AddTo(b.templates)
	for name, text := range b.Templates {
		template.Must(b.templates.New(name).Parse(text))
	}
	for name, a := range b.Assets {
		a.small = compressed([]byte(a.Body), gzip.BestCompression)
		b.Assets[name] = a
	}
	style := b.Assets[b.URLs["app.css"]].Body
	b.style, b.policy = template.CSS(style), look.Policy(style)
	return b
}

func (h *handler) asset(w http.ResponseWriter, r *http.Request, name string) {
	a, ok := bundled().Assets[name]
	if !ok {
		h.fail(w, r, http.StatusNotFound, "There is no such file.")
		return
	}
	body := []byte(a.Body)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	if acceptsGzip(r) {
		body = a.small
		w.Header().Set("Content-Encoding", "gzip")
	}
	h.sendAsIs(w, r, http.StatusOK, a.Type, body)
}
