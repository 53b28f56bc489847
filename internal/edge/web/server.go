// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package web serves the web page: what the cluster requests and uses, which workloads are at risk, what could be given back, and what
// podfit did.
//
// It is read-only. It answers only GET and HEAD, and actions are commands that the viewer copies. All responses have the same security
// headers, and no page has inline scripts or styles. URLs are relative, so that the page also works behind "kubectl proxy".
//
// The package takes no decisions about sizes: it shows values of core/overview.
package web

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/overview"
	"podfit.dev/podfit/internal/core/recommend"
	document "podfit.dev/podfit/internal/look/page"
)

// A State is what is known about the cluster at one time.
type State struct {
	Overview *overview.Overview
	Surplus  *overview.Surplus // nil if it is not known yet

	Activity      []overview.Entry // the newest first
	ActivitySince time.Time        // zero if it is not known
	ActivityFrom  string           // where the entries come from, as the end of a sentence
	NoActivity    bool             // it is not known what podfit did

	Health   []overview.Part
	Contact  time.Time // when the API server last answered, by the watch that was silent for longest
	Loading  []string  // resources that have not been listed yet
	Problems []string  // what is out of date or not known, as sentences
	Causes   []string  // likewise, for viewers of all namespaces only, because they may name some
	Pending  bool      // the overview is not computed yet, so it is empty
	NoPods   bool      // podfit may not list pods

	Custom []CustomProfile // the SizingProfiles of the cluster, by name

	Plan        *v1alpha1.CapacityPlanStatus // nil if the cluster has none, or it cannot be read
	PlanProblem string                       // why it cannot be read, as a sentence

	Excluded []string // names and patterns of the namespaces that are not shown
}

// A CustomProfile is a SizingProfile of the cluster.
type CustomProfile struct {
	recommend.Profile      // only its name, unless Known
	Known             bool // its parameters are valid and have been read
}

// Complete reports whether all that podfit may read has been read once.
func (s *State) Complete() bool { return !s.Pending && len(s.Loading) == 0 }

// A Source returns what the pages show.
type Source interface {
	State(ctx context.Context) *State
	// History returns the stored usage of a workload.
	History(ctx context.Context, row *overview.Row) (overview.History, error)
}

// An Explanation is the output of "podfit explain".
type Explanation struct {
	Text     string
	Data     json.RawMessage // with -o json
	Tags     []string
	Notes    []string // what limits it
	Sections []document.Section
}

// Section returns the section with a title, nil if there is none.
func (e Explanation) Section(title string) *document.Section {
	return cluster.Find(e.Sections, func(s *document.Section) bool { return s.Title == title })
}

// Why returns the sections that say how sizes come about.
func (e Explanation) Why() []document.Section {
	return slices.DeleteFunc(slices.Clone(e.Sections), func(s document.Section) bool { return !strings.HasPrefix(s.Title, "Why ") })
}

// An Explainer explains workloads as "podfit explain" does.
type Explainer interface {
	// Explain explains a workload. Unless whole is true, the explanation contains nothing of other namespaces and of nodes.
	Explain(ctx context.Context, w cluster.Workload, whole bool) (Explanation, error)
}

// Config is what a handler serves.
type Config struct {
	Cluster string // name of the cluster, for the header of the page
	Version string
	Source  Source
	Explain Explainer // nil: pages have no explanation
	Access  *Access
	Hosts   []string // names that the Host header may have, in addition to those of loopback; "*" allows all
	Log     *slog.Logger
}

// handler serves the pages. Its own methods see only requests that passed all checks.
type handler struct{ Config }

// New returns the handler of all pages. It sets the security headers on every response, also on errors.
func New(c Config) http.Handler {
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	bundled() // so that no viewer waits for it
	return &handler{c}
}

// headers are set on every response.
var headers = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	"X-Frame-Options":              "DENY",
	"X-Content-Type-Options":       "nosniff",
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Cache-Control":                "no-store",
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w = &stream{ResponseWriter: w}
	for name, value := range headers {
		w.Header().Set(name, value)
	}
	defer func() {
		cause := recover()
		if cause == nil {
			return
		}
		if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(cause)
		}
		h.Log.Error("Failed to serve a page because of an internal error", slog.Any("panic", cause), slog.String("stack", string(debug.Stack())))
		h.fail(w, r, http.StatusInternalServerError, internalError)
	}()
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		h.fail(w, r, http.StatusMethodNotAllowed, "This server only reads. Use GET or HEAD.")
		return
	}
	if !h.allowsHost(r.Host) {
		h.fail(w, r, http.StatusForbidden, "This server does not answer requests for this host. To allow it, set --web-hosts.")
		return
	}
	viewer, refused := h.Access.viewer(r)
	if refused != nil {
		if refused.status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", `Basic realm="podfit: any user name, and a Kubernetes token as the password", charset="UTF-8"`)
		}
		if refused.err != nil {
			h.Log.Warn("A request was not served, because the rights of the viewer are not known", slog.Any("error", refused.err))
		}
		h.fail(w, r, refused.status, refused.text)
		return
	}
	h.route(w, r, viewer)
}

// allowsHost reports whether a Host header is one of the allowed names. Other names may be those of an attacker whose DNS server resolves
// them to this server.
func (h *handler) allowsHost(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	name = strings.TrimSuffix(strings.ToLower(strings.Trim(name, "[]")), ".")
	if ip := net.ParseIP(name); ip != nil && ip.IsLoopback() || name == "localhost" {
		return true
	}
	return slices.ContainsFunc(h.Hosts, func(allowed string) bool { return allowed == "*" || strings.EqualFold(allowed, name) })
}

// route selects the page by the path.
func (h *handler) route(w http.ResponseWriter, r *http.Request, v *overview.Viewer) {
	parts := strings.Split(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	for i := range parts {
		part, err := url.PathUnescape(parts[i])
		if err != nil {
			h.fail(w, r, http.StatusBadRequest, "The address is not valid.")
			return
		}
		parts[i] = part
	}
	q := query{r.URL.Query()}
	listed, known := pages[parts[0]]
	switch {
	case len(parts) == 2 && parts[0] == "assets":
		h.asset(w, r, parts[1])
	case len(parts) == 4 && parts[0] == "workloads":
		h.workload(w, r, v, parts[1:], q)
	case len(parts) == 1 && known:
		var s *State
		h.during(w, r, &page{Title: listed.title, Section: listed.name}, func() { s = h.Source.State(r.Context()) })
		h.show(w, r, listed.name, pageOf(listed.title, listed.name, s, v, listed.view(h, s, v, q)))
	default:
		h.fail(w, r, http.StatusNotFound, "There is no such page.")
	}
}

// pages are the pages of the navigation, by path. The name is that of the template and of the item of the navigation.
var pages = map[string]struct {
	title, name string
	view        func(h *handler, s *State, v *overview.Viewer, q query) any
}{
	"":          {"Overview", "overview", (*handler).overview},
	"workloads": {"Workloads", "workloads", (*handler).workloads},
	"nodes":     {"Nodes", "nodes", (*handler).nodes},
	"activity":  {"Activity", "activity", (*handler).activity},
	"profiles":  {"Profiles", "profiles", (*handler).profiles},
	"about":     {"About", "about", (*handler).about},
}

// query are the parameters of a URL.
type query struct{ url.Values }

func (q query) text(name string) string {
	const maxParameter = 200 // bounds the length of a parameter
	value := q.Get(name)
	return strings.ToValidUTF8(value[:min(len(value), maxParameter)], "")
}

func (q query) page() int {
	page, err := strconv.Atoi(q.Get("page"))
	if err != nil {
		return 1
	}
	return page
}

// send writes a response, compressed if the client accepts that.
func (h *handler) send(w http.ResponseWriter, r *http.Request, status int, contentType string, body []byte) {
	if began, ok := w.(*stream); ok && began.head != nil {
		began.end(body)
		return
	}
	if len(body) > 1024 && acceptsGzip(r) {
		body = compressed(body, gzip.DefaultCompression)
		w.Header().Set("Content-Encoding", "gzip")
	}
	h.sendAsIs(w, r, status, contentType, body)
}

// acceptsGzip reports whether a response may be compressed.
func acceptsGzip(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
}

// sendAsIs writes a response that may have been compressed before.
func (h *handler) sendAsIs(w http.ResponseWriter, r *http.Request, status int, contentType string, body []byte) {
	header := w.Header()
	header.Set("Content-Type", contentType)
	header.Add("Vary", "Accept-Encoding")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return
	}
	if _, err := w.Write(body); err != nil {
		h.Log.Debug("Cannot send a response", slog.Any("error", err))
	}
}

func compressed(body []byte, level int) []byte {
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, level) // the levels are valid constants
	_, _ = z.Write(body)                     // a bytes.Buffer does not fail
	_ = z.Close()
	return out.Bytes()
}
