// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"podfit.dev/podfit/internal/core/capacity"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/capacityplan"
	"podfit.dev/podfit/internal/edge/prom"
	"podfit.dev/podfit/test/kubetest"
)

const (
	plansPath = "/apis/podfit.dev/v1alpha1/capacityplans"
	planKey   = "/cluster"
)

// start is the first pass of a test: a Sunday.
var start = time.Date(2026, 9, 20, 6, 0, 0, 0, time.UTC)

// A fakeWorld is a cluster whose state the test sets.
type fakeWorld struct {
	nodes       []cluster.Node
	pods        []*cluster.Pod
	autoscalers []*cluster.Autoscaler
	stale       []string
}

func (w *fakeWorld) Snapshot() *cluster.Snapshot        { return cluster.NewSnapshot(w.pods, w.autoscalers) }
func (w *fakeWorld) Stale(time.Time) []string           { return w.stale }
func (w *fakeWorld) Nodes() []cluster.Node              { return w.nodes }
func (w *fakeWorld) Selectors() []cluster.NodeSelector  { return nil }
func (w *fakeWorld) Tolerations() []cluster.Tolerations { return nil }

// newWorld returns three nodes of 64 cores and 256 GiB in the pool worker.
func newWorld() *fakeWorld {
	w := new(fakeWorld)
	for i := range 3 {
		w.nodes = append(w.nodes, cluster.Node{
			Name: fmt.Sprintf("n%d", i), Ready: true, Allocatable: cluster.Amounts(63_000, 250<<30), Capacity: cluster.Amounts(64_000, 256<<30),
			Labels: []string{"node-role.kubernetes.io/worker="},
		})
	}
	return w
}

// run sets the pods of a workload.
func (w *fakeWorld) run(name string, pods int, requests cluster.Resources) {
	key := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: name}
	var others []*cluster.Pod
	for _, p := range w.pods {
		if p.Top != key {
			others = append(others, p)
		}
	}
	w.pods = others
	for i := range pods {
		w.pods = append(w.pods, &cluster.Pod{
			Key: cluster.Key{Namespace: "shop", Name: fmt.Sprintf("%s-%d", name, i)}, Top: key, Controller: key, Node: w.nodes[i%len(w.nodes)].Name, Phase: cluster.Running,
			Containers: []cluster.Container{{Name: "app", Requests: requests}},
		})
	}
}

// advise sets the recommendation for a workload.
func (w *fakeWorld) advise(name string, target cluster.Resources) {
	w.autoscalers = append(w.autoscalers, &cluster.Autoscaler{
		Key: cluster.Key{Namespace: "shop", Name: name}, Target: cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: name}, Mode: cluster.Off,
		Advice: []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Target: target}}},
	})
}

// A bench is a loop with a fake world and the API server of kubetest.
type bench struct {
	t     *testing.T
	api   *kubetest.FakeAPI
	world *fakeWorld
	loop  *Loop
	log   bytes.Buffer
	reg   *prometheus.Registry
	past  func(context.Context, prom.RequestsQuery) ([]capacity.NodeHour, error)
	used  *Usage
	dry   bool
	local bool // the API server is in this process, for synctest
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, api: kubetest.NewFakeAPI(t), world: newWorld(), used: new(Usage)}
	b.elect()
	return b
}

// elect starts a new term of leadership.
func (b *bench) elect() {
	b.t.Helper()
	config := kubetest.LocalConfig(b.api)
	if !b.local {
		config = b.api.Config()
	}
	clients, err := kube.ClientsFor(config)
	if err != nil {
		b.t.Fatal(err)
	}
	plans := capacityplan.New(clients)
	b.reg = prometheus.NewRegistry()
	b.loop = New(Dependencies{
		World: b.world, Plans: plans, Past: b.past, Usage: b.used, Metrics: NewMetrics(b.reg), DryRun: b.dry, Log: slog.New(slog.NewTextHandler(&b.log, nil)),
	})
}

func (b *bench) pass(now time.Time) { b.loop.pass(b.t.Context(), now) }

// status returns a field of the status of the plan, by its path.
func (b *bench) status(path ...any) any {
	b.t.Helper()
	o := b.api.Object(plansPath, planKey)
	if o == nil {
		b.t.Fatal("there is no CapacityPlan")
	}
	var v any = o["status"]
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			list, _ := v.([]any)
			if p >= len(list) {
				return nil
			}
			v = list[p]
		}
	}
	return v
}

// condition returns the status of a condition.
func (b *bench) condition(name string) string {
	list, _ := b.status("conditions").([]any)
	for _, c := range list {
		if m, _ := c.(map[string]any); m["type"] == name {
			return fmt.Sprint(m["status"])
		}
	}
	return ""
}

func (b *bench) writes() int {
	n := 0
	for _, r := range b.api.Requests() {
		if strings.HasPrefix(r, "PATCH "+plansPath) {
			n++
		}
	}
	return n
}

// metric returns the value of a metric that has all of the values of labels.
func (b *bench) metric(name string, labels ...string) float64 {
	b.t.Helper()
	families, err := b.reg.Gather()
	if err != nil {
		b.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			values := map[string]bool{}
			for _, l := range m.GetLabel() {
				values[l.GetValue()] = true
			}
			ok := true
			for _, v := range labels {
				ok = ok && values[v]
			}
			if ok {
				return m.GetGauge().GetValue()
			}
		}
	}
	return math.NaN()
}

// The scene of 60 days: services that request more each day until they reach 154 of 192 cores, of which 71 could be given back.
func (b *bench) scene(days int) time.Time {
	now := start
	for day := range days {
		now = start.AddDate(0, 0, day)
		b.world.run("web", 70+day/2, cluster.Amounts(1500, 3<<30))
		b.pass(now)
	}
	return now
}

func TestLoop_sixtyDaysOfGrowth_planHasDatesAndAdvice(t *testing.T) {
	b := newBench(t)
	b.world.advise("web", cluster.Amounts(700, 2<<30))
	b.used.Keep([]usage.Sample{{Pod: cluster.Key{Namespace: "shop", Name: "web-0"}, Container: "app", At: start.AddDate(0, 0, 59), CPU: 33, Memory: 90 << 30, Has: cluster.Both}})
	now := b.scene(60)
	cpu := func(path ...any) any { return b.status(append([]any{"pools", 0, "cpu"}, path...)...) }
	for name, c := range map[string]struct{ got, want any }{
		"pool":                {b.status("pools", 0, "name"), "worker"},
		"capacity":            {cpu("capacity"), "192"},
		"without one node":    {cpu("capacityWithoutLargestNode"), "128"},
		"requested":           {cpu("requested"), "148500m"},
		"used":                {cpu("used"), "33"},
		"recoverable":         {cpu("recoverable"), "79200m"},
		"threshold":           {cpu("thresholds", 0, "percent"), 70.0},
		"state of 70 %":       {cpu("thresholds", 0, "state"), "Above"},
		"state of 100 %":      {cpu("thresholds", 1, "state"), "Ahead"},
		"advice":              {cpu("advice"), "GiveBack"},
		"days of the history": {len(b.status("pools", 0, "history", "days").([]any)), 60},
		"above":               {b.condition("CapacityAboveThreshold"), "True"},
		"can lose a node":     {b.condition("CanLoseANode"), "False"},
		"forecast":            {b.condition("ForecastAvailable"), "True"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
	// 0.75 cores per day: 43.5 cores are missing to 192, so 58 days.
	expected, err := time.Parse(time.DateOnly, fmt.Sprint(cpu("thresholds", 1, "expected")))
	if days := expected.Sub(now).Hours() / 24; err != nil || days < 50 || days > 66 {
		t.Errorf("100 %% expected on %v, %v days from now, want about 58 (%v)", cpu("thresholds", 1, "expected"), days, err)
	}
	if got := fmt.Sprint(cpu("message")); !strings.Contains(got, "do not order: 1 workload could give back 79 cores, which leaves 36 %") {
		t.Errorf("message %q", got)
	}
	if got := fmt.Sprint(cpu("growth", "replicas")); got != "19500m" { // 13 pods between the 28 daily values
		t.Errorf("growth by replicas %s, want 19500m", got)
	}
	if got := b.metric("podfit_capacity_requested", "worker", "cpu"); got != 148.5 {
		t.Errorf("metric requested %v", got)
	}
	if got := b.metric("podfit_capacity_reaches_threshold_timestamp_seconds", "worker", "cpu", "100"); math.IsNaN(got) || got < float64(now.Unix()) {
		t.Errorf("metric of 100 %%: %v", got)
	}
	latest, err := time.Parse(time.DateOnly, fmt.Sprint(cpu("thresholds", 1, "latest")))
	if got := b.metric("podfit_capacity_reaches_threshold_latest_timestamp_seconds", "worker", "cpu", "100"); err != nil || got != float64(latest.Unix()) {
		t.Errorf("metric of the end of the range of 100 %%: %v, want that of %v (%v)", got, latest, err)
	}
	if got := b.metric("podfit_capacity_reaches_threshold_latest_timestamp_seconds", "worker", "cpu", "70"); !math.IsNaN(got) {
		t.Errorf("end of the range of 70 %%, which is reached: %v, want none", got)
	}
	if n := testutil.CollectAndCount(b.loop.Metrics.growth); n == 0 {
		t.Error("there are no metrics about growth")
	}
}

func TestLoop_newLeader_continuesWithTheStoredHistory(t *testing.T) {
	b := newBench(t)
	now := b.scene(40)
	before := fmt.Sprint(b.status("pools", 0, "history"))
	b.elect()
	b.pass(now.Add(time.Minute))
	if after := fmt.Sprint(b.status("pools", 0, "history")); after != before {
		t.Errorf("history changed by a new leader:\n%s\n%s", before, after)
	}
	b.world.run("web", 95, cluster.Amounts(1500, 3<<30))
	b.pass(now.Add(20 * time.Minute))
	if got := b.status("pools", 0, "history", "cpu", "requested", 39); got != 142_500.0 {
		t.Errorf("value of today %v, want 142500", got)
	}
}

func TestLoop_newWorkload_reportsChangeWithItsName(t *testing.T) {
	b := newBench(t)
	now := b.scene(40)
	for day := 1; day <= 5; day++ {
		b.world.run("api", 20, cluster.Amounts(1000, 2<<30))
		b.pass(now.AddDate(0, 0, day))
	}
	text := fmt.Sprint(b.status("pools", 0, "changes"))
	if !strings.Contains(text, "cause:Arrived") || !strings.Contains(text, "name:api") {
		t.Errorf("changes %s", text)
	}
	if got := b.status("pools", 0, "cpu", "growth", "newWorkloads"); got != "20" {
		t.Errorf("growth by new workloads %v, want 20", got)
	}
	// The trend does not contain the step: 0.75 cores per day until the last two days, in which nothing grows.
	if got := fmt.Sprint(b.status("pools", 0, "cpu", "growthPerDay")); !strings.HasSuffix(got, "m") {
		t.Errorf("growth per day %s, want less than a core", got)
	}
}

func TestLoop_fiveDays_noDate(t *testing.T) {
	b := newBench(t)
	b.scene(5)
	if got := b.status("pools", 0, "cpu", "advice"); got != "NoForecast" {
		t.Errorf("advice %v", got)
	}
	if got := fmt.Sprint(b.status("pools", 0, "cpu", "thresholds", 1)); strings.Contains(got, "-") || !strings.Contains(got, "Unknown") {
		t.Errorf("100 %%: %s", got)
	}
	if got := b.condition("ForecastAvailable"); got != "False" {
		t.Errorf("forecast available: %s", got)
	}
}

func TestLoop_nothingChanges_nothingIsWritten(t *testing.T) {
	b := newBench(t)
	now := b.scene(1)
	n := b.writes()
	for i := range 120 {
		b.pass(now.Add(time.Duration(i) * time.Minute))
	}
	if got := b.writes(); got != n {
		t.Errorf("%d writes without a change", got-n)
	}
}

func TestLoop_smallChanges_areWrittenEveryTenMinutes(t *testing.T) {
	b := newBench(t)
	now := b.scene(20)
	n := b.writes()
	for i := range 61 {
		b.world.run("web", 80+i%3, cluster.Amounts(1500, 3<<30))
		b.pass(now.Add(time.Duration(i) * time.Minute))
	}
	if got := b.writes() - n; got < 3 || got > 14 {
		t.Errorf("%d writes in an hour, want about 6", got)
	}
}

// Requests that go up and down around a threshold change conditions, dates and steps again and again. Several pools do so independently.
func TestLoop_requestsOscillateAroundAThreshold_writesAreBounded(t *testing.T) {
	for _, workloads := range []int{1, 5} {
		b := newBench(t)
		var now time.Time
		for i := range workloads {
			n := b.world.nodes[0]
			n.Name, n.Labels = fmt.Sprint("pool-", i), []string{fmt.Sprint("karpenter.sh/nodepool=", i)}
			b.world.nodes = append(b.world.nodes, n)
		}
		set := func(minute int) {
			for i := range workloads {
				cores := 44 + 2*(minute>>i&1) // 68.75 % or 71.9 % of 64
				b.world.run(fmt.Sprint("web-", i), cores, cluster.Amounts(1000, 1<<30))
				for _, p := range b.world.pods {
					if p.Top.Name == fmt.Sprint("web-", i) {
						p.Node = fmt.Sprint("pool-", i)
					}
				}
			}
		}
		for day := range 15 {
			now = start.AddDate(0, 0, day)
			set(0)
			b.pass(now)
		}
		n := b.writes()
		for i := range 120 {
			set(i)
			b.pass(now.Add(time.Duration(i) * time.Minute))
		}
		if got := b.writes() - n; got < 6 || got > 40 {
			t.Errorf("%d workloads: %d writes in two hours, want about 12 to 40", workloads, got)
		}
		set(1)
		b.pass(now.Add(135 * time.Minute))
		if got := b.condition("CapacityAboveThreshold"); got != "True" {
			t.Errorf("%d workloads: the condition is %s in the end, want the present state", workloads, got)
		}
	}
}

func TestLoop_firstPods_areWrittenAtOnce(t *testing.T) {
	b := newBench(t)
	b.pass(start)
	b.world.run("web", 1, cluster.Amounts(100, 1<<20))
	b.pass(start.Add(time.Minute))
	if got := b.status("pools", 0, "cpu", "requested"); got != "100m" {
		t.Errorf("requested %v after the first pods, want 100m", got)
	}
	b.world.run("web", 20, cluster.Amounts(1000, 1<<30))
	b.pass(start.Add(2 * time.Minute))
	if got := b.status("pools", 0, "cpu", "requested"); got != "20" {
		t.Errorf("requested %v after 10 %% of the capacity, want 20", got)
	}
}

func TestLoop_deletedPlan_historyStartsAgain(t *testing.T) {
	b := newBench(t)
	now := b.scene(30)
	b.api.Delete(plansPath, planKey)
	b.pass(now.Add(11 * time.Minute))
	if days, _ := b.status("pools", 0, "history", "days").([]any); len(days) != 1 {
		t.Errorf("%d days after the plan was deleted, want 1", len(days))
	}
}

// Without the right to create the plan again, the history that starts after its deletion grows in memory.
func TestLoop_deletedPlanCannotBeCreated_historyIsKeptInMemory(t *testing.T) {
	b := newBench(t)
	now := b.scene(30)
	b.api.Delete(plansPath, planKey)
	b.api.Reply("POST "+plansPath, http.StatusForbidden, `{"kind":"Status","status":"Failure","code":403,"reason":"Forbidden","message":"cannot create"}`)
	for day := range 20 {
		b.pass(now.AddDate(0, 0, day+1))
	}
	if n := len(b.loop.histories["worker"].Days); n != 20 {
		t.Errorf("%d days in memory 20 days after the deletion", n)
	}
	if n := strings.Count(b.log.String(), "its history starts again"); n != 1 {
		t.Errorf("logged %d times that the history starts again, want once", n)
	}
}

// The number of pools is bounded. Those that had nodes last are kept, in each pass the same.
func TestLoop_tooManyPoolsWithoutNodes_lastOnesAreKept(t *testing.T) {
	b := newBench(t)
	for i := range 2 * capacity.MostPools {
		b.world.nodes = []cluster.Node{{Name: "n", Ready: true, Allocatable: cluster.Amounts(4000, 8<<30), Labels: []string{fmt.Sprintf("karpenter.sh/nodepool=p%02d", (i*7)%32)}}}
		b.pass(start.AddDate(0, 0, i/2))
	}
	for i := range 2 * capacity.MostPools {
		name := fmt.Sprintf("p%02d", (i*7)%32)
		if _, kept := b.loop.histories[name]; kept != (i >= capacity.MostPools) {
			t.Errorf("pool %d, %s: kept %v", i, name, kept)
		}
	}
}

func TestLoop_otherWriter_conflictIsResolvedInTheNextPass(t *testing.T) {
	b := newBench(t)
	now := b.scene(20)
	o := b.api.Object(plansPath, planKey)
	o["spec"] = map[string]any{"leadTimeDays": 30, "thresholds": []any{50}}
	b.pass(now.Add(time.Minute))
	if got := b.status("pools", 0, "leadTimeDays"); got != 30.0 {
		t.Errorf("lead time %v, want 30", got)
	}
	if got := b.status("pools", 0, "cpu", "thresholds", 0, "percent"); got != 50.0 {
		t.Errorf("threshold %v, want 50", got)
	}
	path := "PATCH " + plansPath + "/cluster/status"
	b.api.Reply(path, http.StatusConflict, `{"kind":"Status","status":"Failure","code":409,"reason":"Conflict"}`)
	b.world.run("web", 100, cluster.Amounts(1500, 3<<30))
	b.pass(now.Add(30 * time.Minute))
	b.api.ForgetReply(path)
	b.pass(now.Add(31 * time.Minute))
	if got := b.status("pools", 0, "cpu", "requested"); got != "150" {
		t.Errorf("requested %v after a conflict, want 150", got)
	}
}

func TestLoop_createdByAnother_isReadInTheNextPass(t *testing.T) {
	b := newBench(t)
	b.world.run("web", 1, cluster.Amounts(100, 1<<20))
	b.api.Reply("POST "+plansPath, http.StatusConflict, `{"kind":"Status","status":"Failure","code":409,"reason":"AlreadyExists"}`)
	b.pass(start)
	b.api.Apply(plansPath, `{"metadata":{"name":"cluster","namespace":""},"spec":{"leadTimeDays":20}}`)
	b.pass(start.Add(time.Minute))
	if got := b.status("pools", 0, "leadTimeDays"); got != 20.0 || b.log.Len() > 0 {
		t.Errorf("lead time %v, log %s", got, b.log.String())
	}
}

func TestLoop_planIsNotAvailable_isLoggedOnceAndMetricsContinue(t *testing.T) {
	for name, c := range map[string]struct {
		code int
		body string
		want string
	}{
		"no CRD":       {404, "404 page not found", "install the CRDs"},
		"no right":     {403, `{"kind":"Status","status":"Failure","code":403,"reason":"Forbidden","message":"capacityplans is forbidden: User cannot get"}`, "grant the recommender"},
		"server error": {500, `{"kind":"Status","status":"Failure","code":500,"reason":"InternalError","message":"broken"}`, "Cannot read the CapacityPlan"},
	} {
		b := newBench(t)
		b.world.run("web", 10, cluster.Amounts(1500, 3<<30))
		b.api.Reply("GET "+plansPath+"/cluster", c.code, c.body)
		for i := range 60 {
			b.pass(start.Add(time.Duration(i) * time.Minute))
		}
		if got := strings.Count(b.log.String(), c.want); got != 1 {
			t.Errorf("%s: logged %d times, want once\n%s", name, got, b.log.String())
		}
		if got := b.metric("podfit_capacity_requested", "worker", "cpu"); got != 15 {
			t.Errorf("%s: metric requested %v, want 15", name, got)
		}
		if got := b.api.Refusals("GET " + plansPath + "/cluster"); got > 40 {
			t.Errorf("%s: %d requests in an hour", name, got)
		}
		if b.writes() > 0 {
			t.Errorf("%s: the plan is written although its history is not known", name)
		}
	}
}

func TestLoop_invalidPlan_isReplacedAndValidPartsAreKept(t *testing.T) {
	b := newBench(t)
	b.api.Apply(plansPath, `{"metadata":{"name":"cluster","namespace":""},"spec":{"leadTimeDays":"soon"},"status":{"pools":"many"}}`)
	b.scene(1)
	if got := b.status("pools", 0, "name"); got != "worker" {
		t.Errorf("pool %v", got)
	}
	if !strings.Contains(b.log.String(), "cannot be decoded") {
		t.Errorf("log: %s", b.log.String())
	}
}

func TestLoop_staleWatch_recordsNothing(t *testing.T) {
	b := newBench(t)
	now := b.scene(20)
	b.world.pods = nil
	b.world.stale = []string{"pods"}
	b.pass(now.AddDate(0, 0, 1))
	b.world.stale, b.world.nodes = nil, nil
	b.pass(now.AddDate(0, 0, 1))
	if days, _ := b.status("pools", 0, "history", "days").([]any); len(days) != 20 {
		t.Errorf("%d days, want 20", len(days))
	}
}

func TestLoop_poolWithoutNodes_keepsItsHistoryForFourWeeks(t *testing.T) {
	b := newBench(t)
	now := b.scene(20)
	b.world.pods = nil
	b.world.nodes = []cluster.Node{{Name: "m0", Ready: true, Allocatable: cluster.Amounts(4000, 8<<30), Labels: []string{"karpenter.sh/nodepool=blue"}}}
	b.pass(now.AddDate(0, 0, 1))
	if got := b.status("pools", 1, "name"); got != "worker" {
		t.Errorf("pools %v", b.status("pools"))
	}
	if got := b.status("pools", 1, "cpu", "advice"); got != "NoForecast" {
		t.Errorf("advice for a pool without nodes: %v", got)
	}
	for d := range 30 {
		b.pass(now.AddDate(0, 0, 2+d))
	}
	if got := b.status("pools", 1); got != nil {
		t.Errorf("the pool is not forgotten: %v", got)
	}
}

// While the clock is ahead by years, the values of a day are recorded. They do not keep the pool after that.
func TestLoop_clockWasAheadAndPoolIsGone_isForgotten(t *testing.T) {
	b := newBench(t)
	now := b.scene(20)
	b.pass(now.AddDate(5, 0, 0))
	b.world.pods = nil
	b.world.nodes = []cluster.Node{{Name: "m0", Ready: true, Allocatable: cluster.Amounts(4000, 8<<30), Labels: []string{"karpenter.sh/nodepool=blue"}}}
	for d := range 31 {
		b.pass(now.AddDate(0, 0, 1+d))
	}
	if h := b.loop.histories["worker"]; h != nil {
		t.Errorf("the pool is kept with %d days, the last one on %s", len(h.Days), h.Days[len(h.Days)-1].Day)
	}
}

func TestLoop_dryRun_writesNothing(t *testing.T) {
	b := newBench(t)
	b.dry = true
	b.elect()
	b.scene(3)
	for _, r := range b.api.Requests() {
		if !strings.HasPrefix(r, "GET") {
			t.Errorf("request %s in a dry run", r)
		}
	}
}

// Without a CapacityPlan, a dry run computes the plan from the present state: it publishes metrics, creates no object and reports no error.
func TestLoop_dryRunWithoutPlan_publishesMetricsAndCreatesNothing(t *testing.T) {
	b := newBench(t)
	b.dry = true
	b.elect()
	now := b.scene(3)
	if got := b.metric("podfit_capacity_total", "worker", "cpu"); got != 192 {
		t.Errorf("podfit_capacity_total is %v, want 192", got)
	}
	if h := b.loop.histories["worker"]; h == nil || len(h.Days) != 3 {
		t.Errorf("history %+v, want three days up to %v", h, now)
	}
	if o := b.api.Object(plansPath, planKey); o != nil || b.log.Len() != 0 {
		t.Errorf("object %v, log %q; want neither", o, b.log.String())
	}
}

// A dry run reads an existing plan, continues its history and does not change it.
func TestLoop_dryRunWithPlan_continuesItsHistory(t *testing.T) {
	b := newBench(t)
	now := b.scene(3)
	before := fmt.Sprint(b.status("pools"))
	b.dry = true
	b.elect()
	b.pass(now.AddDate(0, 0, 1))
	if h := b.loop.histories["worker"]; h == nil || len(h.Days) != 4 {
		t.Errorf("history %+v, want four days", h)
	}
	if after := fmt.Sprint(b.status("pools")); after != before {
		t.Errorf("a dry run changed the plan from\n%s\nto\n%s", before, after)
	}
}

// A fakePast is a Prometheus with values of some days.
type fakePast struct {
	days     int // before today
	today    time.Time
	failures int
	queries  int
}

func (f *fakePast) Requests(_ context.Context, q prom.RequestsQuery) ([]capacity.NodeHour, error) {
	f.queries++
	if f.queries <= f.failures {
		return nil, errors.New("query processing would load too many samples")
	}
	var out []capacity.NodeHour
	for at := q.From; at.Before(q.To); at = at.Add(time.Hour) {
		age := int(f.today.Sub(at).Hours() / 24)
		if age >= f.days {
			continue
		}
		for i := range 3 {
			out = append(out, capacity.NodeHour{
				At: at, Node: fmt.Sprintf("n%d", i), Requested: cluster.Amounts(int64(40_000-300*age), 80<<30), Capacity: cluster.Amounts(64_000, 256<<30),
			})
		}
	}
	return out, nil
}

func TestLoop_prometheus_fillsTheHistory(t *testing.T) {
	b := newBench(t)
	from := &fakePast{days: 40, today: start, failures: 2}
	b.past = from.Requests
	b.elect()
	b.world.run("web", 80, cluster.Amounts(1500, 3<<30))
	for i := range 30 {
		b.pass(start.Add(time.Duration(i) * time.Minute))
	}
	days, _ := b.status("pools", 0, "history", "days").([]any)
	if len(days) < 40 || len(days) > 42 {
		t.Errorf("%d days after the backfill, want 41", len(days))
	}
	if got := b.status("pools", 0, "cpu", "thresholds", 1, "state"); got != "Ahead" {
		t.Errorf("100 %%: %v", got)
	}
	if from.queries > 12 {
		t.Errorf("%d queries, want no more than one per week", from.queries)
	}
	queries := from.queries
	b.elect()
	b.pass(start.Add(time.Hour))
	b.pass(start.Add(61 * time.Minute))
	if got := from.queries - queries; got > 2 {
		t.Errorf("%d queries of a new leader for known days", got)
	}
}

func TestLoop_prometheusFails_isLoggedOnceAndGivenUp(t *testing.T) {
	b := newBench(t)
	from := &fakePast{failures: 1000}
	b.past = from.Requests
	b.elect()
	for i := range 30 {
		b.pass(start.Add(time.Duration(i) * time.Minute))
	}
	if from.queries != backfillFailures || strings.Count(b.log.String(), "Cannot read the history of requests") != 1 {
		t.Errorf("%d queries, log %s", from.queries, b.log.String())
	}
}

// hangingPast is a Prometheus that never answers.
func hangingPast(ctx context.Context, _ prom.RequestsQuery) ([]capacity.NodeHour, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// The plan is written although all the time for Prometheus is used up, and no log message names the API server as the cause.
func TestLoop_prometheusHangs_planIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, api: kubetest.NewLocalAPI(t), local: true, world: newWorld(), used: new(Usage), past: hangingPast}
		b.elect()
		b.world.run("web", 10, cluster.Amounts(1500, 3<<30))
		b.pass(time.Now())
		if got := b.status("pools", 0, "cpu", "requested"); got != "15" || strings.Contains(b.log.String(), "Cannot write") {
			t.Errorf("requested %v, log %s", got, b.log.String())
		}
	})
}
