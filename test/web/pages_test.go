// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/web"
	document "podfit.dev/podfit/internal/look/page"
	"podfit.dev/podfit/test/webtest"
)

// pages are all pages of the small fixture, by the name of their picture.
var pages = []struct{ name, path string }{
	{"overview", "/"}, {"workloads", "/workloads"}, {"workload", "/workloads/shop/Deployment/cart"}, {"histogram", "/workloads/search/StatefulSet/indexer"},
	{"explanation", "/workloads/shop/Deployment/cart?explain=1"}, {"nodes", "/nodes"}, {"activity", "/activity"}, {"profiles", "/profiles"}, {"about", "/about"}, {"missing", "/workloads/a/b/c"},
}

func small() web.Config {
	return web.Config{Cluster: "prod-eu", Version: "v1", Source: webtest.Small(), Explain: explained{}}
}

// explained is an explainer with a fixed explanation.
type explained struct{}

func (explained) Explain(context.Context, cluster.Workload, bool) (web.Explanation, error) {
	step := func(class, what, pods, why string, gates ...string) document.Section {
		return document.Section{Class: class, Lead: what, About: pods, Text: []string{why}, Summary: "All gates", Details: gates}
	}
	why := func(title string, rows ...[3]string) document.Section {
		t := &document.Table{Class: "text", Columns: []document.Column{{Right: true}, {}, {}}}
		for _, cells := range rows {
			t.Rows = append(t.Rows, document.Row{Cells: cells[:]})
		}
		return document.Section{Title: title, About: "app ▁▂▁▃▂█", Table: t}
	}
	return web.Explanation{
		Text: "NOW     Resize of cart-7d9f-b01 Deferred since 03:09: node has 180Mi free.\n\nWHY 1276Mi of memory (was 1Gi)\n   1000Mi    highest day of 7\n",
		Tags: []string{"no room on node n7"},
		Sections: []document.Section{
			{Title: "Now", List: []string{"app was OOM-killed 3 times between 02:51 and 02:58 at 1Gi. 4 of 6 pods have the new size."}},
			{Title: "Next", Parts: []document.Section{
				step("act", "resize in place by 03:13", "cart-7d9f-m4t", "The memory request 1Gi is below the lower bound; the target is 1276Mi.", "✓ need for a change", "✓ minimum of replicas"),
				step("wait", "waits until 03:14", "cart-7d9f-q8z", "Node n7 has 180Mi free, 252Mi are needed.", "✓ need for a change", "✗ state of the pod and its node: a resize waits"),
			}},
			{Title: "You", Parts: []document.Section{
				{Text: []string{"To give n7 room now:"}, Command: "kubectl -n shop delete pod cart-7d9f-q8z"},
				{Text: []string{"To stop podfit here:"}, Command: `kubectl -n shop patch vpa cart --type merge -p '{"spec":{"updatePolicy":{"updateMode":"Off"}}}'`},
			}},
			why("Why memory is 1276Mi", [3]string{"1000Mi", "highest day of 7", "Fri 21 Nov, 19 to 20 h"}, [3]string{"× 1.28", "margin learnt for 2 days above in 100", ""}),
			why("Why CPU stays 500m", [3]string{"633m", "would be the target", "HPA cart scales by CPU"}),
			{Title: "What if", Table: &document.Table{Class: "text", Columns: make([]document.Column, 2), Rows: []document.Row{{Cells: []string{"profile cost", "1180Mi"}}, {Cells: []string{"maxAllowed 1Gi", "1Gi: OOM-killed again"}}}}},
		},
	}, nil
}

// settled waits until the scripts of a page have run.
const settled = `new Promise((done) => { const wait = () => document.readyState === "complete" ? setTimeout(done, 100) : setTimeout(wait, 20); wait(); })`

// Each page in light and dark, narrow and wide: no error on the console, no violation of the security policy, no request to another
// address, no horizontal scrolling of the page, and no serious finding of axe-core.
func TestPages_lightAndDark_narrowAndWide_areClean(t *testing.T) {
	address := serve(t, small())
	for _, dark := range []bool{false, true} {
		for _, width := range []int64{360, 1280, 2560} {
			scheme := map[bool]string{false: "light", true: "dark"}[dark]
			t.Run(fmt.Sprintf("%s_%d", scheme, width), func(t *testing.T) {
				p := open(t, dark, width)
				checker := axe(t)
				for _, page := range pages {
					p.do(t, chromedp.Navigate(address+page.path))
					evaluate[any](t, p, settled)
					if page.name == "missing" {
						p.forgive("404")
					}
					picture(t, p, fmt.Sprintf("%s-%s-%d", page.name, scheme, width))
					if wide := evaluate[int64](t, p, "document.documentElement.scrollWidth"); wide > width {
						t.Errorf("%s is %d pixels wide in a window of %d", page.name, wide, width)
					}
					if used := evaluate[float64](t, p, "document.querySelector('main').getBoundingClientRect().width"); width == 2560 && used < 1800 {
						t.Errorf("%s uses %v pixels of %d", page.name, used, width)
					}
					if page.name == "workload" && evaluate[int](t, p, "document.querySelectorAll('.uplot canvas').length") != 4 {
						t.Error("the workload does not have four charts")
					}
					if page.name == "workload" {
						tops := evaluate[[]float64](t, p, "[...document.querySelectorAll('.charts > section')].map((e) => e.getBoundingClientRect().top)")
						if sideBySide := tops[0] == tops[1] && tops[2] == tops[3]; sideBySide != (width >= 1280) {
							t.Errorf("the charts of memory and CPU of a container are side by side: %v; their tops are %v", sideBySide, tops)
						}
					}
					p.do(t, chromedp.Evaluate(checker, nil))
					for _, finding := range evaluate[[]string](t, p, findings) {
						t.Errorf("%s: %s", page.name, finding)
					}
				}
			})
		}
	}
}

const findings = `axe.run(document, { resultTypes: ["violations"] }).then((r) => r.violations.filter((v) => v.impact === "serious" || v.impact === "critical")
	.map((v) => v.id + ": " + v.help + ": " + v.nodes.slice(0, 3).map((n) => n.target + " " + (n.any[0] ? n.any[0].message : "")).join("; ")))`

// forgive removes problems that contain a text.
func (p *tab) forgive(text string) {
	time.Sleep(100 * time.Millisecond) // the browser reports problems asynchronously
	p.mu.Lock()
	defer p.mu.Unlock()
	var rest []string
	for _, problem := range p.problems {
		if !strings.Contains(problem, text) {
			rest = append(rest, problem)
		}
	}
	p.problems = rest
}

// The chart tells the value of the hour under the pointer.
func TestChart_pointerOverHour_valueIsShown(t *testing.T) {
	p := open(t, false, 1280)
	p.do(t, chromedp.Navigate(serve(t, small())+"/workloads/shop/Deployment/cart"))
	evaluate[any](t, p, settled)
	box := evaluate[[]float64](t, p, "(() => { document.querySelector('.u-over').scrollIntoView({ block: 'center' }); const b = document.querySelector('.u-over').getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; })()")
	p.do(t, chromedp.MouseEvent(input.MouseMoved, box[0], box[1]), chromedp.Sleep(200*time.Millisecond))
	if got := evaluate[string](t, p, "document.querySelector('.read').textContent"); !strings.Contains(got, "15 Nov") || !strings.Contains(got, "UTC: peak 0.") || !strings.HasSuffix(got, " GiB, request 0.750 GiB") {
		t.Errorf("the chart shows %q", got)
	}
}

// A cluster of 10,000 workloads is shown in pages of 100 rows. The next page, a filter and a sort order are addresses that can be shared.
func TestWorkloads_tenThousandRows_arePaged(t *testing.T) {
	address := serve(t, web.Config{Source: webtest.Large(10_000)})
	p := open(t, false, 1280)
	p.do(t, chromedp.Navigate(address+"/workloads"))
	evaluate[any](t, p, settled)
	const rows = "document.querySelectorAll('tbody tr').length"
	first := evaluate[string](t, p, "document.querySelector('tbody th').textContent")
	if got := evaluate[int](t, p, rows); got != 100 {
		t.Errorf("the first page has %d rows, want 100", got)
	}
	if got := evaluate[string](t, p, "document.querySelector('h1').textContent"); got != "Workloads 10,000, page 1 of 100" {
		t.Errorf("the title is %q", got)
	}
	p.follow(t, chromedp.Click("a[rel=next]", chromedp.NodeVisible))
	evaluate[any](t, p, settled)
	if got := evaluate[string](t, p, "location.search"); got != "?page=2" || evaluate[string](t, p, "document.querySelector('tbody th').textContent") == first {
		t.Errorf("the second page has the address %q", got)
	}
	p.do(t, chromedp.SetValue("select[name=namespace]", "team-007"), chromedp.SetValue("select[name=sort]", "memory"))
	p.follow(t, chromedp.Click("form button"))
	evaluate[any](t, p, settled)
	if got := evaluate[string](t, p, "location.search"); got != "?namespace=team-007&sort=memory" || evaluate[int](t, p, rows) != 50 {
		t.Errorf("the filter has the address %q and %d rows, want 50", got, evaluate[int](t, p, rows))
	}
}

// What a screen reader gets: landmarks, one heading of the first level, names for charts, tables, buttons and links, and the values of charts as
// tables.
func TestPages_screenReader_everythingHasAName(t *testing.T) {
	address := serve(t, small())
	p := open(t, false, 1280)
	for _, page := range pages {
		p.do(t, chromedp.Navigate(address+page.path))
		evaluate[any](t, p, settled)
		if page.name == "missing" {
			p.forgive("404")
		}
		nodes := tree(t, p)
		count := map[string]int{}
		for _, n := range nodes {
			count[n.role]++
			switch n.role {
			case "link", "button", "image", "img", "heading", "columnheader", "combobox", "searchbox", "figure":
				if n.name == "" && n.role != "figure" {
					t.Errorf("%s: a %s has no name", page.name, n.role)
				}
			}
		}
		for role, least := range map[string]int{"main": 1, "banner": 1, "navigation": 1, "contentinfo": 1} {
			if count[role] < least {
				t.Errorf("%s has %d of role %s", page.name, count[role], role)
			}
		}
		if got := evaluate[int](t, p, "document.querySelectorAll('h1').length"); got != 1 {
			t.Errorf("%s has %d headings of the first level", page.name, got)
		}
		if page.name == "workload" && (count["image"]+count["img"] < 4 || evaluate[int](t, p, "document.querySelectorAll('details table').length") < 4) {
			t.Errorf("the charts have %d images and no tables with their values", count["image"]+count["img"])
		}
	}
}

// What tenants write must not run, neither in pages nor in charts.
func TestPages_hostileTexts_doNotRun(t *testing.T) {
	source := webtest.Attack()
	address := serve(t, web.Config{Cluster: webtest.Hostile, Version: webtest.Hostile, Source: source})
	p := open(t, false, 1280)
	for _, path := range []string{"/", "/workloads", "/nodes", "/activity", "/profiles", "/about"} {
		p.do(t, chromedp.Navigate(address+path))
		evaluate[any](t, p, settled)
		if evaluate[bool](t, p, "window.hacked === 1 || document.querySelector('main img, main script') !== null") {
			t.Errorf("%s ran a hostile text", path)
		}
	}
	p.do(t, chromedp.Navigate(address+"/workloads"))
	p.follow(t, chromedp.Click("tbody a", chromedp.NodeVisible))
	evaluate[any](t, p, settled)
	if !evaluate[bool](t, p, "document.querySelector('h1').textContent.includes('<script>') && document.querySelectorAll('.uplot').length === 2") {
		t.Error("the page of the hostile workload is not shown")
	}
	if evaluate[bool](t, p, "window.hacked === 1") {
		t.Error("the page of the workload ran a hostile text")
	}
}

// All that can be done with a pointer can be done with the keyboard, and the focus is visible.
func TestPages_keyboardOnly_everythingCanBeReached(t *testing.T) {
	address := serve(t, small())
	p := open(t, false, 1280)
	p.do(t, chromedp.Navigate(address+"/workloads"))
	evaluate[any](t, p, settled)
	p.do(t, chromedp.KeyEvent(kb.Tab))
	if got := evaluate[string](t, p, "document.activeElement.className"); got != "skip" {
		t.Errorf("the first element is %q, want the link to the content", got)
	}
	p.do(t, chromedp.KeyEvent(kb.Enter))
	if got := evaluate[string](t, p, "document.activeElement.id"); got != "content" {
		t.Errorf("the link to the content leads to %q", got)
	}
	reached := map[string]bool{}
	for range 60 {
		p.do(t, chromedp.KeyEvent(kb.Tab))
		reached[evaluate[string](t, p, "(document.activeElement.name || document.activeElement.textContent).trim()")] = true
		if evaluate[bool](t, p, "document.activeElement !== document.body && getComputedStyle(document.activeElement).outlineStyle === 'none'") {
			t.Errorf("the focus on %q is not visible", evaluate[string](t, p, "document.activeElement.outerHTML.slice(0, 80)"))
		}
	}
	for _, name := range []string{"q", "namespace", "risk", "vpa", "sort", "Show", "cart", "ledger", "Save as file", "JSON"} {
		if !reached[name] {
			t.Errorf("%s was not reached with the tab key", name)
		}
	}
	p.do(t, chromedp.Focus("input[name=q]"), chromedp.KeyEvent("ledger"))
	p.follow(t, chromedp.KeyEvent(kb.Enter))
	evaluate[any](t, p, settled)
	if got := evaluate[int](t, p, "document.querySelectorAll('tbody tr').length"); got != 1 {
		t.Errorf("a search shows %d rows, want 1", got)
	}
	if got := evaluate[string](t, p, "location.search"); got != "?q=ledger" {
		t.Errorf("the address of a search has the parameters %q", got)
	}
}

// The buttons copy the commands and the patch as they are shown.
func TestWorkload_copyButtons_copyWhatIsShown(t *testing.T) {
	p := open(t, false, 1280)
	p.do(t, chromedp.Navigate(serve(t, small())+"/workloads/shop/Deployment/cart"))
	evaluate[any](t, p, settled)
	evaluate[bool](t, p, "(() => { window.copied = []; navigator.clipboard.writeText = (text) => { window.copied.push(text); return Promise.resolve(); }; return true; })()")
	n := evaluate[int](t, p, "(() => { const all = [...document.querySelectorAll('button[data-copy]')].filter((b) => b.checkVisibility()); all.forEach((b) => b.click()); return all.length; })()")
	const shown = "[...document.querySelectorAll('button[data-copy]')].map((b) => document.getElementById(b.dataset.copy).textContent)"
	copied, want := evaluate[[]string](t, p, "window.copied"), evaluate[[]string](t, p, shown)
	if n < 2 || !slices.Equal(copied, want) || !strings.Contains(strings.Join(copied, "\n"), "kubectl ") || !strings.Contains(strings.Join(copied, "\n"), "requests:") {
		t.Errorf("%d buttons copied %q, want %q", n, copied, want)
	}
}

// On each page, the tab key reaches every element that does something, among them the copy buttons, the tables that scroll and the charts, and each
// shows that it has the focus.
func TestPages_tabKey_reachesEachControlOfEachPage(t *testing.T) {
	address := serve(t, small())
	p := open(t, false, 1280)
	for _, page := range pages {
		p.do(t, chromedp.Navigate(address+page.path))
		evaluate[any](t, p, settled)
		if page.name == "missing" {
			p.forgive("404")
		}
		const controls = `[...document.querySelectorAll("a[href], button, input, select, summary, [tabindex='0']")].filter((e) => e.checkVisibility())`
		n := evaluate[int](t, p, controls+".length")
		for range n + 2 {
			p.do(t, chromedp.KeyEvent(kb.Tab))
			if evaluate[bool](t, p, "(() => { const e = document.activeElement; e.dataset.reached = 1; return e !== document.body && getComputedStyle(e).outlineStyle === 'none'; })()") {
				t.Errorf("%s: the focus on %q is not visible", page.name, evaluate[string](t, p, "document.activeElement.outerHTML.slice(0, 80)"))
			}
		}
		for _, missed := range evaluate[[]string](t, p, controls+".filter((e) => !e.dataset.reached).map((e) => e.outerHTML.slice(0, 80))") {
			t.Errorf("%s: the tab key does not reach %s", page.name, missed)
		}
		if n < 8 {
			t.Errorf("%s has only %d controls", page.name, n)
		}
	}
}

// If podfit does not answer, the page stays, and says how old its data are.
func TestPage_serverStops_ageIsShown(t *testing.T) {
	source := webtest.Small()
	address := serve(t, web.Config{Source: source, Version: "v1"})
	p := open(t, false, 1280)
	p.do(t, chromedp.Navigate(address+"/"))
	evaluate[any](t, p, settled)
	source.Report(webtest.Now.Add(-20*time.Minute), "The watch of pods is out of date.")
	p.do(t, chromedp.Navigate(address+"/"))
	evaluate[any](t, p, settled)
	if text := evaluate[string](t, p, "document.body.innerText"); !strings.Contains(text, "data 20 min old") || !strings.Contains(text, "The watch of pods is out of date.") || !strings.Contains(text, "At risk") {
		t.Errorf("the page is %q", text)
	}
	if !evaluate[bool](t, p, "document.getElementById('status').classList.contains('stale')") {
		t.Error("the age is not marked")
	}
}

// A saved page shows its content without scripts, and loads nothing.
func TestSavedPage_openedFromDisk_showsChart(t *testing.T) {
	address := serve(t, small())
	p := open(t, true, 1280)
	p.do(t, chromedp.Navigate(address+"/"))
	html := evaluate[string](t, p, "fetch('workloads/shop/Deployment/cart?save=1').then((r) => r.text())")
	file := filepath.Join(t.TempDir(), "cart.html")
	if err := os.WriteFile(file, []byte(html), 0o600); err != nil {
		t.Fatal(err)
	}
	p.do(t, chromedp.Navigate("file://"+file))
	evaluate[any](t, p, settled)
	p.forgive("request to file://")
	picture(t, p, "saved-dark-1280")
	if got := evaluate[string](t, p, "getComputedStyle(document.body).backgroundColor"); got != "rgb(15, 20, 26)" {
		t.Errorf("the background is %s: the style does not apply", got)
	}
	if got := evaluate[int](t, p, "document.querySelectorAll('svg.chart polyline').length"); got < 4 {
		t.Errorf("the file has %d lines in its charts", got)
	}
}

// A printed page has its charts as images of lines, which are sharp and as wide as the paper, and no controls. Nothing is wider than the paper.
func TestPage_printed_hasWholeChartsAndNoControls(t *testing.T) {
	const paper = 718 // width of A4 between margins of 1 cm, in CSS pixels
	address := serve(t, small())
	p := open(t, false, 1280)
	p.do(t, chromedp.Navigate(address+"/workloads/shop/Deployment/cart"))
	evaluate[any](t, p, settled)
	const shown = "[...document.querySelectorAll('%s')].filter((e) => e.checkVisibility()).length"
	lines, drawn := fmt.Sprintf(shown, "figure svg.chart"), fmt.Sprintf(shown, ".uplot canvas")
	before := evaluate[int](t, p, drawn)
	if before == 0 {
		t.Fatal("no chart is drawn on the screen")
	}
	hidden := evaluate[int](t, p, lines)
	p.do(t, emulation.SetEmulatedMedia().WithMedia("print"), chromedp.EmulateViewport(paper, 1000))
	evaluate[any](t, p, settled)
	if got := evaluate[int](t, p, lines) - hidden; got != before || evaluate[int](t, p, drawn) != 0 {
		t.Errorf("%d of %d charts are printed as lines", got, before)
	}
	if got := evaluate[int](t, p, fmt.Sprintf(shown, "button, header nav, input, select")); got != 0 {
		t.Errorf("%d controls are printed", got)
	}
	if got := evaluate[string](t, p, "[...document.querySelectorAll('main *')].filter((e) => e.checkVisibility() && e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.tagName + ' ' + e.className).join(', ')"); got != "" {
		t.Errorf("wider than the paper: %s", got)
	}
	var pdf []byte
	p.do(t, chromedp.ActionFunc(func(ctx context.Context) (err error) {
		pdf, _, err = page.PrintToPDF().WithPaperWidth(8.27).WithPaperHeight(11.69).Do(ctx)
		return err
	}))
	if len(pdf) < 10_000 {
		t.Errorf("the document has %d bytes", len(pdf))
	}
}
