// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package webtest makes clusters for tests of the web page, without a cluster.
package webtest

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/overview"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/web"
)

// Now is the time of all fixtures.
var Now = time.Date(2026, time.November, 22, 3, 14, 0, 0, time.UTC)

// Hostile is text that tries to leave its place in a page.
const Hostile = `"><script>window.hacked=1</script><img src=x onerror="window.hacked=1">'{{.}}javascript:window.hacked=1`

// A Source is a web.Source with fixed values.
type Source struct {
	mu        sync.Mutex
	state     web.State
	histories map[cluster.Workload]overview.History
	failure   error
}

// State implements web.Source.
func (s *Source) State(context.Context) *web.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.state
	return &state
}

// History implements web.Source.
func (s *Source) History(_ context.Context, row *overview.Row) (overview.History, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.histories[row.Workload], s.failure
}

// Namespaces returns the namespaces with workloads.
func (s *Source) Namespaces() (names []string, complete bool) {
	state := s.State(context.Background())
	return state.Overview.Namespaces(), state.Complete()
}

// Load makes the source one that still reads resources and knows no workloads yet.
func (s *Source) Load(resources ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = web.State{Overview: &overview.Overview{At: Now}, Loading: resources, Pending: len(resources) == 0}
}

// nightBatch is a SizingProfile.
func nightBatch() recommend.Profile {
	p := recommend.Profile{Name: "night-batch", About: "Batch jobs that run at night", OOMBudget: 0.05}
	p.FloorMillicores, p.FloorMegabytes = 10, 64
	return p
}

// SetPlan changes the forecast of capacity.
func (s *Source) SetPlan(p *v1alpha1.CapacityPlanStatus, problem string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Plan, s.state.PlanProblem = p, problem
}

// Show makes the source return a state.
func (s *Source) Show(state web.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = state
}

// FailHistory makes History return an error.
func (s *Source) FailHistory(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = err
}

// Report sets what is out of date, and when the API server last answered.
func (s *Source) Report(contact time.Time, problems ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Contact = contact
	s.state.Problems = problems
}

// container describes a container of a fixture: millicores and MiB.
type container struct {
	name                       string
	cpu, memory, limit         int64
	targetCPU, targetMemory    int64
	usedCPU, usedMemory, kills int64
	profile                    string
	hpa                        bool
}

// workload describes a workload of a fixture.
type workload struct {
	namespace, kind, name string
	pods                  int
	vpa                   bool
	mode                  cluster.Mode
	containers            []container
}

var small = []workload{
	{"shop", "Deployment", "cart", 6, true, cluster.InPlaceOrRecreate, []container{{"app", 500, 1024, 1536, 633, 1276, 410, 930, 1, "balanced", false}, {"proxy", 100, 128, 256, 98, 125, 60, 88, 0, "balanced", false}}},
	{"pay", "StatefulSet", "ledger", 3, true, cluster.Recreate, []container{{"db", 2000, 4096, 4300, 2000, 4710, 1210, 4172, 0, "critical", false}}},
	{"shop", "Deployment", "api", 12, true, cluster.InPlaceOrRecreate, []container{{"app", 1000, 2048, 4096, 1400, 2048, 940, 1610, 0, "balanced", false}}},
	{"batch", "Deployment", "report", 1, true, cluster.Initial, []container{{"job", 500, 1024, 0, 480, 1440, 20, 640, 0, "cost", false}}},
	{"ml", "Deployment", "feature-store", 8, true, cluster.InPlaceOrRecreate, []container{{"app", 4000, 16384, 16384, 650, 5222, 410, 4080, 0, "balanced", false}}},
	{"web", "Deployment", "front", 20, true, cluster.InPlace, []container{{"nginx", 300, 512, 512, 120, 180, 80, 140, 0, "balanced", true}}},
	{"search", "StatefulSet", "indexer", 4, true, cluster.Recreate, []container{{"app", 2000, 8192, 8192, 340, 2662, 200, 2040, 0, "default", false}}},
	{"ops", "Deployment", "gateway", 6, true, cluster.Off, []container{{"app", 1000, 512, 1024, 220, 512, 130, 340, 0, "balanced", false}}},
	{"kube-system", "DaemonSet", "node-exporter", 5, false, cluster.Off, []container{{"exporter", 100, 64, 128, 0, 0, 12, 30, 0, "", false}}},
	{"dev", "Deployment", "playground", 2, false, cluster.Off, []container{{"app", 250, 256, 0, 0, 0, 4, 60, 0, "", false}}},
}

// Small returns a cluster with a few workloads, one of each kind that pages show differently.
func Small() *Source {
	s := &Source{histories: make(map[cluster.Workload]overview.History)}
	w := overview.World{Now: Now}
	var pods []*cluster.Pod
	var autoscalers []*cluster.Autoscaler
	for i := range small {
		add(&w, &pods, &autoscalers, &small[i], i)
		s.histories[small[i].key()] = historyOf(&small[i])
		s.compare(&small[i])
	}
	pods[1].Resize = &cluster.Resize{State: cluster.ResizeDeferred, Since: Now.Add(-5 * time.Minute), Message: "Node didn't have enough resource: memory, requested: 1338, used: 15200, capacity: 15900"}
	w.Snapshot = cluster.NewSnapshot(pods, autoscalers)
	w.Nodes = nodes(5)
	s.state = web.State{
		Overview: overview.Of(&w), Contact: Now.Add(-38 * time.Second), ActivityFrom: "the decisions of this process", ActivitySince: Now.Add(-29 * time.Hour),
		Custom: []web.CustomProfile{
			{Profile: nightBatch(), Known: true}, {Profile: recommend.Profile{Name: "misspelled"}},
		}, Activity: activity(), Health: health(), Plan: plan("worker"),
	}
	w.AllPods = true
	w.Prices = review.Prices{PriceSource: review.PriceSource{Currency: "EUR", From: "prices.yaml"}, Default: review.AssumedPrice()}
	s.state.Surplus = overview.SurplusOf(&w, s.state.Overview)
	return s
}

// plan returns the status of a CapacityPlan with one pool.
func plan(pool string) *v1alpha1.CapacityPlanStatus {
	above := v1alpha1.CapacityThreshold{Percent: 70, State: "Above", Since: "2026-11-18"}
	return &v1alpha1.CapacityPlanStatus{Updated: &metav1.Time{Time: Now}, Pools: []v1alpha1.CapacityPoolStatus{{
		Name: pool, Nodes: 3, SchedulableNodes: 3,
		CPU: v1alpha1.CapacityResource{
			Capacity: resource.MustParse("192"), Requested: resource.MustParse("154"), OrderBy: "2026-11-22", ForecastDays: 90, Advice: "OrderNow", Message: "order nodes now",
			Thresholds: []v1alpha1.CapacityThreshold{above, {Percent: 100, State: "Ahead", Earliest: "2026-12-02", Expected: "2026-12-09", Latest: "2026-12-20"}},
		},
		Memory: v1alpha1.CapacityResource{
			Capacity: resource.MustParse("768Gi"), Requested: resource.MustParse("384Gi"), ForecastDays: 90, Advice: "Wait",
			Thresholds: []v1alpha1.CapacityThreshold{{Percent: 70, State: "NotWithin"}, {Percent: 100, State: "Unknown"}},
		},
	}}}
}

// health returns the health of a podfit that works.
func health() []overview.Part {
	lease := overview.Lease{Name: "vpa-admission-controller", Found: true, Holder: "podfit-7d9f", Renewed: Now.Add(-4 * time.Second), Duration: 15 * time.Second}
	return overview.HealthOf(&overview.Facts{
		Now: Now, Leading: true, Webhook: overview.Webhook{Known: true, Registered: true, Until: Now.AddDate(9, 0, 0), Lease: lease},
		Loops: []overview.Loop{
			{Name: "recommender", Active: Now.Add(-20 * time.Second), Passed: Now.Add(-20 * time.Second), Window: 5 * time.Minute},
			{Name: "updater", Active: Now.Add(-41 * time.Second), Passed: Now.Add(-41 * time.Second), Window: 5 * time.Minute},
		},
	})
}

// Large returns a cluster with n workloads of two pods each.
func Large(n int) *Source {
	s := &Source{}
	w := overview.World{Now: Now}
	var pods []*cluster.Pod
	var autoscalers []*cluster.Autoscaler
	for i := range n {
		l := workload{
			namespace: fmt.Sprintf("team-%03d", i%200), kind: "Deployment", name: fmt.Sprintf("service-%05d", i), pods: 2, vpa: true, mode: cluster.InPlaceOrRecreate,
			containers: []container{{"app", 500, 512, 1024, int64(100 + i%700), int64(100 + i%800), 90, 120, 0, "balanced", false}},
		}
		add(&w, &pods, &autoscalers, &l, i)
	}
	w.Snapshot = cluster.NewSnapshot(pods, autoscalers)
	w.Nodes = nodes(500)
	s.state = web.State{Overview: overview.Of(&w), Contact: Now.Add(-2 * time.Second), ActivityFrom: "the decisions of this process"}
	for range 10_000 {
		s.state.Activity = append(s.state.Activity, activity()[0])
	}
	return s
}

// Bare returns a cluster with one workload that has no VPA, no pods with containers and no history.
func Bare() *Source {
	key := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "bare"}
	w := overview.World{Now: Now, Snapshot: cluster.NewSnapshot([]*cluster.Pod{{Key: cluster.Key{Namespace: "shop", Name: "bare-1"}, Top: key, Phase: cluster.Running}}, nil)}
	return &Source{state: web.State{Overview: overview.Of(&w)}}
}

// Attack returns a cluster whose objects have hostile names and texts.
func Attack() *Source {
	s := &Source{histories: make(map[cluster.Workload]overview.History), failure: fmt.Errorf("read: %s", Hostile)}
	w := overview.World{Now: Now}
	var pods []*cluster.Pod
	var autoscalers []*cluster.Autoscaler
	for i, name := range []string{Hostile, "plain"} {
		l := small[0]
		l.name, l.kind, l.namespace = name, "Kind"+Hostile, "shop"+Hostile
		l.containers = []container{l.containers[0]}
		l.containers[0].name, l.containers[0].profile = Hostile, Hostile
		add(&w, &pods, &autoscalers, &l, i)
		autoscalers[i].Name = Hostile
		s.histories[l.key()] = historyOf(&l)
		s.compare(&l)
	}
	for _, p := range pods {
		p.Resize = &cluster.Resize{State: cluster.ResizeDeferred, Since: Now, Message: Hostile}
	}
	w.Snapshot = cluster.NewSnapshot(pods, autoscalers)
	w.Nodes = nodes(2)
	w.Nodes[0].Name, w.Nodes[0].Labels = Hostile, []string{"karpenter.sh/nodepool=" + Hostile}
	s.state = web.State{Overview: overview.Of(&w), ActivityFrom: "events", Problems: []string{Hostile}, Loading: []string{Hostile},
		Custom: []web.CustomProfile{{Profile: recommend.Profile{Name: Hostile, About: Hostile}, Known: true}, {Profile: recommend.Profile{Name: Hostile}}},
		Health: []overview.Part{{Name: Hostile, Condition: overview.Failing, Text: Hostile}}, Plan: plan(Hostile)}
	s.state.Plan.Pools[0].CPU.Message, s.state.Plan.Pools[0].CPU.OrderBy, s.state.Plan.Pools[0].CPU.Thresholds[0].Since = Hostile, Hostile, Hostile
	for _, e := range activity() {
		e.Text, e.Reason, e.Change, e.VPA, e.Pod.Name = Hostile, Hostile, Hostile, Hostile, Hostile
		s.state.Activity = append(s.state.Activity, e)
	}
	return s
}

func (l *workload) key() cluster.Workload {
	return cluster.Workload{Group: "apps", Kind: l.kind, Namespace: l.namespace, Name: l.name}
}

// add adds a workload to a cluster.
func add(w *overview.World, pods *[]*cluster.Pod, autoscalers *[]*cluster.Autoscaler, l *workload, at int) {
	key := l.key()
	if l.vpa {
		a := &cluster.Autoscaler{Key: cluster.Key{Namespace: l.namespace, Name: l.name}, Target: key, Mode: l.mode, Recommender: l.containers[0].profile, Created: Now.Add(-30 * 24 * time.Hour)}
		for _, c := range l.containers {
			target := cluster.Amounts(c.targetCPU, c.targetMemory<<20)
			a.Advice = append(a.Advice, cluster.Advice{Container: c.name, Estimate: cluster.Estimate{
				Lower: cluster.Amounts(target.CPU*95/100, target.Memory*95/100), Target: target, Upper: cluster.Amounts(target.CPU*108/100, target.Memory*108/100),
			}, Uncapped: target})
			if w.Evidence == nil {
				w.Evidence = make(map[usage.Ref]*review.Evidence)
			}
			w.Evidence[usage.Ref{Workload: key, Container: c.name}] = &review.Evidence{From: Now.AddDate(0, 0, -14), To: Now, Hours: 330, Samples: 20160}
			if c.hpa {
				a.Horizontal = []*cluster.HorizontalAutoscaler{{Key: a.Key, Target: key, Utilization: []cluster.UtilizationTarget{{Resource: cluster.CPU, Percent: 70}}}}
			}
		}
		*autoscalers = append(*autoscalers, a)
	}
	for i := range l.pods {
		p := &cluster.Pod{
			Key: cluster.Key{Namespace: l.namespace, Name: fmt.Sprintf("%s-7d9f-%c%02d", l.name, 'a'+rune(i%26), i)}, UID: fmt.Sprintf("%d-%d", at, i), Controller: key, Top: key,
			Node: fmt.Sprintf("n%d", (at+i)%5), Phase: cluster.Running, Ready: true, Created: Now.Add(-48*time.Hour + time.Duration(i)*time.Minute),
		}
		for j, c := range l.containers {
			limits := cluster.Resources{}
			if c.limit > 0 {
				limits = limits.Set(cluster.Memory, c.limit<<20)
			}
			requests := cluster.Amounts(c.cpu, c.memory<<20)
			if c.kills > 0 && i >= 2 {
				requests = cluster.Amounts(c.targetCPU, c.targetMemory<<20)
			}
			p.Containers = append(p.Containers, cluster.Container{Name: c.name, Index: uint8(j), Requests: requests, Limits: limits})
			if int64(i) < c.kills*3 {
				p.Containers[j].Exit = &cluster.Exit{OOM: true, Kills: 1, Finished: Now.Add(-time.Duration(16+3*i) * time.Minute)}
			}
			if c.usedMemory > 0 {
				share := 1 - float64(i%5)*0.07
				w.Samples = append(w.Samples, usage.Sample{
					Pod: p.Key, Container: c.name, At: Now, CPU: float64(c.usedCPU) / 1000 * share, Memory: float64(c.usedMemory<<20) * share, Has: cluster.Both,
				})
			}
		}
		*pods = append(*pods, p)
	}
}

func nodes(n int) []cluster.Node {
	var out []cluster.Node
	for i := range n {
		pool := "general"
		if i%5 == 4 {
			pool = "memory"
		}
		out = append(out, cluster.Node{
			Name: fmt.Sprintf("n%d", i), Allocatable: cluster.Amounts(23500, 60<<30), Ready: true, Labels: []string{"karpenter.sh/nodepool=" + pool, "kubernetes.io/os=linux"},
		})
	}
	return out
}

// historyOf returns hourly peaks of 14 days, or histograms for the default profile.
func historyOf(l *workload) overview.History {
	var h overview.History
	if !l.vpa {
		return h
	}
	for _, c := range l.containers {
		stored := overview.ContainerHistory{Name: c.name, First: Now.Add(-14 * 24 * time.Hour), Last: Now.Add(-time.Minute), Samples: 20160}
		if c.profile == "default" {
			for i := range 18 {
				share := math.Exp(-math.Pow(float64(i)-7, 2)/12) / 6.1
				stored.CPUBuckets = append(stored.CPUBuckets, overview.Bucket{From: 0.02 * float64(i), To: 0.02 * float64(i+1), Share: share})
				stored.MemoryBuckets = append(stored.MemoryBuckets, overview.Bucket{From: 150e6 * float64(i), To: 150e6 * float64(i+1), Share: share})
			}
			h.Containers = append(h.Containers, stored)
			continue
		}
		end := Now.Truncate(time.Hour)
		for hour := 14 * 24; hour >= 0; hour-- {
			at := end.Add(-time.Duration(hour) * time.Hour)
			daily := math.Max(0, math.Sin(float64(at.Hour()-5)/24*2*math.Pi))
			level := 0.34 + 0.55*daily + 0.04*math.Sin(float64(hour*7%13))
			if hour < 3 && c.kills > 0 {
				level = 1.5
			}
			if hour >= 100 && hour < 106 {
				continue // podfit did not run
			}
			stored.CPU = append(stored.CPU, overview.Peak{At: at, Value: level * float64(c.usedCPU) / 1000})
			stored.Memory = append(stored.Memory, overview.Peak{At: at, Value: level * float64(c.usedMemory<<20)})
		}
		h.Containers = append(h.Containers, stored)
	}
	return h
}

// compare adds what profiles would recommend, and how the requests changed.
func (s *Source) compare(l *workload) {
	h := s.histories[l.key()]
	if !l.vpa {
		return
	}
	for i := range l.containers {
		c := &l.containers[i]
		for _, p := range []struct {
			name    string
			percent int64
			above   int
			killed  string
		}{{c.profile, 100, 0, "no"}, {"cost", 92, 1, "unknown"}, {"critical", 114, 0, "no"}, {"default", 96, 2, "yes"}} {
			if own := p.percent == 100; own || p.name != c.profile {
				target := cluster.Amounts(c.targetCPU*p.percent/100, (c.targetMemory<<20)*p.percent/100)
				h.Profiles = append(h.Profiles, overview.ProfileSize{Container: c.name, Profile: p.name, Own: own, Target: target, DaysAbove: p.above, Days: 14, Killed: p.killed})
			}
		}
		h.Requests = append(h.Requests, overview.RequestStep{At: Now.Add(-20 * 24 * time.Hour), Container: c.name, Requests: cluster.Amounts(c.cpu*8/10, c.memory<<20*3/4)},
			overview.RequestStep{At: Now.Add(-6 * 24 * time.Hour), Container: c.name, Requests: cluster.Amounts(c.cpu, c.memory<<20)})
		if c.kills > 0 {
			h.Requests = append(h.Requests, overview.RequestStep{At: Now.Add(-16 * time.Minute), Container: c.name, Requests: cluster.Amounts(c.targetCPU, c.targetMemory<<20)})
		}
	}
	s.histories[l.key()] = h
}

func activity() []overview.Entry {
	cart := small[0].key()
	ledger := small[1].key()
	return []overview.Entry{
		{At: Now.Add(-time.Minute), Pod: cluster.Key{Namespace: "shop", Name: "cart-7d9f-a00"}, Workload: cart, VPA: "cart", Act: "resize", Reason: "OutOfMemory", Times: 3,
			Change: "app memory 1Gi → 1.2Gi", Text: "The container app was OOM-killed 8 minutes after its start."},
		{At: Now.Add(-2 * time.Minute), Pod: cluster.Key{Namespace: "shop", Name: "cart-7d9f-b01"}, Workload: cart, VPA: "cart", Act: "leave", Reason: "ResizeWaiting",
			Change: "app memory 1Gi → 1.2Gi", Text: "The node has no room for the resize. The kubelet has waited for 5 minutes."},
		{At: Now.Add(-16 * time.Minute), Pod: cluster.Key{Namespace: "pay", Name: "ledger-1"}, Workload: ledger, VPA: "ledger", Act: "evict", Reason: "BelowRange",
			Change: "db memory 4Gi → 4.6Gi", Text: "The memory request of 4Gi is below the lower bound of 4.4Gi."},
		{At: Now.Add(-34 * time.Minute), Pod: cluster.Key{Namespace: "web", Name: "front-1"}, Workload: small[5].key(), VPA: "front", Act: "leave", Reason: "SmallChange", Text: "The change is below 10 %."},
		{At: Now.Add(-34 * time.Minute), Pod: cluster.Key{Namespace: "web", Name: "front-2"}, Workload: small[5].key(), VPA: "front", Act: "leave", Reason: "SmallChange", Text: "The change is below 10 %."},
	}
}
