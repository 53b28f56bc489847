// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/overview"
	"podfit.dev/podfit/internal/core/wording"
	document "podfit.dev/podfit/internal/look/page"
)

var functions = template.FuncMap{
	"amount":  formatAmount,
	"cores":   func(a amounts) string { return wording.Number(float64(a.r.CPU) / 1000) },
	"gib":     func(a amounts) string { return wording.Number(float64(a.r.Memory) / (1 << 30)) },
	"total":   func(a amounts) string { return wording.Totals(a.r) },
	"number":  wording.Number,
	"count":   func(n int) string { return wording.Grouped(float64(n)) },
	"plural":  wording.Count,
	"lower":   strings.ToLower,
	"ago":     ago,
	"clock":   func(t time.Time) string { return t.UTC().Format("15:04") },
	"day":     func(t time.Time) string { return t.UTC().Format("2 Jan, 15:04") },
	"machine": func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"item":    func(root, path, id, text, section string) item { return item{root, path, id, text, section} },
	"path":    workloadPath,
	"cut":     cut,
	"list":    func(values ...any) []any { return values },
}

func ago(d time.Duration) string { return wording.Elapsed(d, "d") }

// An item is a link of the navigation.
type item struct{ Root, Path, ID, Text, Section string }

// cut returns the title and the class of a column of a table. A class follows the title and |.
func cut(column string) [2]string {
	title, class, _ := strings.Cut(column, "|")
	return [2]string{title, class}
}

// formatAmount formats the amount of a resource, "–" if it is not set.
func formatAmount(a amounts, name string) string {
	res, _ := cluster.ParseResource(name)
	if v, ok := a.r.Get(res); ok {
		return wording.Spaced(res, v)
	}
	return "–"
}

// A page is the input of a template.
type page struct {
	Title   string
	Section string // the selected item of the navigation
	Root    string // relative path from the page to the root
	Cluster string
	Viewer  string
	Version string
	Offline bool          // the page is a file, without links and scripts
	Style   template.CSS  // of an offline page
	Policy  string        // content security policy of an offline page
	Now     time.Time     // when the page was made
	Contact time.Time     // see State; zero if there was no contact
	Age     time.Duration // since Contact, if there was one
	Health  []overview.Part
	Loading []string
	Notes   []string   // problems of the data
	Unheard bool       // it is not known what podfit did
	Charts  bool       // the page has charts
	Path    string     // relative address of this page
	Query   url.Values // its parameters
	Body    any
}

// Asset returns the relative address of a file.
func (p *page) Asset(base string) string { return p.Root + "assets/" + bundled().URLs[base] }

// Link returns a link to a page, or only its text in an offline page.
func (p *page) Link(path, text string) template.HTML {
	escaped := template.HTMLEscapeString(text)
	if p.Offline || path == "" {
		return template.HTML(escaped)
	}
	return template.HTML(`<a href="` + template.HTMLEscapeString(p.Root+path) + `">` + escaped + "</a>") // both are escaped
}

// With returns the address of this page with a parameter replaced, without those that select a format.
func (p *page) With(name, value string) string {
	values := maps.Clone(p.Query)
	values.Del("format")
	values.Del("save")
	if name != "page" {
		values.Del("page")
	}
	values.Del(name)
	if value != "" {
		values.Set(name, value)
	}
	if encoded := values.Encode(); encoded != "" {
		return p.Path + "?" + encoded
	}
	return p.Path
}

// root returns the relative path from a page to the root of all pages.
func root(r *http.Request) string {
	if depth := strings.Count(r.URL.EscapedPath(), "/") - 1; depth > 0 {
		return strings.Repeat("../", depth)
	}
	return "./"
}

// self returns the relative address of a page: the last segment of its path.
func self(r *http.Request) string {
	path := r.URL.EscapedPath()
	segment := path[strings.LastIndexByte(path, '/')+1:]
	if segment == "" || strings.Contains(segment, ":") {
		return "./" + segment
	}
	return segment
}

const htmlType = "text/html; charset=utf-8"

const internalError = "podfit cannot show this page because of an internal error. Its log has the cause."

// show sends a page as HTML, its body as JSON with the parameter format=json, or a file with save=1.
func (h *handler) show(w http.ResponseWriter, r *http.Request, name string, p *page) {
	var body []byte
	var err error
	contentType := htmlType
	if r.URL.Query().Get("format") == "json" {
		contentType = "application/json; charset=utf-8"
		body, err = json.MarshalIndent(p.Body, "", " ")
		body = append(body, '\n')
	} else {
		p.Root, p.Path, p.Query, p.Cluster, p.Version = root(r), self(r), r.URL.Query(), h.Cluster, h.Version
		if r.URL.Query().Get("save") != "" {
			p.Offline = true
			p.Style, p.Policy = bundled().style, bundled().policy
			w.Header().Set("Content-Disposition", `attachment; filename="podfit-`+name+`.html"`)
		}
		body, err = render(name, p)
	}
	if err != nil {
		w.Header().Del("Content-Disposition")
		h.Log.Error("Failed to render a page", slog.Any("error", err))
		h.fail(w, r, http.StatusInternalServerError, internalError)
		return
	}
	h.send(w, r, http.StatusOK, contentType, body)
}

func render(name string, p *page) ([]byte, error) {
	var out bytes.Buffer
	if err := bundled().templates.ExecuteTemplate(&out, name+".html", p); err != nil {
		return nil, fmt.Errorf("render page %s: %w", name, err)
	}
	return document.Plain(out.Bytes()), nil
}

// fail sends an error page.
func (h *handler) fail(w http.ResponseWriter, r *http.Request, status int, text string) {
	p := &page{Title: http.StatusText(status), Root: root(r), Path: self(r), Query: r.URL.Query(), Cluster: h.Cluster, Version: h.Version, Now: time.Now(), Body: text}
	body, err := render("error", p)
	if err != nil {
		h.Log.Error("Failed to render a page", slog.Any("error", err))
		body = []byte(template.HTMLEscapeString(text))
	}
	w.Header().Set("Cache-Control", "no-store")
	h.send(w, r, status, htmlType, body)
}
