// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/capacity"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/overview"
	"podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/web"
	"podfit.dev/podfit/test/webtest"
)

// contains fails the test unless a text contains all parts, in this order.
func contains(t *testing.T, name, text string, parts ...string) {
	t.Helper()
	rest := text
	for _, part := range parts {
		_, after, found := strings.Cut(rest, part)
		if !found {
			t.Errorf("%s: %q is missing or too early in\n%s", name, part, text)
			return
		}
		rest = after
	}
}

// The overview has the four amounts of each resource, then risks, then what could be given back, what podfit did, and podfit's own health.
func TestOverview_smallCluster_hasAmountsThenRisksThenTheRest(t *testing.T) {
	text := body(t, get(handler(webtest.Small()), "GET", "/"))
	contains(t, "overview", text, "CPU, cores", "Memory, GiB", "At risk: 4 of 10 workloads", ">cart</a>", "Could be given back:", ">feature-store</a>",
		"Last 24 hours: 3 resized in place, 1 evicted", "podfit itself", "recommender", "updater", "webhook")
	var page struct {
		Totals []struct {
			Unit                                   string
			Used, Recommended, Requested, Capacity float64
		}
	}
	decode(t, get(handler(webtest.Small()), "GET", "/?format=json"), &page)
	for _, x := range page.Totals {
		if x.Used <= 0 || x.Recommended <= x.Used || x.Requested <= x.Recommended || x.Capacity <= x.Requested {
			t.Errorf("amounts %+v", x)
		}
	}
	if len(page.Totals) != 2 {
		t.Errorf("%d resources, want 2", len(page.Totals))
	}
}

// The list of workloads also has those without a VPA.
func TestWorkloads_withoutVPA_areListed(t *testing.T) {
	h := handler(webtest.Small())
	contains(t, "without VPA", body(t, get(h, "GET", "/workloads?vpa=without&sort=name")), ">node-exporter</a>", "no VPA", ">playground</a>", "no VPA")
	if text := body(t, get(h, "GET", "/workloads?vpa=without")); strings.Contains(text, ">cart</a>") {
		t.Error("a workload with a VPA is listed")
	}
}

func TestWorkloads_ofANamespaceWithoutVPA_haveTheCommandThatCreatesThem(t *testing.T) {
	const command = "kubectl label namespace shop podfit.dev/autoscale=off"
	h := handler(webtest.Bare())
	for path, want := range map[string]int{"/workloads?namespace=shop": 1, "/workloads": 0, "/workloads/shop/Deployment/bare": 1} {
		if n := strings.Count(body(t, get(h, "GET", path)), command); n != want {
			t.Errorf("%s has the command %d times, want %d", path, n, want)
		}
	}
}

func TestNodes_capacityPlan_datesAndAdviceAreShown(t *testing.T) {
	source := webtest.Small()
	contains(t, "the plan", body(t, get(handler(source), "GET", "/nodes")), "Forecast of capacity", "CapacityPlan of 22 Nov, 03:14 UTC", "154 of 192 (80 %)",
		"70 % since 2026-11-18; 100 % on 2026-12-09 (2026-12-02 to 2026-12-20)", "2026-11-22: now", "order nodes now", "384Gi of 768Gi (50 %)", "70 % not within 90 days; 100 % not known")
	var page struct {
		CapacityPlan struct {
			Resources []struct{ Pool, Resource, Requested, Capacity, OrderBy, Advice string }
		}
	}
	decode(t, get(handler(source), "GET", "/nodes?format=json"), &page)
	if r := page.CapacityPlan.Resources; len(r) != 2 || r[0].Pool != "worker" || r[0].Resource != "CPU" || r[0].Requested != "154" || r[0].OrderBy != "2026-11-22" || r[0].Advice != "OrderNow" {
		t.Errorf("JSON has %+v", r)
	}
	source.SetPlan(nil, "podfit may not read it")
	contains(t, "no right", body(t, get(handler(source), "GET", "/nodes")), "Forecast of capacity", "podfit may not read it")
	source.SetPlan(new(v1alpha1.CapacityPlanStatus), "")
	contains(t, "new plan", body(t, get(handler(source), "GET", "/nodes")), "The recommender has not written the forecast yet.")
	source.SetPlan(nil, "")
	if text := body(t, get(handler(source), "GET", "/nodes")); strings.Contains(text, "Forecast of capacity") {
		t.Error("a cluster without a CapacityPlan has a forecast")
	}
}

// Dates that are not known are left out.
func TestNodes_partOfThePlanIsKnown_isShown(t *testing.T) {
	threshold := func(state, earliest, expected string) []v1alpha1.CapacityThreshold {
		return []v1alpha1.CapacityThreshold{{Percent: 100, State: state, Earliest: earliest, Expected: expected}}
	}
	for want, cpu := range map[string]v1alpha1.CapacityResource{
		"100 % on 2026-12-09 (from 2026-12-02)":               {Thresholds: threshold("Ahead", "2026-12-02", "2026-12-09")},
		"100 % from 2026-12-02":                               {Thresholds: threshold("Ahead", "2026-12-02", "")},
		"100 % not known":                                     {Thresholds: threshold("Unknown", "", "")},
		`<td class="nowrap">154 of 0</td>`:                    {Requested: resource.MustParse("154")},
		`<td class="mid">–</td><td class="mid nowrap">–</td>`: {},
	} {
		source := webtest.Small()
		source.SetPlan(&v1alpha1.CapacityPlanStatus{Pools: []v1alpha1.CapacityPoolStatus{{Name: "worker", CPU: cpu}}}, "")
		contains(t, want, body(t, get(handler(source), "GET", "/nodes")), want)
	}
}

func TestNodes_smallCluster_haveAmountsRoomAndResizes(t *testing.T) {
	var page struct {
		Pools []struct {
			Name, OnNode string
			Nodes        int
			Totals       []struct{ Used, Requested, Capacity float64 }
			Largest      struct{ CPU, Memory string } `json:"largestFreeNode"`
		}
		Resizes []struct{ Pod, Node, State, Message string }
	}
	decode(t, get(handler(webtest.Small()), "GET", "/nodes?format=json"), &page)
	nodes := 0
	for _, p := range page.Pools {
		nodes += p.Nodes
		if p.OnNode == "" || p.Largest.CPU == "" || p.Largest.Memory == "" || len(p.Totals) != 2 {
			t.Errorf("pool %+v", p)
		}
		for _, x := range p.Totals {
			if x.Used <= 0 || x.Requested <= x.Used || x.Capacity <= x.Requested {
				t.Errorf("pool %s: amounts %+v", p.Name, x)
			}
		}
	}
	if len(page.Pools) != 2 || nodes != 5 {
		t.Errorf("%d pools with %d nodes, want 2 with 5", len(page.Pools), nodes)
	}
	if len(page.Resizes) != 1 || page.Resizes[0].State != "Deferred" || page.Resizes[0].Node == "" || !strings.Contains(page.Resizes[0].Message, "enough resource: memory") {
		t.Errorf("resizes %+v", page.Resizes)
	}
	contains(t, "nodes", body(t, get(handler(webtest.Small()), "GET", "/nodes")), "general", "The largest pod that fits now:", "Resizes that have not ended: 1", "Deferred")
}

// Pods that are left for the same reason in one pass are one entry, and a reason selects its entries.
func TestActivity_reason_selectsItsEntries(t *testing.T) {
	h := handler(webtest.Small())
	for reason, want := range map[string]struct {
		total   int
		actions string
	}{"": {5, "resize leave evict leave"}, "SmallChange": {2, "leave"}, "BelowRange": {1, "evict"}, "Nothing": {0, ""}} {
		var page struct {
			Total   int
			Reasons []struct{ Reason string }
			Entries []struct{ Action, Reason, Text string }
		}
		decode(t, get(h, "GET", "/activity?format=json&reason="+reason), &page)
		var actions []string
		for _, e := range page.Entries {
			actions = append(actions, e.Action)
			if e.Text == "" || reason != "" && e.Reason != reason {
				t.Errorf("reason %q: entry %+v", reason, e)
			}
		}
		if page.Total != want.total || strings.Join(actions, " ") != want.actions || len(page.Reasons) != 4 {
			t.Errorf("reason %q: %+v, want %+v", reason, page, want)
		}
	}
	contains(t, "activity", body(t, get(h, "GET", "/activity")), "From the decisions of this process, since 20 Nov, 22:14 UTC")
}

// What podfit did stands on each page with the change and the reason.
func TestPages_activity_hasChangeAndReason(t *testing.T) {
	h := handler(webtest.Small())
	for _, path := range []string{"/", "/activity", "/workloads/shop/Deployment/cart"} {
		contains(t, path, html.UnescapeString(body(t, get(h, "GET", path))), "cart-7d9f-a00</a>", "esized in place 3 times, the last time", "app memory 1Gi → 1.2Gi", "The container app was OOM-killed 8 minutes after its start.")
	}
}

// A freeze of a namespace or of a VPA is on the overview and in the list, not only on the page of each workload.
func TestPages_podsWaitForTheEndOfAFreeze_saySo(t *testing.T) {
	s := webtest.Small()
	for _, path := range []string{"/", "/workloads", "/workloads/shop/Deployment/cart"} {
		if text := body(t, get(handler(s), "GET", path)); strings.Contains(text, "rozen") {
			t.Errorf("%s speaks of a freeze", path)
		}
	}
	for i := range s.State(t.Context()).Overview.Rows {
		row := s.State(t.Context()).Overview.Rows[i]
		row.Frozen = row.Workload.Name == "cart"
	}
	contains(t, "overview", body(t, get(handler(s), "GET", "/")), "<b>Frozen:</b> pods of 1 workload need a change, but a person has stopped their changes.")
	contains(t, "overview", body(t, get(handler(s), "GET", "/?format=json")), `"workloadsFrozen": 1`)
	for _, path := range []string{"/workloads", "/workloads/shop/Deployment/cart"} {
		contains(t, path, body(t, get(handler(s), "GET", path)), ", <b>frozen</b>")
	}
}

var (
	jargon   = regexp.MustCompile(`(?i)within the bounds|days above the memory|OOM-killed by these peaks`)
	numeric  = regexp.MustCompile(`<td class="n[^"]*">(.*?)</td>`)
	tag      = regexp.MustCompile(`<[^>]*>`)
	withUnit = regexp.MustCompile(`^(–( to –)?|none|keep|\d+ of \d+|\d[\d.]*( cores?|m| ?[KMGT]i)( to \d[\d.]*( cores?|m| ?[KMGT]i))?)$`)
)

// Tables have words that users use.
func TestPages_tables_haveWordsOfUsers(t *testing.T) {
	for _, path := range pages {
		if found := jargon.FindString(body(t, get(handler(webtest.Small()), "GET", path))); found != "" {
			t.Errorf("%s says %q", path, found)
		}
	}
}

// Every amount in the tables of a workload has its unit.
func TestWorkload_numbers_haveUnits(t *testing.T) {
	found := 0
	for _, path := range []string{"/workloads/shop/Deployment/cart", "/workloads/ml/Deployment/feature-store", "/workloads/kube-system/DaemonSet/node-exporter"} {
		for _, m := range numeric.FindAllStringSubmatch(body(t, get(handler(webtest.Small()), "GET", path)), -1) {
			found++
			if text := tag.ReplaceAllString(m[1], ""); !withUnit.MatchString(text) {
				t.Errorf("%s: %q has no unit", path, text)
			}
		}
	}
	if found < 40 {
		t.Errorf("%d numbers were found", found)
	}
}

// A resource of which no usage is stored has a sentence instead of a chart.
func TestWorkload_noUsageOfAResource_sentenceSaysWhy(t *testing.T) {
	source := webtest.Small()
	key := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "cart"}
	h, _ := source.History(t.Context(), &overview.Row{Workload: key})
	h.Containers[0].CPU, h.Containers[0].CPUBuckets = nil, nil
	const sentence = "No usage of it is stored yet, so there is no chart."
	text := body(t, get(handler(source), "GET", "/workloads/shop/Deployment/cart"))
	contains(t, "one chart is missing", text, "Memory of container app", "<svg", "CPU of container app", sentence, "Memory of container proxy", "<svg", "CPU of container proxy", "<svg")
	if n := strings.Count(text, sentence); n != 1 || strings.Count(text, `<svg viewBox`) != 3 {
		t.Errorf("%d sentences for one chart, and %d charts", n, strings.Count(text, `<svg viewBox`))
	}
	contains(t, "all are missing", body(t, get(handler(webtest.Bare()), "GET", "/workloads/shop/Deployment/bare")), "There is no stored usage of this workload.", "only of workloads with a VerticalPodAutoscaler")
}

// The chart of memory has the request, the target with its range, the limit, and marks for OOM kills and changes.
func TestWorkload_charts_haveLevelsKillsAndChanges(t *testing.T) {
	const path = "/workloads/shop/Deployment/cart"
	var page struct {
		Charts []struct {
			Title string
			Data  struct {
				Times                                []int64
				Peaks                                []*float64
				Request, Target, Lower, Upper, Limit float64
				Kills, Changes                       []int64
			}
		}
	}
	decode(t, get(handler(webtest.Small()), "GET", path+"?format=json"), &page)
	if len(page.Charts) != 4 {
		t.Fatalf("%d charts, want those of two resources of two containers", len(page.Charts))
	}
	d := page.Charts[0].Data
	if d.Lower <= 0 || d.Target <= d.Lower || d.Upper <= d.Target || d.Limit <= d.Upper || d.Request <= 0 || len(d.Kills) != 3 || len(d.Changes) != 1 || len(d.Times) != len(d.Peaks) || len(d.Times) < 14*24 {
		t.Errorf("%s: %d hours, %+v", page.Charts[0].Title, len(d.Times), d)
	}
	if cpu := page.Charts[1].Data; len(cpu.Kills) != 0 || len(cpu.Changes) != 1 {
		t.Errorf("%s has the marks %v and %v, want no OOM kills and one change", page.Charts[1].Title, cpu.Kills, cpu.Changes)
	}
	text := body(t, get(handler(webtest.Small()), "GET", path))
	contains(t, "workload", text, "target, with its range", "limit", "OOM kill", "change by podfit")
}

func TestWorkload_podsHaveSizesByRole_tableHasThem(t *testing.T) {
	key := cluster.Workload{Group: "apps", Kind: "StatefulSet", Namespace: "shop", Name: "db"}
	vpa := &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "db"}, Target: key, Mode: cluster.InPlace, Advice: []cluster.Advice{{
		Container: "app", Estimate: cluster.Estimate{Target: cluster.Amounts(900, 1<<30)},
		Groups: []cluster.GroupSize{{Role: "<b>", Target: cluster.Resources{}.Set(cluster.CPU, 300)}, {Role: "gone", Target: cluster.Resources{}.Set(cluster.CPU, 100)}},
	}}}
	vpa.Rules.RoleLabel = "role"
	var pods []*cluster.Pod
	for i, role := range []string{"leader", "<b>", "<b>", ""} {
		pods = append(pods, &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: fmt.Sprintf("db-%d", i)}, Top: key, Phase: cluster.Running,
			Marks: &cluster.Marks{Labels: "role=" + role}, Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(300, 1<<30)}}})
	}
	show := func(path string) *http.Response {
		source := webtest.Small()
		source.Show(web.State{Overview: overview.Of(&overview.World{Now: webtest.Now, Snapshot: cluster.NewSnapshot(pods, []*cluster.Autoscaler{vpa})})})
		return get(handler(source), "GET", path)
	}
	const path = "/workloads/shop/StatefulSet/db"
	contains(t, "roles", body(t, show(path)), "Target by role", ">app<", "other pods", ">2<", ">900m<", "1 Gi", ">app<", "&lt;b&gt;", ">2<", ">300m<", "1 Gi")
	var page struct {
		Containers []struct {
			Roles []struct {
				Role   string
				Pods   int
				Target struct{ CPU string }
			}
		}
	}
	decode(t, show(path+"?format=json"), &page)
	if got := fmt.Sprint(page.Containers[0].Roles); got != "[{ 2 {900m}} {<b> 2 {300m}}]" {
		t.Error(got)
	}
	vpa.Mode = cluster.Recreate
	if text := body(t, show(path)); strings.Contains(text, "Target by role") {
		t.Error("roles without effect are shown")
	}
}

// Without a UsageHistory the page shows the histogram of the checkpoint, and says so.
func TestWorkload_onlyCheckpoint_showsItsHistogramAndSaysSo(t *testing.T) {
	text := body(t, get(handler(webtest.Small()), "GET", "/workloads/search/StatefulSet/indexer"))
	contains(t, "histogram", text, "checkpoint", "share of samples")
	if strings.Contains(text, "hourly peak of any pod") {
		t.Error("the page has a chart of hourly peaks")
	}
}

// The page about podfit has its version, the age of the data, where activity and prices are from, and the license of the charts.
func TestAbout_smallCluster_hasVersionAgeAndPrices(t *testing.T) {
	text := body(t, get(handler(webtest.Small()), "GET", "/about"))
	contains(t, "about", text, "data 38 s old", "podfit v1", "prod-eu", "The API server last answered at 2026-11-22T03:13:22Z", "From the decisions of this process", "EUR", "prices.yaml", "uPlot 1.6.32")
}

// What is written about an amount adds up: a change that rounding hides is none, and where nothing could be freed no node could go.
func TestPages_changeIsTooSmallToBeSeen_isNotShownAsOne(t *testing.T) {
	key := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}
	vpa := &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "web"}, Target: key, Created: webtest.Now.AddDate(0, -1, 0), Advice: []cluster.Advice{{
		Container: "app", Estimate: cluster.Estimate{Lower: cluster.Amounts(450, 300<<20), Target: cluster.Amounts(500, 363<<20), Upper: cluster.Amounts(900, 900<<20)},
	}}}
	pods := []*cluster.Pod{{Key: cluster.Key{Namespace: "shop", Name: "web-1"}, Top: key, Phase: cluster.Running, Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(400, 363<<20-5000)}}}}
	w := overview.World{
		Now: webtest.Now, Snapshot: cluster.NewSnapshot(pods, []*cluster.Autoscaler{vpa}), Samples: []usage.Sample{{Pod: pods[0].Key, Container: "app", At: webtest.Now, CPU: 0.1, Memory: 1e8, Has: cluster.Both}},
		Evidence: map[usage.Ref]*review.Evidence{{Workload: key, Container: "app"}: {From: webtest.Now.AddDate(0, 0, -10), To: webtest.Now, Hours: 240, Samples: 14400}},
	}
	source := webtest.Small()
	source.Show(web.State{Overview: overview.Of(&w), Surplus: &overview.Surplus{Packing: review.Packing{Gone: 1}}})
	contains(t, "workloads", html.UnescapeString(body(t, get(handler(source), "GET", "/workloads"))), "400m → 500m", ">keep<")
	text := html.UnescapeString(body(t, get(handler(source), "GET", "/")))
	contains(t, "overview", text, "Could be given back: nothing<")
	if strings.Contains(text, "363 Mi → 363 Mi") || strings.Contains(text, "up to 1 node") {
		t.Errorf("the overview shows a change or a node that is none:\n%s", text)
	}
}

// While no node is ready and accepts pods, the capacity is 0, and requests are no share of it.
func TestNodes_noNodeAcceptsPods_amountsAreNoShare(t *testing.T) {
	source := webtest.Small()
	o := &overview.Overview{At: webtest.Now, Totals: overview.Totals{Requested: cluster.Amounts(5000, 8<<30), Used: cluster.Amounts(2000, 4<<30), Capacity: cluster.Amounts(0, 0)}}
	o.Pools = []capacity.Pool{{Name: "worker", Nodes: 3, Requested: o.Totals.Requested, Used: o.Totals.Used, Capacity: o.Totals.Capacity}}
	source.Show(web.State{Overview: o})
	for _, path := range []string{"/", "/nodes"} {
		page := body(t, get(handler(source), "GET", path))
		if strings.Contains(page, "(0 %)") || !strings.Contains(page, "<b>5.00 cores</b>") || !strings.Contains(page, "<b>0 cores</b>") {
			t.Errorf("%s: a share of no capacity, or no amounts:\n%s", path, page)
		}
	}
}
