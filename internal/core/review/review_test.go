// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

var now = time.Date(2026, 11, 22, 15, 0, 0, 0, time.UTC)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// subject returns a subject with two weeks of usage.
func subject(name string, pods int, requests, limits, target cluster.Resources) Subject {
	w := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: name}
	s := Subject{Workload: w, Container: "app", Requests: requests, Limits: limits, Targets: []Target{{Profile: "balanced", Amount: target}}}
	for i := range pods {
		s.Places = append(s.Places, Place{Pod: fmt.Sprintf("%s-%d", name, i), Requests: requests})
	}
	s.Evidence = &Evidence{From: now.Add(-14 * 24 * time.Hour), To: now, Hours: 14 * 24, Samples: 4000}
	return s
}

// reviewed returns the row of one subject.
func reviewed(s Subject) *Row { return New(Config{Now: now}, []Subject{s}).Rows[0] }

func TestRisk_rules_giveSeverity(t *testing.T) {
	plain := func(change func(*Subject)) Subject {
		s := subject("web", 2, cluster.Amounts(1000, gib), cluster.Amounts(2000, 2*gib), cluster.Amounts(1000, gib))
		change(&s)
		return s
	}
	jvm := func(request, target int64, change func(*Subject)) Subject {
		s := subject("api", 2, cluster.Amounts(request, gib), cluster.Resources{}, cluster.Amounts(target, gib))
		s.JVM = true
		if change != nil {
			change(&s)
		}
		return s
	}
	for name, tt := range map[string]struct {
		s    Subject
		want Severity
		kind []FindingKind
	}{
		"nothing":                         {plain(func(*Subject) {}), Harmless, nil},
		"OOM kill":                        {plain(func(s *Subject) { s.Evidence.Kill(now, 1) }), SeverityHigh, []FindingKind{Killed}},
		"peak above 95 % of the limit":    {plain(func(s *Subject) { s.Evidence.DayPeaks[6] = 2*gib*95/100 + 1 }), SeverityHigh, []FindingKind{NearLimit}},
		"peak of 95 % of the limit":       {plain(func(s *Subject) { s.Evidence.DayPeaks[0] = 2 * gib * 95 / 100 }), Harmless, nil},
		"peak without a limit":            {plain(func(s *Subject) { s.Limits = cluster.Resources{}; s.Evidence.DayPeaks[0] = 100 * gib }), Harmless, nil},
		"throttled in more than 25 %":     {plain(func(s *Subject) { s.Evidence.Throttled, s.Evidence.ThrottledKnown = 0.26, true }), SeverityHigh, []FindingKind{Throttling}},
		"throttled in 25 %":               {plain(func(s *Subject) { s.Evidence.Throttled, s.Evidence.ThrottledKnown = 0.25, true }), Harmless, nil},
		"10 % below the target":           {plain(func(s *Subject) { s.Targets[0].Amount = cluster.Amounts(1111, gib) }), Harmless, nil},
		"more than 10 % below the target": {plain(func(s *Subject) { s.Targets[0].Amount = cluster.Amounts(1112, gib) }), SeverityMedium, []FindingKind{BelowTarget}},
		"far below, less than 50m": {plain(func(s *Subject) {
			s.Requests = cluster.Amounts(10, gib)
			s.Targets[0].Amount = cluster.Amounts(60, gib)
		}), Harmless, nil},
		"far below by 51m": {plain(func(s *Subject) {
			s.Requests = cluster.Amounts(10, gib)
			s.Targets[0].Amount = cluster.Amounts(61, gib)
		}), SeverityMedium, []FindingKind{BelowTarget}},
		"memory far below, 64 MiB":             {plain(func(s *Subject) { s.Requests.Memory = 16 * mib; s.Targets[0].Amount.Memory = 80 * mib }), Harmless, nil},
		"memory far below by more than 64 MiB": {plain(func(s *Subject) { s.Requests.Memory = 16 * mib; s.Targets[0].Amount.Memory = 81 * mib }), SeverityMedium, []FindingKind{BelowTarget}},
		"no request":                           {plain(func(s *Subject) { s.Requests = s.Requests.Unset(cluster.Memory) }), SeverityMedium, []FindingKind{NoRequest}},
		"JVM with 1 core":                      {jvm(1000, 1000, nil), SeverityMedium, []FindingKind{AllCores}},
		"JVM with 1 core and a CPU limit":      {jvm(1000, 1000, func(s *Subject) { s.Limits = cluster.Amounts(2000, 2*gib) }), Harmless, nil},
		"JVM with 988m":                        {jvm(988, 988, nil), Harmless, nil},
		"JVM that would have 995m":             {jvm(1500, 995, nil), SeverityMedium, []FindingKind{AllCores}},
		"JVM that keeps 1500m":                 {jvm(1500, 995, func(s *Subject) { s.Kept[0].Reason = ScaledByHPA }), Harmless, nil},
		"JVM that is too young for 995m":       {jvm(1500, 995, func(s *Subject) { s.Evidence.Hours = 5 }), Harmless, nil},
		"JVM without a request":                {jvm(0, 988, nil), SeverityMedium, []FindingKind{NoRequest}},
		"another program with 1 core":          {jvm(1000, 1000, func(s *Subject) { s.JVM = false }), Harmless, nil},
		"a 64-core service 1 % off": {plain(func(s *Subject) {
			s.Requests = cluster.Amounts(64000, gib)
			s.Targets[0].Amount = cluster.Amounts(64640, gib)
		}), Harmless, nil},
		"too young to be below its target": {plain(func(s *Subject) { s.Evidence.Hours = 5; s.Targets[0].Amount = cluster.Amounts(9000, 9*gib) }), Harmless, nil},
		"killed and too low":               {plain(func(s *Subject) { s.Evidence.Kill(now, 1); s.Targets[0].Amount = cluster.Amounts(9000, gib) }), SeverityHigh, []FindingKind{Killed, BelowTarget}},
	} {
		row := reviewed(tt.s)
		var kinds []FindingKind
		for _, f := range row.Findings {
			kinds = append(kinds, f.Kind)
		}
		if row.Risk != tt.want || !slices.Equal(kinds, tt.kind) {
			t.Errorf("%s: got risk %v from %v, want %v from %v", name, row.Risk, kinds, tt.want, tt.kind)
		}
	}
}

func TestWaste_shareOfRecoverableMoney_isHighFrom2Percent(t *testing.T) {
	// The rows free 98, 2 and 1 cores; then 2 of 101 is less than 2 %.
	free := func(name string, cores int64) Subject {
		return subject(name, 1, cluster.Amounts(1000*cores+100, gib), cluster.Resources{}, cluster.Amounts(100, gib))
	}
	got := map[string]Severity{}
	for _, subjects := range [][]Subject{{free("large", 98), free("limit", 2)}, {free("large2", 98), free("below", 2), free("small", 1)}, {subject("rises", 1, cluster.Amounts(1, gib), cluster.Resources{}, cluster.Amounts(2, gib))}} {
		for _, row := range New(Config{Now: now}, subjects).Rows {
			got[row.Workload.Name] = row.Waste
		}
	}
	want := map[string]Severity{"large": SeverityHigh, "limit": SeverityHigh, "large2": SeverityHigh, "below": SeverityLow, "small": SeverityLow, "rises": Harmless}
	for name, w := range want {
		if got[name] != w {
			t.Errorf("%s: got waste %v, want %v", name, got[name], w)
		}
	}
}

// Money is the sum over pods of (request − target) × price of the node that the pod is on × 730 h.
func TestMoney_podsOnNodesWithPrices_isSumOverPods(t *testing.T) {
	s := subject("web", 3, cluster.Amounts(2000, 4*gib), cluster.Resources{}, cluster.Amounts(500, gib))
	s.Places[0].Node, s.Places[1].Node = "a", "b"
	s.Places[1].Requests = cluster.Amounts(1000, 2*gib) // it was resized
	prices := Prices{PriceSource: PriceSource{Currency: "EUR"}, Default: Price{Core: 3, GiB: 0.3}, Nodes: map[string]Price{"a": {Core: 1, GiB: 0.1}, "b": {Core: 2, GiB: 0.2}}}
	r := New(Config{Now: now, Prices: prices}, []Subject{s})
	want := 730 * (1.5*1 + 3*0.1 + 0.5*2 + 1*0.2 + 1.5*3 + 3*0.3)
	if got := r.Money(r.Rows[0]); math.Abs(got-want) > 1e-9 {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := r.Rows[0].Freed, cluster.Amounts(3500, 7*gib); got != want {
		t.Errorf("got freed %v, want %v", got, want)
	}
	if r := New(Config{Now: now}, []Subject{s}); r.Money(r.Rows[0]) != 0 || r.Rows[0].Weight <= 0 {
		t.Errorf("without prices: got money %v and weight %v", r.Money(r.Rows[0]), r.Rows[0].Weight)
	}
}

func TestRow_keptRequest_staysAndCostsNothing(t *testing.T) {
	s := subject("web", 2, cluster.Amounts(1000, gib), cluster.Resources{}, cluster.Amounts(100, 100*mib))
	s.Kept[0] = Kept{Reason: ScaledByHPA, By: "web", Percent: 70}
	row := reviewed(s)
	if row.Request != cluster.Amounts(1000, 100*mib) || row.Freed != cluster.Amounts(0, 2*(gib-100*mib)) || row.Target != cluster.Amounts(100, 100*mib) {
		t.Errorf("got request %v, freed %v, target %v", row.Request, row.Freed, row.Target)
	}
	s.Places[0].Requests = cluster.Amounts(700, gib)
	if row := reviewed(s); row.Freed.CPU != 0 {
		t.Errorf("pods with different requests: got %d freed, want none", row.Freed.CPU)
	}
	s.Kept[0].Reason = FollowsHPA
	if row := reviewed(s); row.Request.CPU != 100 {
		t.Errorf("with a new target of the HPA: got request %v", row.Request)
	}
}

func TestRow_withoutConfidence_hasNoNumber(t *testing.T) {
	for name, change := range map[string]func(*Subject){
		"too young":         func(s *Subject) { s.Evidence.Hours = 5 },
		"cause known":       func(s *Subject) { s.Evidence.Lack = "no VPA" },
		"no recommendation": func(s *Subject) { s.Targets[0].Amount = cluster.Resources{} },
		"no target":         func(s *Subject) { s.Targets = nil },
	} {
		s := subject("web", 2, cluster.Amounts(1000, gib), cluster.Amounts(1000, gib), cluster.Amounts(100, 100*mib))
		change(&s)
		r := New(Config{Now: now}, []Subject{s})
		row := r.Rows[0]
		if row.Confidence != None || !row.Target.Has.Empty() || len(row.Targets) > 0 || row.Request != s.Requests || row.Limit != s.Limits || row.Weight != 0 || r.Summary.Young != 1 {
			t.Errorf("%s: got %+v", name, row)
		}
	}
}

func TestConfidence_hoursWithSamples_giveLevel(t *testing.T) {
	for hours, want := range map[int]Confidence{0: None, 5: None, 6: Low, 47: Low, 48: Medium, 155: Medium, 156: High, 400: High} {
		if got := (&Evidence{Hours: hours}).Confidence(); got != want {
			t.Errorf("%d hours: got %v, want %v", hours, got, want)
		}
	}
	if got := (&Evidence{Provisional: true, Samples: 2, Hours: 400}).Confidence(); got != Low {
		t.Errorf("provisional: got %v", got)
	}
	if got := (&Evidence{Provisional: true, Samples: 1, Hours: 1}).Confidence(); got != None {
		t.Errorf("one reading: got %v", got)
	}
	e := Evidence{From: now.Add(-96 * time.Hour), To: now, Hours: 48}
	if e.Days() != 4 || math.Abs(e.Share()-48.0/97) > 1e-9 {
		t.Errorf("got %d days and share %v", e.Days(), e.Share())
	}
}

func TestLimits_rules_keepLimitsAboveRequests(t *testing.T) {
	before, limits := cluster.Amounts(1000, gib), cluster.Amounts(2000, 2*gib)
	for _, tt := range []struct {
		rule   LimitRule
		after  cluster.Resources
		limits cluster.Resources
		want   cluster.Resources
	}{
		{"keep", cluster.Amounts(500, gib/2), limits, limits},
		{"keep", cluster.Amounts(2000, gib), limits, limits},
		{"keep", cluster.Amounts(3000, 4*gib), limits, cluster.Amounts(6000, 8*gib)}, // the container keeps its reserve
		{"proportional", cluster.Amounts(500, gib/2), limits, cluster.Amounts(1000, gib)},
		{"proportional", cluster.Amounts(333, 100*mib+1), limits, cluster.Amounts(666, 201*mib)},
		{"proportional", before, limits, limits},
		{"none", cluster.Amounts(500, gib), limits, cluster.Resources{}},
		{"memory-only", cluster.Amounts(500, 3*gib), limits, cluster.Resources{Memory: 6 * gib, Has: cluster.Of(cluster.Memory)}},
		{"keep", cluster.Amounts(500, gib), cluster.Resources{}, cluster.Resources{}},
	} {
		if got := tt.rule.apply(tt.limits, before, tt.after); got != tt.want {
			t.Errorf("%s, requests %v: got limits %v, want %v", tt.rule, tt.after, got, tt.want)
		}
	}
}

// fleet is a cluster of equal nodes, with a DaemonSet and one pod of each workload per node.
type fleet struct{ Config }

func newFleet(nodes int) *fleet {
	f := &fleet{Config{Now: now}}
	for i := range nodes {
		name := fmt.Sprintf("node-%03d", i)
		f.Nodes = append(f.Nodes, cluster.Node{Name: name, Ready: true, Allocatable: cluster.Amounts(4000, 16*gib)})
		f.add(cluster.Workload{Kind: "DaemonSet", Namespace: "sys", Name: "log"}, name, cluster.Amounts(200, gib))
	}
	return f
}

// add adds a pod of a workload to a node.
func (f *fleet) add(w cluster.Workload, node string, requests cluster.Resources) *cluster.Pod {
	p := &cluster.Pod{
		Key: cluster.Key{Namespace: w.Namespace, Name: fmt.Sprintf("%s-%d", w.Name, len(f.Pods))}, Controller: w, Top: w, Node: node, Phase: cluster.Running,
		Containers: []cluster.Container{{Name: "app", Requests: requests}},
	}
	f.Pods = append(f.Pods, p)
	return p
}

func web(name string) cluster.Workload {
	return cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: name}
}

// packed returns the packing with a target for each workload.
func (f *fleet) packed(target map[string]cluster.Resources) Packing {
	subjects := map[string]*Subject{}
	var order []string
	for _, p := range f.Pods {
		to, ok := target[p.Top.Name]
		if !ok {
			continue
		}
		s := subjects[p.Top.Name]
		if s == nil {
			made := subject(p.Top.Name, 0, p.Containers[0].Requests, cluster.Resources{}, to)
			made.Workload = p.Top
			s = &made
			subjects[p.Top.Name] = s
			order = append(order, p.Top.Name)
		}
		s.Places = append(s.Places, Place{Pod: p.Name, Requests: p.Containers[0].Requests})
	}
	var all []Subject
	for _, name := range order {
		all = append(all, *subjects[name])
	}
	return New(f.Config, all).Summary.Packing
}

func TestPacking_lowerRequests_letNodesGo(t *testing.T) {
	f := newFleet(4)
	for i := range 4 {
		f.add(web("api"), f.Nodes[i].Name, cluster.Amounts(3000, 8*gib))
	}
	// A node has 3,800m beside the DaemonSet: one pod of 3,000m, or three of 1,200m.
	got := f.packed(map[string]cluster.Resources{"api": cluster.Amounts(1200, 2*gib)})
	if got.Nodes != 4 || got.Gone != 2 || got.Already != 0 {
		t.Errorf("got %+v, want 2 of 4 nodes gone", got)
	}
	if got := f.packed(nil); got.Gone != 0 {
		t.Errorf("without a recommendation: got %+v", got)
	}
}

// Of two pods on two nodes, the follower needs a tenth of what the leader needs: it fits beside it, and only its own request falls.
func TestNew_podHasTheSizeOfItsRole_itIsCountedWithThat(t *testing.T) {
	f := newFleet(2)
	for i := range 2 {
		f.add(web("db"), f.Nodes[i].Name, cluster.Amounts(3000, gib))
	}
	s := subject("db", 0, cluster.Amounts(3000, gib), cluster.Resources{}, cluster.Amounts(3000, gib))
	s.Workload = f.Pods[len(f.Pods)-1].Top
	for _, p := range f.Pods {
		if p.Top == s.Workload {
			s.Places = append(s.Places, Place{Pod: p.Name, Requests: p.Containers[0].Requests})
		}
	}
	s.Places[1].Own = cluster.Resources{}.Set(cluster.CPU, 300)
	r := New(f.Config, []Subject{s})
	if sum := r.Summary; sum.Freed.CPU != 2700 || sum.Packing.Gone != 1 || r.Rows[0].Request.CPU != 3000 || r.ByNamespace().All[0].Freed.CPU != 2700 {
		t.Errorf("%+v", sum)
	}
	s.Kept[0] = Kept{Reason: NotControlled}
	if sum := New(f.Config, []Subject{s}).Summary; sum.Freed.CPU != 0 || sum.Packing.Gone != 0 {
		t.Errorf("the request is kept: %+v", sum)
	}
}

func TestPacking_daemonSets_countOnEachNode(t *testing.T) {
	f := newFleet(2)
	for i := range 2 {
		f.add(web("api"), f.Nodes[i].Name, cluster.Amounts(3000, gib))
	}
	// Two pods of 1,900m fill a node exactly beside the 200m of the DaemonSet.
	if got := f.packed(map[string]cluster.Resources{"api": cluster.Amounts(1900, gib)}); got.Gone != 1 {
		t.Errorf("got %+v, want 1 node gone", got)
	}
	if got := f.packed(map[string]cluster.Resources{"api": cluster.Amounts(1901, gib)}); got.Gone != 0 {
		t.Errorf("with 1m more: got %+v, want 0 nodes gone", got)
	}
}

// The scheduler counts an init container together with the sidecars that start before it.
func TestRequested_initContainerAfterSidecar_countsBoth(t *testing.T) {
	f := newFleet(1)
	p := f.add(web("api"), f.Nodes[0].Name, cluster.Amounts(100, gib))
	p.Containers = append(p.Containers,
		cluster.Container{Name: "first", Role: cluster.Init, Requests: cluster.Amounts(1200, gib)},
		cluster.Container{Name: "mesh", Role: cluster.Sidecar, Requests: cluster.Amounts(700, gib)},
		cluster.Container{Name: "setup", Role: cluster.Init, Requests: cluster.Amounts(1000, 4*gib)})
	if got, want := New(f.Config, nil).Summary.Requested, cluster.Amounts(200+1700, gib+5*gib); got != want {
		t.Errorf("got %v, want %v with the DaemonSet", got, want)
	}
}

func TestPacking_podsThatMayNotMove_keepTheirNodes(t *testing.T) {
	each := func(change func(*cluster.Pod)) func(*fleet, *cluster.Pod) {
		return func(f *fleet, _ *cluster.Pod) {
			for _, p := range f.Pods[2:] {
				change(p)
			}
		}
	}
	for name, change := range map[string]func(*fleet, *cluster.Pod){
		"data on the node":    each(func(p *cluster.Pod) { p.LocalData = true }),
		"unknown constraints": each(func(p *cluster.Pod) { p.Tied = true }),
		"unknown affinity":    each(func(p *cluster.Pod) { p.Place = cluster.Somewhere }),
		"no controller":       each(func(p *cluster.Pod) { p.Controller = cluster.Workload{} }),
		"selects its node": func(f *fleet, p *cluster.Pod) {
			p.Place = cluster.Selected
			f.Selectors = []cluster.NodeSelector{{Labels: []string{"disk=ssd"}}}
			f.Nodes[1].Labels = []string{"disk=ssd"}
		},
		"its node is cordoned":  func(f *fleet, _ *cluster.Pod) { f.Nodes[1].Cordoned = true },
		"its node is not ready": func(f *fleet, _ *cluster.Pod) { f.Nodes[1].Ready = false },
		"another node is tainted": func(f *fleet, _ *cluster.Pod) {
			f.Nodes[0].Tainted, f.Nodes[0].Taints = true, []cluster.Taint{{Key: "gpu", Effect: "NoSchedule"}}
			f.Pods[2].Tolerance, f.Tolerations = cluster.FirstListed, []cluster.Tolerations{{{Key: "gpu", Exists: true}}}
			f.Pods[2].LocalData = true
		},
	} {
		f := newFleet(2)
		f.add(web("api"), f.Nodes[0].Name, cluster.Amounts(100, gib))
		moves := f.add(web("api"), f.Nodes[1].Name, cluster.Amounts(100, gib))
		if got := f.packed(nil); got.Already != 1 {
			t.Fatalf("got %+v, want 1 node gone", got)
		}
		change(f, moves)
		if got := f.packed(nil); got.Already != 0 {
			t.Errorf("%s: got %+v, want no node gone", name, got)
		}
	}
}

// first-fit-decreasing needs at most 11/9 of the optimum, and never fewer nodes than the sum of the requests.
func TestPacking_manySizes_usesNoFewerNodesThanTheSum(t *testing.T) {
	f := newFleet(60)
	sum := int64(0)
	for i := range 120 {
		cpu := int64(100 + 37*i%1500)
		sum += cpu
		f.add(web(fmt.Sprint("w", i)), f.Nodes[i%60].Name, cluster.Amounts(cpu, gib/4))
	}
	got := f.packed(nil)
	least := int((sum + 3799) / 3800)
	if needed := 60 - got.Already; needed < least || needed > least*11/9+1 {
		t.Errorf("got %d nodes needed, want %d to %d", needed, least, least*11/9+1)
	}
}

// large returns a fleet in which each node has 15 pods of 5 workloads with 3 replicas.
func large(workloads int) (*fleet, map[string]cluster.Resources) {
	f := newFleet(workloads / 5)
	target := map[string]cluster.Resources{}
	for i := range workloads {
		name := fmt.Sprintf("w%05d", i)
		target[name] = cluster.Amounts(int64(50+i%200), int64(64+i%300)*mib)
		for k := range 3 {
			f.add(web(name), f.Nodes[(i*3+k)%len(f.Nodes)].Name, cluster.Amounts(250, 512*mib))
		}
	}
	return f, target
}

// The work grows almost in proportion to the number of workloads, although each pod may be on any node.
func TestPacking_work_growsAlmostLinearly(t *testing.T) {
	steps := func(workloads int) float64 {
		f, target := large(workloads)
		return float64(f.packed(target).steps) / float64(workloads)
	}
	small, big := steps(500), steps(5000)
	if big > 2*small {
		t.Errorf("got %.0f steps per workload with 5,000 workloads, and %.0f with 500", big, small)
	}
}

func BenchmarkNew_5000Workloads(b *testing.B) {
	f, target := large(5000)
	b.ReportAllocs()
	for b.Loop() {
		f.packed(target)
	}
}

func TestGroups_ofPods_sumToTheReport(t *testing.T) {
	f := newFleet(2)
	f.Nodes[0].Labels, f.Nodes[1].Labels = []string{"karpenter.sh/nodepool=general"}, []string{"eks.amazonaws.com/nodegroup=spot", "node.kubernetes.io/instance-type=m6i.large"}
	s := subject("web", 3, cluster.Amounts(1000, gib), cluster.Resources{}, cluster.Amounts(100, gib))
	s.Places[0].Node, s.Places[1].Node = f.Nodes[0].Name, f.Nodes[1].Name
	s.Evidence.Kill(now, 1)
	r := New(f.Config, []Subject{s})
	pools := r.ByPool()
	got := map[string]Group{}
	for _, g := range pools.All {
		got[g.Name] = g
	}
	if len(got) != 3 || got["general"].Pods != 1 || got["spot"].Freed.CPU != 900 || got[""].Workloads != 1 || got[""].AtRisk != 1 {
		t.Errorf("got %+v", pools)
	}
	if all := r.ByNamespace().All; len(all) != 1 || all[0].Name != "shop" || all[0].Pods != 3 || math.Abs(all[0].Weight-r.Rows[0].Weight) > 1e-9 {
		t.Errorf("by namespace: got %+v", all)
	}
	byLabel := r.ByLabel("team", map[cluster.Key]string{{Namespace: "shop", Name: "web-0"}: "a"})
	if len(byLabel.All) != 2 || byLabel.By != "team" {
		t.Errorf("by label: got %+v", byLabel)
	}
}

func TestNew_orderOfSubjects_doesNotChangeTheReport(t *testing.T) {
	var subjects []Subject
	for i := range 20 {
		s := subject(fmt.Sprint("w", i), 1+i%3, cluster.Amounts(int64(100*(i%4)), gib), cluster.Resources{}, cluster.Amounts(150, gib))
		if i%5 == 0 {
			s.Evidence.Kill(now, 1)
		}
		subjects = append(subjects, s)
	}
	names := func(r *Report) (out []string) {
		for i := range r.Rows {
			out = append(out, r.Rows[i].Workload.Name)
		}
		return out
	}
	want := names(New(Config{Now: now}, subjects))
	slices.Reverse(subjects)
	if got := names(New(Config{Now: now}, subjects)); !slices.Equal(got, want) {
		t.Errorf("got order %v, want %v", got, want)
	}
}

// A node may be short of memory if the peaks of its pods of one day exceed it together. Peaks of different days do not add up. Without a peak, a pod counts
// with its request.
func TestPacking_peaksOfADay_tellWhichNodesMayBeShort(t *testing.T) {
	short := func(packs bool, days ...[PeakDays]int64) *int {
		f := newFleet(1)
		f.Nodes[0].Allocatable = cluster.Amounts(8000, 16*gib)
		var subjects []Subject
		for i, peaks := range days {
			w := web(fmt.Sprint("api-", i))
			f.add(w, f.Nodes[0].Name, cluster.Amounts(1000, 7*gib))
			s := subject(w.Name, 0, cluster.Amounts(1000, 7*gib), cluster.Resources{}, cluster.Amounts(1000, 2*gib))
			s.Workload, s.Packs = w, packs
			s.Evidence.DayPeaks = peaks
			subjects = append(subjects, s)
		}
		return New(f.Config, subjects).Summary.Packing.Short
	}
	for name, c := range map[string]struct {
		days []([PeakDays]int64)
		want int
	}{
		"one day":        {[]([PeakDays]int64){{0, 8 * gib}, {0, 8 * gib}}, 1},
		"two days":       {[]([PeakDays]int64){{8 * gib, gib}, {gib, 8 * gib}}, 0},
		"below the line": {[]([PeakDays]int64){{1, 7 * gib}, {1, 7 * gib}}, 0},
		"not known":      {[]([PeakDays]int64){{0, 9 * gib}, {}}, 1}, // and 7 GiB
	} {
		if got := short(true, c.days...); got == nil || *got != c.want {
			t.Errorf("%s: got %v, want %d", name, got, c.want)
		}
	}
	if got := short(false, [PeakDays]int64{16 * gib}); got != nil {
		t.Errorf("another profile: got %d, want nothing", *got)
	}
}
