// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/overview"
	"podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/web"
	document "podfit.dev/podfit/internal/look/page"
	"podfit.dev/podfit/test/webtest"
)

// pages are the paths of all pages of the small fixture.
var pages = []string{
	"/", "/workloads", "/workloads?risk=any&sort=memory&q=shop", "/workloads/shop/Deployment/cart", "/workloads/search/StatefulSet/indexer",
	"/workloads/kube-system/DaemonSet/node-exporter", "/nodes", "/activity", "/activity?reason=SmallChange", "/profiles", "/about",
}

// get sends a request to a handler.
func get(h http.Handler, method, target string, change ...func(*http.Request)) *http.Response {
	r := httptest.NewRequest(method, target, nil)
	r.Host = "127.0.0.1:8945"
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// body returns the body of a response without its compression.
func body(t *testing.T, r *http.Response) string {
	t.Helper()
	defer r.Body.Close()
	var reader io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(reader)
		if err != nil {
			t.Fatal(err)
		}
		reader = z
	}
	b, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func handler(s web.Source) http.Handler {
	return web.New(web.Config{Cluster: "prod-eu", Version: "v1", Source: s})
}

var wantHeaders = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	"X-Frame-Options":         "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
	"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
}

// panics is a Source that fails.
type panics struct{ web.Source }

func (panics) State(context.Context) *web.State { panic("broken") }

func TestHandler_everyResponse_hasSecurityHeaders(t *testing.T) {
	small := handler(webtest.Small())
	refusing := web.New(web.Config{Source: webtest.Small(), Access: web.NewAccess(web.AccessConfig{Mode: web.Token})})
	for _, c := range []struct {
		name, method, target string
		h                    http.Handler
		host                 string
		status               int
	}{
		{"not found", "GET", "/nothing", small, "", 404},
		{"unknown workload", "GET", "/workloads/a/b/c", small, "", 404},
		{"trailing slash", "GET", "/workloads/", small, "", 404},
		{"invalid escape", "GET", "/workloads/a%2Fb/%00/..", small, "", 404},
		{"parent folder", "GET", "/assets/../server.go", small, "", 404},
		{"asset folder", "GET", "/assets/", small, "", 404},
		{"method", "POST", "/", small, "", 405},
		{"other method", "DELETE", "/workloads", small, "", 405},
		{"options", "OPTIONS", "/", small, "", 405},
		{"other host", "GET", "/", small, "evil.example", 403},
		{"no host", "GET", "/", small, "-", 403},
		{"no token", "GET", "/", refusing, "", 401},
		{"panic", "GET", "/", handler(panics{}), "", 500},
		{"head", "HEAD", "/", small, "", 200},
		{"json", "GET", "/?format=json", small, "", 200},
		{"file", "GET", "/?save=1", small, "", 200},
	} {
		r := get(c.h, c.method, c.target, func(r *http.Request) {
			if c.host != "" {
				r.Host = strings.Trim(c.host, "-")
			}
		})
		if r.StatusCode != c.status {
			t.Errorf("%s: status %d, want %d", c.name, r.StatusCode, c.status)
		}
		checkHeaders(t, c.name, r)
		if r.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: Cache-Control is %q", c.name, r.Header.Get("Cache-Control"))
		}
		if c.method == "HEAD" && body(t, r) != "" {
			t.Errorf("%s: the response has a body", c.name)
		}
	}
	for _, page := range pages {
		r := get(small, "GET", page)
		checkHeaders(t, page, r)
		if r.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d: %s", page, r.StatusCode, body(t, r))
		}
	}
}

func checkHeaders(t *testing.T, name string, r *http.Response) {
	t.Helper()
	for header, want := range wantHeaders {
		if got := r.Header.Get(header); got != want {
			t.Errorf("%s: %s is %q, want %q", name, header, got, want)
		}
	}
}

func TestHandler_hostHeader_onlyAllowedNamesAreServed(t *testing.T) {
	h := web.New(web.Config{Source: webtest.Small(), Hosts: []string{"podfit.example"}})
	for host, want := range map[string]int{
		"127.0.0.1:8945": 200, "127.0.0.1": 200, "127.8.0.1:1": 200, "localhost:8945": 200, "LOCALHOST": 200, "localhost.": 200, "[::1]:8945": 200, "[::1]": 200,
		"podfit.example": 200, "Podfit.Example:443": 200, "podfit.example.": 200,
		"evil.example": 403, "localhost.evil.example": 403, "podfit.example.evil": 403, "10.0.0.1:8945": 403, "": 403, "127.0.0.1.evil.example": 403, "[::2]:1": 403,
	} {
		if got := get(h, "GET", "/", func(r *http.Request) { r.Host = host }).StatusCode; got != want {
			t.Errorf("host %q: status %d, want %d", host, got, want)
		}
	}
}

var (
	inline = regexp.MustCompile(`(?i)<script(?:[^>]*[^"'])?>[^<]|<style|\sstyle=|\son[a-z]+\s*=\s*["'a-z]|javascript:`)
	link   = regexp.MustCompile(`(?:href|src)="([^"]*)"`)
)

func TestHandler_pages_haveNoInlineCodeAndOnlyRelativeLinks(t *testing.T) {
	h := handler(webtest.Small())
	for _, page := range append(pages, "/nothing/here/at/all") {
		text := body(t, get(h, "GET", page))
		if found := inline.FindString(text); found != "" {
			t.Errorf("%s has inline code: %q", page, found)
		}
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.HasPrefix(m[1], "/") || strings.Contains(strings.SplitN(m[1], "?", 2)[0], ":") {
				t.Errorf("%s has a link that is not relative: %q", page, m[1])
			}
		}
	}
}

// Behind "kubectl proxy" all paths have a prefix. Every link of every page leads to a page.
func TestHandler_linksBehindProxy_leadToPages(t *testing.T) {
	const prefix = "/api/v1/namespaces/kube-system/services/podfit:web/proxy"
	proxied := http.StripPrefix(prefix, handler(webtest.Small()))
	seen := map[string]bool{}
	queue := []string{prefix + "/"}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		r := get(proxied, "GET", at)
		text := body(t, r)
		if r.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d", at, r.StatusCode)
			continue
		}
		if !strings.HasPrefix(r.Header.Get("Content-Type"), "text/html") || strings.Contains(at, "save=1") {
			continue
		}
		base := httptest.NewRequest(http.MethodGet, at, nil).URL
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			reference := strings.ReplaceAll(m[1], "&amp;", "&")
			if strings.HasPrefix(reference, "#") {
				continue
			}
			next, err := base.Parse(reference)
			if err != nil {
				t.Errorf("%s: link %q: %v", at, m[1], err)
				continue
			}
			if !strings.HasPrefix(next.Path, prefix+"/") {
				t.Errorf("%s: link %q leaves the page", at, m[1])
			}
			if !seen[next.RequestURI()] {
				seen[next.RequestURI()] = true
				queue = append(queue, next.RequestURI())
			}
		}
	}
	if len(seen) < 40 {
		t.Errorf("only %d links were found", len(seen))
	}
}

// What tenants write (names, annotations, messages) must not become code on any page.
func TestHandler_hostileTexts_areInert(t *testing.T) {
	source := webtest.Attack()
	h := web.New(web.Config{Cluster: webtest.Hostile, Version: webtest.Hostile, Source: source, Explain: explains(webtest.Hostile)})
	o := source.State(t.Context()).Overview
	paths := []string{"/", "/workloads", "/workloads?q=" + "%22%3E%3Cscript%3E&namespace=%22%3E%3Cscript%3E&risk=%22%3E&sort=%22%3E", "/nodes", "/activity", "/activity?reason=%22%3E%3Cscript%3Ewindow", "/profiles", "/about", "/%3Cscript%3E"}
	for i := range o.Rows {
		w := o.Rows[i].Workload
		path := "/workloads/" + escape(w.Namespace) + "/" + escape(w.Kind) + "/" + escape(w.Name)
		paths = append(paths, path, path+"?explain=1")
	}
	for _, path := range paths {
		for _, suffix := range []string{"", "save=1"} {
			if suffix != "" {
				if suffix = "?" + suffix; strings.Contains(path, "?") {
					suffix = "&save=1"
				}
			}
			r := get(h, "GET", path+suffix)
			text := body(t, r)
			if strings.HasPrefix(path, "/workloads/") && r.StatusCode != http.StatusOK {
				t.Errorf("%s: status %d", path, r.StatusCode)
			}
			for _, bad := range []string{"<script>window", "<img", "onerror=\"window"} {
				if strings.Contains(text, bad) {
					t.Errorf("%s%s contains %q", path, suffix, bad)
				}
			}
		}
		r := get(h, "GET", strings.Replace(path, "?", "?format=json&", 1)+map[bool]string{false: "?format=json"}[strings.Contains(path, "?")])
		if text := body(t, r); r.StatusCode == http.StatusOK && strings.Contains(text, "<script") {
			t.Errorf("%s: the JSON contains a tag", path)
		}
	}
}

func escape(s string) string {
	return strings.NewReplacer("%", "%25", "\"", "%22", "<", "%3C", ">", "%3E", " ", "%20", "/", "%2F", "{", "%7B", "}", "%7D", "'", "%27", "?", "%3F", "=", "%3D").Replace(s)
}

// explains is an explainer with a fixed text.
type explains string

func (e explains) Explain(context.Context, cluster.Workload, bool) (web.Explanation, error) {
	if e == "" {
		return web.Explanation{}, errors.New("no history")
	}
	return web.Explanation{Text: string(e), Data: json.RawMessage(`{"kind":"Explanation"}`)}, nil
}

func TestWorkload_explainer_textIsOnThePage(t *testing.T) {
	const path = "/workloads/shop/Deployment/cart"
	for _, c := range []struct {
		explain web.Explainer
		want    string
	}{{explains("WHY 1276Mi of memory"), "WHY 1276Mi of memory"}, {explains(""), "The explanation could not be made: no history"}} {
		if text := body(t, get(web.New(web.Config{Source: webtest.Small(), Explain: c.explain}), "GET", path+"?explain=1")); !strings.Contains(text, c.want) {
			t.Errorf("%q is not on the page", c.want)
		}
	}
	// An explanation reads the cluster, so data have one only if a viewer asks for it.
	h := web.New(web.Config{Source: webtest.Small(), Explain: explains("WHY")})
	for query, want := range map[string]bool{"": false, "&explain=1": true} {
		if strings.Contains(body(t, get(h, "GET", path+"?format=json"+query)), `"Explanation"`) != want {
			t.Errorf("%q: an explanation that was not asked for, or none", query)
		}
	}
	if text := body(t, get(handler(webtest.Small()), "GET", path)); strings.Contains(text, "Explanation") {
		t.Error("the page without an explainer has an explanation")
	}
}

// never is an explainer that does not end before its viewer leaves.
type never struct{}

func (never) Explain(ctx context.Context, _ cluster.Workload, _ bool) (web.Explanation, error) {
	<-ctx.Done()
	return web.Explanation{}, ctx.Err()
}

// The page does not wait for a slow explanation: it has a link to it.
func TestWorkload_explainerIsSlow_pageHasALink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r := httptest.NewRequest(http.MethodGet, "http://localhost/workloads/shop/Deployment/cart", nil)
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		w := httptest.NewRecorder()
		web.New(web.Config{Source: webtest.Small(), Explain: never{}}).ServeHTTP(w, r.WithContext(ctx))
		if text := w.Body.String(); !strings.Contains(text, "?explain=1#explain") || strings.Contains(text, "could not be made") {
			t.Error("no link to the explanation")
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("the page took %v", took)
		}
	})
}

// In a large cluster, only the viewers who ask for an explanation cause its reading.
func TestWorkload_largeCluster_isExplainedOnlyOnRequest(t *testing.T) {
	h := web.New(web.Config{Source: webtest.Large(10000), Explain: explains("WHY")})
	for query, want := range map[string]bool{"": false, "?explain=1": true} {
		text := body(t, get(h, "GET", workloadOf(t, h)+query))
		if strings.Contains(text, "<pre>WHY") != want || strings.Contains(text, "?explain=1#explain") == want {
			t.Errorf("%q: an explanation that was not asked for, or none", query)
		}
	}
}

// workloadOf returns the path of the first workload that a page lists.
func workloadOf(t *testing.T, h http.Handler) string {
	t.Helper()
	var page struct {
		Workloads []struct{ Namespace, Kind, Name string }
	}
	if err := json.Unmarshal([]byte(body(t, get(h, "GET", "/workloads?format=json"))), &page); err != nil || len(page.Workloads) == 0 {
		t.Fatalf("%d workloads, %v", len(page.Workloads), err)
	}
	w := page.Workloads[0]
	return "/workloads/" + w.Namespace + "/" + w.Kind + "/" + w.Name
}

// The overview names the date by which nodes must be ordered in colour, if there is one.
func TestOverview_nodesMustBeOrdered_dateIsNamed(t *testing.T) {
	source := webtest.Small()
	for name, tt := range map[string]struct {
		orderBy, advice, want string
	}{
		"date":  {"2026-12-02", "Order", `<p class="note warn" role="status"><b>Order nodes for pool worker by 2026-12-02.</b>`},
		"now":   {"2026-11-20", "OrderNow", `<p class="note warn" role="status"><b class="bad">Order nodes for pool worker now.</b>`},
		"never": {"", "Enough", ""},
	} {
		source.SetPlan(&v1alpha1.CapacityPlanStatus{Pools: []v1alpha1.CapacityPoolStatus{{Name: "worker", CPU: v1alpha1.CapacityResource{OrderBy: tt.orderBy, Advice: tt.advice}}}}, "")
		text := body(t, get(handler(source), "GET", "/"))
		if tt.want != "" && !strings.Contains(text, tt.want) || tt.want == "" && strings.Contains(text, "Order nodes") {
			t.Errorf("%s: no %q, or a date that is not known", name, tt.want)
		}
	}
}

func TestOverview_allChangesAreFrozen_updaterIsFrozen(t *testing.T) {
	source := webtest.Small()
	state := *source.State(t.Context())
	state.Health = []overview.Part{{Name: "recommender", Condition: overview.Healthy}, {Name: "updater", Condition: overview.Frozen, Text: "ConfigMap a/b"}}
	source.Show(state)
	if text := body(t, get(handler(source), "GET", "/")); !strings.Contains(text, `<span class="healthy">recommender healthy</span> · <span class="frozen">updater frozen</span>`) {
		t.Error("the overview does not say that the updater is frozen")
	}
}

// An order has the date of its forecast: the recommender that writes it may have stopped long ago.
func TestOverview_nodesMustBeOrdered_dateOfTheForecastIsNamed(t *testing.T) {
	source := webtest.Small()
	updated := metav1.Date(2026, 10, 2, 8, 5, 0, 0, time.UTC)
	source.SetPlan(&v1alpha1.CapacityPlanStatus{
		Updated: &updated, Pools: []v1alpha1.CapacityPoolStatus{{Name: "worker", CPU: v1alpha1.CapacityResource{Advice: "OrderNow"}}},
	}, "")
	if text := body(t, get(handler(source), "GET", "/")); !strings.Contains(text, "Forecast</a> of 2 Oct, 08:05 UTC") {
		t.Errorf("the date of the forecast is not on the page:\n%s", text)
	}
	if text := body(t, get(handler(source), "GET", "/?format=json")); !strings.Contains(strings.ReplaceAll(text, " ", ""), `"orderNodesForecast":"2026-10-02T08:05:00Z"`) {
		t.Errorf("the date of the forecast is not in JSON:\n%s", text)
	}
}

// What podfit explain says stands on the page by topic: what is now, what is next for each pod, why, what if, and what to do.
func TestWorkload_explanation_isOnThePageByTopic(t *testing.T) {
	e := web.Explanation{Tags: []string{"small CPU limit"}, Sections: []document.Section{
		{Title: "Now", List: []string{"4 of 6 pods have the new size."}},
		{Title: "Next", Parts: []document.Section{{Lead: "waits until 03:14", About: "cart-q8z", Text: []string{"Node n7 has 180Mi free."}, Class: "wait"}}},
		{Title: "You", Parts: []document.Section{{Text: []string{"Stop changes here:"}, Command: "kubectl patch vpa cart"}, {Text: []string{"Nothing else."}}}},
		{Title: "Why memory is 1276Mi", Table: &document.Table{Columns: []document.Column{{Right: true}, {}}, Rows: []document.Row{{Cells: []string{"1000Mi", "highest day of 7"}}}}},
		{Title: "What if", Table: &document.Table{Columns: make([]document.Column, 2), Rows: []document.Row{{Cells: []string{"profile cost", "1180Mi"}}}}},
	}}
	text := html.UnescapeString(body(t, get(web.New(web.Config{Source: webtest.Small(), Explain: explained(e)}), "GET", "/workloads/shop/Deployment/cart")))
	at := 0
	for _, want := range []string{
		"<dt>Now</dt>", "small CPU limit", "4 of 6 pods have the new size.", "<dt>Next</dt>", `<div class="part wait">`, "waits until 03:14", "Node n7 has 180Mi free.",
		"<dt>You</dt>", "Stop changes here:", `<pre id="command0">kubectl patch vpa cart</pre>`, "Nothing else.", "Why memory is 1276Mi", "highest day of 7", "What if", "profile cost",
		"Requests for the manifest", "What podfit did", "Memory of container app",
	} {
		next := strings.Index(text[at:], want)
		if next < 0 {
			t.Fatalf("no %q after %q in\n%s", want, text[max(0, at-100):at], text)
		}
		at += next
	}
}

// A message or a name with characters that change the direction of text does not make a command look like another one.
func TestWorkload_explanationTurnsTextAround_charactersAreLeftOut(t *testing.T) {
	const turn = "\u202e"
	e := web.Explanation{Tags: []string{turn}, Sections: []document.Section{
		{Title: "Now", List: []string{turn + "message"}}, {Title: "You", Parts: []document.Section{{Text: []string{turn}, Command: "kubectl get 'x" + turn + "'"}}},
	}}
	h := web.New(web.Config{Source: webtest.Small(), Explain: explained(e)})
	for _, query := range []string{"", "?save=1"} {
		if text := body(t, get(h, "GET", "/workloads/shop/Deployment/cart"+query)); strings.Contains(text, turn) || !strings.Contains(text, "kubectl get") {
			t.Errorf("%q: the page turns text around, or has no command:\n%s", query, text)
		}
	}
}

// explained is an explainer with a fixed explanation.
type explained web.Explanation

func (e explained) Explain(context.Context, cluster.Workload, bool) (web.Explanation, error) {
	return web.Explanation(e), nil
}

// The page of a workload has what each profile would recommend, and the request over time.
func TestWorkload_profilesAndRequests_areSideBySide(t *testing.T) {
	h := handler(webtest.Small())
	var page struct {
		Profiles []struct {
			Container, Profile, OOMKilled      string
			Selected                           bool
			Target                             struct{ CPU, Memory string }
			DaysAboveMemory, DaysOfMemoryPeaks int
		}
		Charts []struct {
			Title string
			Data  struct {
				Times    []int64
				Requests []struct {
					At    int64
					Value float64
				}
			}
		}
	}
	decode(t, get(h, "GET", "/workloads/shop/Deployment/cart?format=json"), &page)
	if len(page.Profiles) != 8 || page.Profiles[0].Profile != "balanced" || !page.Profiles[0].Selected || page.Profiles[0].Target.Memory != "1276Mi" || page.Profiles[3].OOMKilled != "yes" || page.Profiles[3].DaysAboveMemory != 2 {
		t.Errorf("profiles %+v", page.Profiles)
	}
	text := body(t, get(h, "GET", "/workloads/shop/Deployment/cart"))
	for _, want := range []string{`<th scope="rowgroup" rowspan="4">app</th><td class="choice">balanced <span class="sub">selected</span></td>`, `<td class="choice">critical</td>`, "2 of 14", `<b class="bad">yes</b>`, `<path class="request"`} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not on the page", want)
		}
	}
	data := page.Charts[0].Data
	if n := len(data.Requests); n != 3 || data.Requests[0].At != data.Times[0] || data.Requests[0].Value != 0.75 || data.Requests[1].Value != 1 || data.Requests[2].Value != 1.246 || data.Requests[2].At > data.Times[len(data.Times)-1] {
		t.Errorf("%s: requests %+v", page.Charts[0].Title, data.Requests)
	}
}

// The file has no scripts, and its policy allows exactly its own style.
func TestSave_eachPage_isOneFileWithHashOfItsStyle(t *testing.T) {
	h := handler(webtest.Small())
	for _, page := range pages {
		separator := "?"
		if strings.Contains(page, "?") {
			separator = "&"
		}
		r := get(h, "GET", page+separator+"save=1")
		text := body(t, r)
		if !strings.HasPrefix(r.Header.Get("Content-Disposition"), `attachment; filename="podfit-`) {
			t.Errorf("%s: Content-Disposition is %q", page, r.Header.Get("Content-Disposition"))
		}
		if strings.Contains(text, "<script") || strings.Contains(text, "<link") || strings.Contains(text, "href=") || strings.Contains(text, "src=") {
			t.Errorf("%s: the file loads or links something", page)
		}
		_, rest, _ := strings.Cut(text, "<style>")
		style, _, found := strings.Cut(rest, "</style>")
		sum := sha256.Sum256([]byte(style))
		if want := "style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !found || !strings.Contains(strings.ReplaceAll(strings.ReplaceAll(text, "&#39;", "'"), "&#43;", "+"), want) {
			t.Errorf("%s: the policy does not contain %s", page, want)
		}
	}
}

func TestJSON_eachPage_isValid(t *testing.T) {
	h := handler(webtest.Small())
	for _, page := range pages {
		separator := "?"
		if strings.Contains(page, "?") {
			separator = "&"
		}
		r := get(h, "GET", page+separator+"format=json")
		if !json.Valid([]byte(body(t, r))) || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
			t.Errorf("%s: no valid JSON", page)
		}
	}
}

// A list without elements is [] and not null, so that programs need no second case.
func TestJSON_nothingIsKnown_listsAreEmptyAndNotNull(t *testing.T) {
	empty, bare := webtest.Small(), webtest.Bare()
	empty.Load()
	for _, c := range []struct {
		source *webtest.Source
		paths  []string
	}{
		{empty, []string{"/", "/workloads", "/nodes", "/activity", "/profiles", "/about"}},
		{bare, []string{"/workloads/shop/Deployment/bare"}},
	} {
		for _, path := range c.paths {
			r := get(handler(c.source), "GET", path+"?format=json")
			if text := body(t, r); r.StatusCode != http.StatusOK || strings.Contains(text, "null") {
				t.Errorf("%s: status %d: %s", path, r.StatusCode, text)
			}
		}
	}
}

// SizingProfiles have the same parameters on the page as built-in profiles. Those of an invalid one are not known.
func TestProfiles_ofTheCluster_haveTheirParameters(t *testing.T) {
	type profile struct {
		Name, About          string
		Invalid              bool
		MemoryBudgetPercent  float64
		MinimumCPUMillicores int
		MinimumMemoryMiB     int
		Workloads            int
	}
	var page struct{ SizingProfiles []profile }
	if err := json.Unmarshal([]byte(body(t, get(handler(webtest.Small()), "GET", "/profiles?format=json"))), &page); err != nil {
		t.Fatal(err)
	}
	want := []profile{
		{Name: "night-batch", About: "Batch jobs that run at night", MemoryBudgetPercent: 5, MinimumCPUMillicores: 10, MinimumMemoryMiB: 64},
		{Name: "misspelled", Invalid: true},
	}
	if !slices.Equal(page.SizingProfiles, want) {
		t.Errorf("SizingProfiles %+v, want %+v", page.SizingProfiles, want)
	}
	text := body(t, get(handler(webtest.Small()), "GET", "/profiles"))
	for _, part := range []string{"Batch jobs that run at night", "5 %", "64 Mi", "kubectl describe sizingprofile misspelled"} {
		if !strings.Contains(text, part) {
			t.Errorf("the page does not contain %q", part)
		}
	}
}

// While the cluster is still read, podfit does not claim that a workload does not exist.
func TestWorkload_clusterIsStillRead_isUnavailableAndNotMissing(t *testing.T) {
	for name, c := range map[string]struct {
		loading []string
		want    int
	}{"replicasets are not listed": {[]string{"replicasets"}, 503}, "nothing is computed": {nil, 503}} {
		source := webtest.Small()
		source.Load(c.loading...)
		if r := get(handler(source), "GET", "/workloads/shop/Deployment/cart"); r.StatusCode != c.want || !strings.Contains(body(t, r), "still reading the cluster") {
			t.Errorf("%s: status %d, want %d", name, r.StatusCode, c.want)
		}
	}
	if r := get(handler(webtest.Small()), "GET", "/workloads/shop/Deployment/nothing"); r.StatusCode != http.StatusNotFound {
		t.Errorf("a missing workload has status %d", r.StatusCode)
	}
}

// wire returns the size of a response as it is sent with compression.
func wire(t *testing.T, h http.Handler, path string) (size int, text string) {
	t.Helper()
	r := get(h, "GET", path, func(r *http.Request) { r.Header.Set("Accept-Encoding", "gzip") })
	defer r.Body.Close()
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return len(raw), string(raw)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return len(raw), string(plain)
}

func TestBudget_tenThousandWorkloads_pagesAndFirstViewAreSmall(t *testing.T) {
	for _, c := range []struct {
		h     http.Handler
		paths []string
	}{
		{handler(webtest.Large(10_000)), []string{"/", "/workloads", "/workloads?page=100", "/workloads?sort=memory&risk=any", "/nodes", "/activity"}},
		{handler(webtest.Small()), []string{"/workloads/shop/Deployment/cart"}},
	} {
		for _, path := range c.paths {
			size, text := wire(t, c.h, path)
			if size > 60<<10 {
				t.Errorf("%s: %d bytes compressed, at most 60 KiB are allowed", path, size)
			}
			view := size
			for _, m := range regexp.MustCompile(`(?:href|src)="([^"]*assets/[^"]*)"`).FindAllStringSubmatch(text, -1) {
				asset, _ := wire(t, c.h, "/assets/"+m[1][strings.LastIndexByte(m[1], '/')+1:])
				view += asset
			}
			if view > 100<<10 {
				t.Errorf("%s: the first view has %d bytes compressed, at most 100 KiB are allowed", path, view)
			}
			t.Logf("%s: %d bytes, first view %d bytes", path, size, view)
		}
	}
}

func TestWorkloads_tenThousandRows_pagesAreBoundedAndComplete(t *testing.T) {
	h := handler(webtest.Large(10_000))
	seen := map[string]bool{}
	for _, page := range []string{"1", "2", "100", "101", "-3", "x", "999999999999999999999"} {
		var got struct {
			Total, Page, Pages int
			Workloads          []struct{ Namespace, Name string }
		}
		if err := json.Unmarshal([]byte(body(t, get(h, "GET", "/workloads?format=json&page="+page))), &got); err != nil {
			t.Fatal(err)
		}
		if got.Total != 10_000 || got.Pages != 100 || len(got.Workloads) != 100 {
			t.Errorf("page %s: %d rows of %d on %d pages", page, len(got.Workloads), got.Total, got.Pages)
		}
		for _, w := range got.Workloads {
			seen[w.Namespace+"/"+w.Name] = true
		}
	}
	if len(seen) != 300 { // pages 1, 2 and 100; the others are the first or the last
		t.Errorf("%d different workloads on three pages, want 300", len(seen))
	}
}

func TestState_outOfDate_pageShowsAgeAndProblems(t *testing.T) {
	source := webtest.Small()
	source.Report(webtest.Now.Add(-17*time.Minute), "The watch of pods is out of date.")
	for _, page := range pages {
		text := body(t, get(handler(source), "GET", page))
		if !strings.Contains(text, "data 17 min old") || !strings.Contains(text, "The watch of pods is out of date.") {
			t.Errorf("%s does not show the age of the data", page)
		}
	}
}

// What a viewer may not read is not known, and no good news: neither that no workload is at risk, nor that nothing was done.
func TestOverview_partsAreNotKnown_nothingGoodIsSaid(t *testing.T) {
	key := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}
	vpa := &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "web"}, Target: key, Created: webtest.Now.AddDate(0, -1, 0), Advice: []cluster.Advice{{
		Container: "app", Estimate: cluster.Estimate{Target: cluster.Amounts(100, 100<<20)},
	}}}
	pods := []*cluster.Pod{{Key: cluster.Key{Namespace: "shop", Name: "web-1"}, Top: key, Phase: cluster.Running, Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(400, 400<<20)}}}}
	evidence := map[usage.Ref]*review.Evidence{{Workload: key, Container: "app"}: {From: webtest.Now.AddDate(0, 0, -10), To: webtest.Now, Hours: 240, Samples: 14400}}
	sample := []usage.Sample{{Pod: pods[0].Key, Container: "app", At: webtest.Now, CPU: 0.1, Memory: 1e8, Has: cluster.Both}}
	const risk, freed, did = "No workload of 1 is at risk", "Could be given back: 0.3", "0 resized in place"
	const noRisk, noFreed = "Whether workloads are at risk is not known yet", "Could be given back: not known yet"
	for name, tt := range map[string]struct {
		world overview.World
		state web.State
		want  []string
		not   []string
	}{
		"all is known":  {overview.World{Evidence: evidence, Samples: sample}, web.State{}, []string{risk, freed, did, "Nothing was done.", `id="yaml"`}, nil},
		"usage history": {overview.World{Samples: sample, Unread: review.UnreadUsage}, web.State{}, []string{noRisk, noFreed, review.UnreadUsage}, []string{`id="yaml"`, "need no change", "nothing to change"}},
		"still reading": {overview.World{Samples: sample}, web.State{}, []string{noRisk, noFreed, "its stored usage is not known yet"}, []string{`id="yaml"`, "need no change", "nothing to change"}},
		"pods": {
			overview.World{Evidence: evidence, NoPods: "podfit may not list its pods"}, web.State{NoPods: true},
			[]string{noRisk, noFreed, "podfit may not list its pods"}, []string{`id="yaml"`, "No request is above", "need no change", "nothing to change", "No risk is known"},
		},
		"the cluster":   {overview.World{}, web.State{Loading: []string{"verticalpodautoscalers"}}, []string{noRisk, noFreed}, []string{"There are no VerticalPodAutoscaler objects", "No request is above"}},
		"current usage": {overview.World{Evidence: evidence}, web.State{}, []string{"No risk is known of 1 workload, but their current usage is not known", freed}, []string{"No running container"}},
		"events":        {overview.World{Evidence: evidence, Samples: sample}, web.State{NoActivity: true}, []string{risk, "Last 24 hours: not known", "What podfit did is not known."}, []string{did, "Nothing was done"}},
	} {
		tt.world.Now = webtest.Now
		tt.world.Snapshot = cluster.NewSnapshot(pods, []*cluster.Autoscaler{vpa})
		if tt.state.NoPods {
			tt.world.Snapshot = cluster.NewSnapshot(nil, []*cluster.Autoscaler{vpa})
		}
		if len(tt.state.Loading) > 0 {
			tt.world.Snapshot = cluster.NewSnapshot(nil, nil)
		}
		tt.state.Overview = overview.Of(&tt.world)
		source := webtest.Small()
		source.Show(tt.state)
		text := ""
		for _, page := range []string{"/", "/activity", "/workloads/shop/Deployment/web"} {
			text += html.UnescapeString(body(t, get(handler(source), "GET", page)))
		}
		if name != "all is known" && name != "events" {
			tt.not = append(tt.not, risk)
		}
		for _, part := range tt.want {
			if !strings.Contains(text, part) {
				t.Errorf("%s: no %q", name, part)
			}
		}
		for _, part := range tt.not {
			if strings.Contains(text, part) {
				t.Errorf("%s: the pages say %q", name, part)
			}
		}
	}
}

// A CronJob between two runs lacks nothing that a risk needs, but says nothing about the workloads that are too young.
func TestOverview_onlyWorkloadWithoutPodsIsNotYoung_savingsAreNotKnown(t *testing.T) {
	target := func(name string) cluster.Workload {
		return cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: name}
	}
	var vpas []*cluster.Autoscaler
	for _, name := range []string{"young", "report"} {
		vpas = append(vpas, &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: name}, Target: target(name), Advice: []cluster.Advice{{
			Container: "app", Estimate: cluster.Estimate{Target: cluster.Amounts(100, 100<<20)},
		}}})
	}
	pod := &cluster.Pod{
		Key: cluster.Key{Namespace: "shop", Name: "young-1"}, Top: target("young"), Phase: cluster.Running,
		Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(400, 400<<20)}},
	}
	source := webtest.Small()
	source.Show(web.State{Overview: overview.Of(&overview.World{Now: webtest.Now, Snapshot: cluster.NewSnapshot([]*cluster.Pod{pod}, vpas)})})
	if text := body(t, get(handler(source), "GET", "/")); !strings.Contains(text, "Could be given back: not known yet") || strings.Contains(text, "recommended</dt>") {
		t.Error("the overview says what could be given back, or sums up recommendations")
	}
}

func TestWorkload_historyFails_restOfPageIsShown(t *testing.T) {
	source := webtest.Small()
	source.FailHistory(errors.New("usagehistories is forbidden"))
	text := body(t, get(handler(source), "GET", "/workloads/shop/Deployment/cart"))
	if !strings.Contains(text, "usagehistories is forbidden") || !strings.Contains(text, "1.25 Gi") {
		t.Error("the page does not show the failure and the requests")
	}
}

var _ web.Source = (*webtest.Source)(nil)

var _ = overview.ByRisk

// upperKey matches a key of an object in JSON that begins with a capital letter, as encoding/json writes it for a field without a name.
var upperKey = regexp.MustCompile(`(?m)^\s*"([A-Z][A-Za-z]*)":`)

func TestPages_json_keysBeginInLowerCase(t *testing.T) {
	h := handler(webtest.Small())
	for _, page := range pages {
		separator := "?"
		if strings.Contains(page, "?") {
			separator = "&"
		}
		if keys := upperKey.FindAllString(body(t, get(h, "GET", page+separator+"format=json")), -1); keys != nil {
			t.Errorf("%s has the keys %q", page, keys)
		}
	}
}
