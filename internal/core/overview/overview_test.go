// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"podfit.dev/podfit/internal/core/capacity"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/histogram"
	"podfit.dev/podfit/internal/core/hourly"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/core/usage"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func deployment(namespace, name string) cluster.Workload {
	return cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: namespace, Name: name}
}

// pod returns a running pod of a workload with one container.
func pod(w cluster.Workload, name string, requests cluster.Resources) *cluster.Pod {
	return &cluster.Pod{
		Key: cluster.Key{Namespace: w.Namespace, Name: name}, UID: w.String() + name, Controller: w, Top: w, Node: "n1", Phase: cluster.Running,
		Containers: []cluster.Container{{Name: "app", Requests: requests, Limits: cluster.Resources{}.Set(cluster.Memory, 1000<<20)}},
	}
}

func autoscaler(w cluster.Workload, target cluster.Resources) *cluster.Autoscaler {
	return &cluster.Autoscaler{Key: cluster.Key{Namespace: w.Namespace, Name: "vpa-" + w.Name}, Target: w, Advice: []cluster.Advice{{
		Container: "app", Estimate: cluster.Estimate{
			Lower: cluster.Amounts(target.CPU*9/10, target.Memory*9/10), Target: target, Upper: cluster.Amounts(target.CPU*11/10, target.Memory*11/10),
		},
	}}}
}

func worldOf(pods []*cluster.Pod, autoscalers ...*cluster.Autoscaler) *World {
	return &World{Now: now, Snapshot: cluster.NewSnapshot(pods, autoscalers), Evidence: enough(autoscalers), Nodes: []cluster.Node{
		{Name: "n1", Ready: true, Allocatable: cluster.Amounts(4000, 8<<30), Labels: []string{"karpenter.sh/nodepool=general"}},
		{Name: "n2", Ready: false, Allocatable: cluster.Amounts(4000, 8<<30), Labels: []string{"karpenter.sh/nodepool=general"}},
	}}
}

// enough returns evidence of ten days for each container with a recommendation.
func enough(autoscalers []*cluster.Autoscaler) map[usage.Ref]*review.Evidence {
	out := map[usage.Ref]*review.Evidence{}
	for _, a := range autoscalers {
		for i := range a.Advice {
			out[usage.Ref{Workload: a.Target, Container: a.Advice[i].Container}] = &review.Evidence{From: now.AddDate(0, 0, -10), To: now, Hours: 240, Samples: 14400}
		}
	}
	return out
}

const mi = int64(1) << 20

// What is not known is no good news: without stored usage nothing is recommended or given back, and no workload counts as one without risk. The
// risks that pods show are known.
func TestOf_storedUsageIsNotKnown_noWorkloadIsJudged(t *testing.T) {
	web, killed, bare := deployment("shop", "web"), deployment("shop", "killed"), deployment("shop", "bare")
	pods := []*cluster.Pod{
		pod(web, "a", cluster.Amounts(500, 600*mi)), pod(killed, "b", cluster.Amounts(500, 600*mi)), pod(bare, "c", cluster.Amounts(500, 600*mi)),
	}
	pods[1].Containers[0].Exit = &cluster.Exit{OOM: true, Finished: now.Add(-time.Hour)}
	autoscalers := []*cluster.Autoscaler{autoscaler(web, cluster.Amounts(100, 100*mi)), autoscaler(killed, cluster.Amounts(100, 100*mi))}
	w := worldOf(pods, autoscalers...)
	w.Evidence, w.Unread = nil, "its stored usage could not be read"
	o := Of(w)
	for name, want := range map[string]struct {
		risk review.Severity
		lack string
	}{"web": {review.Harmless, w.Unread}, "killed": {review.SeverityHigh, w.Unread}, "bare": {review.Harmless, "no VPA, so its usage is not stored"}} {
		row := o.Row("shop", "Deployment", name, "")
		if row.Risk != want.risk || row.Unjudged != want.lack || row.Freed != (cluster.Resources{}) || row.Containers[0].Confidence != review.None || row.Totals.Recommended != row.Totals.Requested {
			t.Errorf("%s: risk %v, not judged because %q, frees %v, recommended %v", name, row.Risk, row.Unjudged, row.Freed, row.Totals.Recommended)
		}
	}
	lacks, n := o.Lacks()
	if diff := cmp.Diff([]Lack{{w.Unread, 1}, {"no VPA, so its usage is not stored", 1}}, lacks); diff != "" || n != 2 {
		t.Errorf("%d workloads are not judged:\n%s", n, diff)
	}
	unread := worldOf(pods)
	unread.Evidence, unread.NoAutoscalers = nil, true
	if lacks, n := Of(unread).Lacks(); n != 2 || lacks[0].Why != "VPAs are not known" {
		t.Errorf("without the right to list VPAs, %d workloads are not judged: %v", n, lacks)
	}
	w.Evidence = enough(autoscalers)
	if row := Of(w).Row("shop", "Deployment", "web", ""); row.Unjudged != "" || row.Freed != cluster.Amounts(400, 500*mi) {
		t.Errorf("with stored usage: %+v", row)
	}
}

// A workload without pods, such as a CronJob between two runs, counts neither as judged nor as without risk.
func TestOf_noPodIsRunning_workloadIsNotJudged(t *testing.T) {
	job := cluster.Workload{Group: "batch", Kind: "CronJob", Namespace: "shop", Name: "report"}
	a := autoscaler(job, cluster.Amounts(100, 100*mi))
	w := worldOf(nil, a)
	w.Evidence = enough([]*cluster.Autoscaler{a})
	if lacks, n := Of(w).Lacks(); n != 1 || lacks[0].Why != "no pod of it is running" {
		t.Errorf("%d workloads are not judged: %v", n, lacks)
	}
}

// The causes are as few as a person reads, and count all workloads.
func TestLacks_manyCauses_rareOnesAreOne(t *testing.T) {
	o := &Overview{Rows: []*Row{{Risk: review.SeverityHigh, Unjudged: "a"}, {}}}
	for i, n := range []int{1, 5, 2, 1, 3, 1} {
		for range n {
			o.Rows = append(o.Rows, &Row{Unjudged: fmt.Sprint("cause ", i)})
		}
	}
	lacks, n := o.Lacks()
	if diff := cmp.Diff([]Lack{{"cause 1", 5}, {"cause 4", 3}, {"cause 2", 2}, {"other causes", 3}}, lacks); diff != "" || n != 13 {
		t.Errorf("%d workloads:\n%s", n, diff)
	}
}

func TestOf_podsOfAllKinds_totalsAreSumsOfLivePods(t *testing.T) {
	web := deployment("shop", "web")
	cold := deployment("shop", "cold")
	pods := []*cluster.Pod{
		pod(web, "a", cluster.Amounts(500, 600*mi)), pod(web, "b", cluster.Amounts(200, 300*mi)), pod(cold, "c", cluster.Amounts(100, 100*mi)),
		pod(web, "gone", cluster.Amounts(1000, 1000*mi)), pod(web, "place", cluster.Amounts(1000, 1000*mi)),
	}
	pods[0].Containers = append(pods[0].Containers, cluster.Container{Name: "setup", Role: cluster.Init, Requests: cluster.Amounts(600, 500*mi)}) // the scheduler counts the larger sum
	pods[3].Phase = cluster.Succeeded
	pods[4].Placeholder = true
	bare := &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: "bare"}, Phase: cluster.Running, Containers: []cluster.Container{{Name: "x", Requests: cluster.Amounts(10, 10*mi)}}}
	w := worldOf(append(pods, bare), autoscaler(web, cluster.Amounts(200, 300*mi)))
	w.Samples = []usage.Sample{
		{Pod: pods[0].Key, Container: "app", At: now, CPU: 0.15, Memory: float64(200 * mi), Has: cluster.Both},
		{Pod: pods[1].Key, Container: "app", At: now, CPU: 0.05, Has: cluster.Of(cluster.CPU)},
	}
	o := Of(w)
	want := Totals{
		Requested: cluster.Amounts(910, 1010*mi), Recommended: cluster.Amounts(910, 910*mi), Used: cluster.Amounts(200, 200*mi), Capacity: cluster.Amounts(4000, 8<<30), // n2 is not ready
	}
	if diff := cmp.Diff(want, o.Totals); diff != "" {
		t.Error(diff)
	}
	if o.Pods != 4 || len(o.Rows) != 3 {
		t.Errorf("%d pods, %d rows", o.Pods, len(o.Rows))
	}
	row := o.Row("shop", "Deployment", "web", "")
	if row == nil || row.Pods != 2 || row.Sized != 1 || row.Freed != cluster.Amounts(300, 300*mi) || row.VPA != "vpa-web" || row.Profile != "default" || row.Mode != "Recreate" {
		t.Errorf("row %+v", row)
	}
	if got := row.Containers[0]; got.Outside != cluster.Amounts(500, 600*mi) || got.Fits() || got.Used != cluster.Amounts(150, 200*mi) {
		t.Errorf("container %+v", got)
	}
	if o.Row("shop", "Pod", "bare", "") == nil || o.Row("shop", "Deployment", "bare", "") != nil || o.Row("shop", "Deployment", "web", "other") != nil {
		t.Error("rows are not found by their workload")
	}
	if len(o.Pools) != 1 || o.Pools[0].Nodes != 2 || o.Pools[0].Schedulable != 1 || o.Pools[0].Fit[1].Node != "n1" || o.Pools[0].Fit[1].Free != cluster.Amounts(4000-1900, 8<<30-2000*mi) {
		t.Errorf("pools %+v", o.Pools)
	}
}

// The order of objects has no effect.
func TestOf_otherOrderOfObjects_sameOverview(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var pods []*cluster.Pod
	var autoscalers []*cluster.Autoscaler
	for i := range 40 {
		w := deployment(fmt.Sprint("ns", i%7), fmt.Sprint("w", i%13))
		pods = append(pods, pod(w, fmt.Sprint("p", i), cluster.Amounts(int64(r.IntN(500)), int64(r.IntN(500))*mi)))
		autoscalers = append(autoscalers, autoscaler(w, cluster.Amounts(200, 200*mi)))
		autoscalers[i].Name += fmt.Sprint(i)
		autoscalers[i].Created = now.Add(time.Duration(r.IntN(3)) * time.Hour)
	}
	want := Of(worldOf(slices.Clone(pods), autoscalers...))
	for range 10 {
		r.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
		r.Shuffle(len(autoscalers), func(i, j int) { autoscalers[i], autoscalers[j] = autoscalers[j], autoscalers[i] })
		if diff := cmp.Diff(want, Of(worldOf(slices.Clone(pods), autoscalers...)), cmpopts.IgnoreUnexported(Container{}, Row{}, review.Row{})); diff != "" {
			t.Fatal(diff)
		}
	}
}

func TestRisk_eachCause_isRecognized(t *testing.T) {
	w := deployment("shop", "web")
	for name, c := range map[string]struct {
		change func(*World, *cluster.Pod, *cluster.Autoscaler)
		risk   review.Severity
		why    string
	}{
		"none": {func(*World, *cluster.Pod, *cluster.Autoscaler) {}, review.Harmless, ""},
		"OOM kill": {func(_ *World, p *cluster.Pod, _ *cluster.Autoscaler) {
			p.Containers[0].Exit = &cluster.Exit{OOM: true, Finished: now.Add(-time.Hour)}
		}, review.SeverityHigh, "Container app: killed for memory at least 1× since 11:00 UTC"},
		"OOM kill, old size": {func(_ *World, p *cluster.Pod, a *cluster.Autoscaler) {
			p.Containers[0].Exit = &cluster.Exit{OOM: true, Kills: 3, Finished: now.Add(-time.Hour)}
			p.Containers[0].Requests = cluster.Amounts(200, 100*mi)
		}, review.SeverityHigh, "Container app: killed for memory at least 3× since 11:00 UTC; memory request 67 % below need; 0 of 1 pod has the new size"},
		"stored OOM kill": {func(w *World, _ *cluster.Pod, a *cluster.Autoscaler) {
			w.Evidence = map[usage.Ref]*review.Evidence{{Workload: a.Target, Container: "app"}: {Hours: 100, Kills: 1, KilledFrom: now.Add(-72 * time.Hour), KilledLast: now.Add(-72 * time.Hour)}}
		}, review.SeverityHigh, "Container app: killed for memory at least 1× since Thu"},
		"stored peak near the limit": {func(w *World, _ *cluster.Pod, a *cluster.Autoscaler) {
			w.Evidence = map[usage.Ref]*review.Evidence{{Workload: a.Target, Container: "app"}: {Hours: 100, DayPeaks: [review.PeakDays]int64{0, 970 * mi, 0, 980 * mi}}}
		}, review.SeverityHigh, "Container app: peak 98 % of its limit on 2 days"},
		"old OOM kill": {func(_ *World, p *cluster.Pod, _ *cluster.Autoscaler) {
			p.Containers[0].Exit = &cluster.Exit{OOM: true, Finished: now.Add(-15 * 24 * time.Hour)}
		}, review.Harmless, ""},
		"near the limit": {func(w *World, p *cluster.Pod, _ *cluster.Autoscaler) {
			w.Samples = []usage.Sample{{Pod: p.Key, Container: "app", At: now, Memory: float64(960 * mi), Has: cluster.Of(cluster.Memory)}}
		}, review.SeverityHigh, "Container app: peak 96 % of its limit on 1 day"},
		"near the limit, long ago": {func(w *World, p *cluster.Pod, _ *cluster.Autoscaler) {
			w.Samples = []usage.Sample{{Pod: p.Key, Container: "app", At: now.Add(-time.Hour), Memory: float64(960 * mi), Has: cluster.Of(cluster.Memory)}}
		}, review.Harmless, ""},
		"memory far below": {func(_ *World, p *cluster.Pod, _ *cluster.Autoscaler) {
			p.Containers[0].Requests = cluster.Amounts(200, 200*mi)
		}, review.SeverityMedium, "Container app: memory request 33 % below need"},
		"memory far below, too young": {func(w *World, p *cluster.Pod, a *cluster.Autoscaler) {
			p.Containers[0].Requests = cluster.Amounts(200, 200*mi)
			w.Evidence = map[usage.Ref]*review.Evidence{{Workload: a.Target, Container: "app"}: {Hours: 5}}
		}, review.Harmless, ""},
		"a little below": {func(_ *World, p *cluster.Pod, _ *cluster.Autoscaler) {
			p.Containers[0].Requests = cluster.Amounts(160, 240*mi)
		}, review.Harmless, ""},
		"CPU kept for an HPA": {func(_ *World, p *cluster.Pod, a *cluster.Autoscaler) {
			p.Containers[0].Requests = cluster.Amounts(20, 300*mi)
			a.Horizontal = []*cluster.HorizontalAutoscaler{{Target: w, Utilization: []cluster.UtilizationTarget{{Resource: cluster.CPU, Percent: 70}}}}
		}, review.SeverityMedium, "Container app: CPU request 90 % below need"},
		"CPU far below": {func(_ *World, p *cluster.Pod, _ *cluster.Autoscaler) {
			p.Containers[0].Requests = cluster.Amounts(100, 300*mi)
		}, review.SeverityMedium, "Container app: CPU request 50 % below need"},
		"no request": {func(_ *World, p *cluster.Pod, _ *cluster.Autoscaler) {
			p.Containers[0].Requests = cluster.Resources{}.Set(cluster.CPU, 200)
		}, review.SeverityMedium, "Container app: no memory request"},
		"sidecar without request": {func(_ *World, p *cluster.Pod, _ *cluster.Autoscaler) {
			p.Containers = append(p.Containers, cluster.Container{Name: "mesh", Role: cluster.Sidecar})
		}, review.SeverityMedium, "Container mesh: no CPU request; no memory request"},
		"sidecar without request that is not sized": {func(_ *World, p *cluster.Pod, _ *cluster.Autoscaler) {
			p.Containers = append(p.Containers, cluster.Container{Name: "mesh", Role: cluster.FixedSidecar})
		}, review.Harmless, ""},
	} {
		p := pod(w, "a", cluster.Amounts(200, 300*mi))
		a := autoscaler(w, cluster.Amounts(200, 300*mi))
		in := worldOf([]*cluster.Pod{p}, a)
		c.change(in, p, a)
		row := Of(in).Row("shop", "Deployment", "web", "")
		if row.Risk != c.risk || row.Why != c.why {
			t.Errorf("%s: risk %v because %q, want %v because %q", name, row.Risk, row.Why, c.risk, c.why)
		}
	}
}

func TestSelect_filterOrderAndPage_rowsAreThoseThatMatch(t *testing.T) {
	var pods []*cluster.Pod
	var autoscalers []*cluster.Autoscaler
	for i := range 25 {
		w := deployment(fmt.Sprint("ns", i%3), fmt.Sprintf("w%02d", i))
		p := pod(w, w.Name, cluster.Amounts(int64(100+i*10), int64(100+i)*mi))
		if i == 7 {
			p.Containers[0].Exit = &cluster.Exit{OOM: true, Finished: now}
		}
		pods = append(pods, p)
		if i != 3 {
			autoscalers = append(autoscalers, autoscaler(w, cluster.Amounts(50, 90*mi)))
		}
	}
	o := Of(worldOf(pods, autoscalers...))
	for name, c := range map[string]struct {
		q     Query
		total int
		first string
	}{
		"all": {Query{Size: 10}, 25, "w07"}, "text": {Query{Text: "W1", Size: 10}, 10, "w19"}, "namespace": {Query{Namespace: "ns1", Size: 10}, 8, "w07"},
		"high": {Query{Risk: "high", Size: 10}, 1, "w07"}, "any": {Query{Risk: "any", Size: 10}, 1, "w07"}, "medium": {Query{Risk: "medium", Size: 10}, 0, ""},
		"without": {Query{VPA: "without", Size: 10}, 1, "w03"}, "with": {Query{VPA: "with", Size: 10}, 24, "w07"},
		"cpu": {Query{Order: ByCPU, Size: 10}, 25, "w24"}, "memory": {Query{Order: ByMemory, Size: 10}, 25, "w24"}, "savings": {Query{Order: BySavings, Size: 10}, 25, "w24"},
		"pods": {Query{Order: ByPods, Size: 10}, 25, "w00"}, "name": {Query{Order: ByName, Size: 10}, 25, "w00"}, "unknown order": {Query{Order: "x", Size: 10}, 25, "w07"},
		"second page": {Query{Order: ByName, Page: 2, Size: 10}, 25, "w10"}, "page after the last": {Query{Order: ByName, Page: 9, Size: 10}, 25, "w20"},
		"negative page": {Query{Order: ByName, Page: -9, Size: 10}, 25, "w00"}, "no size": {Query{Order: ByName}, 25, "w00"},
	} {
		s := o.Select(c.q)
		first := ""
		if len(s.Rows) > 0 {
			first = s.Rows[0].Workload.Name
		}
		if s.Total != c.total || first != c.first {
			t.Errorf("%s: %d rows, the first %q; want %d and %q", name, s.Total, first, c.total, c.first)
		}
	}
	if got := o.Namespaces(); !slices.Equal(got, []string{"ns0", "ns1", "ns2"}) {
		t.Errorf("namespaces %q", got)
	}
}

func TestVisible_viewerWithSomeNamespaces_seesOnlyThese(t *testing.T) {
	a, b := deployment("a", "x"), deployment("b", "y")
	pods := []*cluster.Pod{pod(a, "1", cluster.Amounts(100, mi)), pod(b, "2", cluster.Amounts(10, mi))}
	for _, p := range pods {
		p.Resize = &cluster.Resize{State: cluster.ResizeDeferred, Since: now}
	}
	o := Of(worldOf(pods))
	entries := []Entry{{Pod: pods[0].Key}, {Pod: pods[1].Key}}
	v := Viewer{Namespaces: map[string]bool{"b": true}}
	part := o.Visible(&v)
	if len(part.Rows) != 1 || part.Totals.Requested != cluster.Amounts(10, mi) || !part.Totals.Capacity.Has.Empty() || len(part.Pools) != 0 || len(part.Resizes) != 1 || part.Pods != 1 {
		t.Errorf("part %+v", part)
	}
	if got := VisibleEntries(entries, &v); len(got) != 1 || got[0].Pod != pods[1].Key {
		t.Errorf("entries %+v", got)
	}
	none := Viewer{}
	all := Viewer{All: true}
	if len(o.Visible(&none).Rows) != 0 || o.Visible(&all) != o || len(VisibleEntries(entries, &all)) != 2 || none.Sees("a") || !all.Sees("a") {
		t.Error("viewers with all or no rights see something else")
	}
}

// decide returns a decision about a pod.
func decide(p *cluster.Pod, act decision.Act, code decision.ReasonCode) decision.Decision {
	return decision.Decision{Pod: p, Do: act, Reason: decision.Reason{Code: code}, Wanted: decision.Reason{Code: decision.BelowRange},
		Autoscaler: &cluster.Autoscaler{Key: cluster.Key{Namespace: p.Namespace, Name: "vpa"}},
		With:       []policy.Fitted{{Container: "app", Requests: cluster.Amounts(200, 300*mi)}}}
}

func TestJournal_podLeftUnchangedInEachPass_isRecordedOnce(t *testing.T) {
	w := deployment("shop", "web")
	p, q := pod(w, "a", cluster.Amounts(100, 300*mi)), pod(w, "b", cluster.Resources{}.Set(cluster.Memory, 300*mi))
	fits := decide(q, decision.Leave, decision.Fits)
	fits.Wanted.Code = decision.Fits
	var j Journal
	for i := range 5 {
		j.Record(now.Add(time.Duration(i)*time.Minute), []decision.Decision{decide(p, decision.Leave, decision.BudgetSpent), fits})
	}
	j.Record(now.Add(time.Hour), []decision.Decision{decide(p, decision.Leave, decision.NotReady), decide(q, decision.Resize, decision.BelowRange)})
	got := j.Entries()
	if len(got) != 3 || got[0].Act != "resize" || got[1].Reason != "NotReady" || got[2].Reason != "BudgetSpent" || !j.Since.Equal(now) {
		t.Fatalf("entries %+v", got)
	}
	if got[0].Change != "app CPU none → 200m" || got[2].Change != "app CPU 100m → 200m" || got[0].VPA != "vpa" || got[0].Workload != w {
		t.Errorf("entries %+v", got)
	}
}

// The text of a change has no amount that rounding does not change.
func TestEntryOf_changeIsTooSmallToBeSeen_isLeftOut(t *testing.T) {
	p := pod(deployment("shop", "web"), "a", cluster.Amounts(400, 363*mi-5000))
	d := decision.Decision{Pod: p, Do: decision.Resize, With: []policy.Fitted{{Container: "app", Requests: cluster.Amounts(500, 363*mi)}}}
	if got := EntryOf(now, &d).Change; got != "app CPU 400m → 500m" {
		t.Errorf("the change is %q", got)
	}
}

func TestJournal_manyDecisions_newestAreKept(t *testing.T) {
	var j Journal
	w := deployment("shop", "web")
	for i := range journalSize + 10 {
		j.Record(now.Add(time.Duration(i)*time.Second), []decision.Decision{decide(pod(w, fmt.Sprint(i), cluster.Resources{}), decision.Evict, decision.BelowRange)})
	}
	got := j.Entries()
	if len(got) != journalSize || got[0].Pod.Name != fmt.Sprint(journalSize+9) || got[journalSize-1].Pod.Name != "10" {
		t.Errorf("%d entries from %s to %s", len(got), got[len(got)-1].Pod.Name, got[0].Pod.Name)
	}
}

func TestGrouped_podsLeftForSameReason_areOneEntry(t *testing.T) {
	at := now.Add(-time.Hour)
	entries := []Entry{
		{At: now, Act: "evict", Reason: "A"}, {At: now, Act: "evict", Reason: "A"}, {At: now, Act: "leave", Reason: "B"}, {At: now, Act: "leave", Reason: "B"},
		{At: at, Act: "leave", Reason: "B"}, {At: at, Act: "delete", Reason: "A"}, {At: at, Act: "surge", Reason: "A"}, {At: at, Act: "resize", Reason: "Reverted", Times: 2},
	}
	got := Grouped(entries)
	if len(got) != 7 || got[2].Pods != 2 || got[3].Pods != 1 {
		t.Errorf("groups %+v", got)
	}
	if diff := cmp.Diff(Counts{Evicted: 2, Left: 3, Deleted: 1, Surged: 1, Resized: 2, Reverted: 2}, CountSince(got, at)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(Counts{Evicted: 2, Left: 2}, CountSince(got, now)); diff != "" {
		t.Error(diff)
	}
}

func TestPeaksOf_hoursWithoutSamples_areAbsent(t *testing.T) {
	peaks := hourly.NewPeaks(24 * 20)
	first := int(now.Unix() / 3600)
	for hour := range 24 * 16 {
		if hour%24 != 5 {
			peaks.Observe(first+hour, float64(hour+1))
		}
	}
	got := PeaksOf(&peaks, 14)
	if len(got) != 14*23 || !got[len(got)-1].At.Equal(now.Add((24*16-1)*time.Hour)) || got[len(got)-1].Value < 24*16 {
		t.Errorf("%d peaks, the last %+v", len(got), got[len(got)-1])
	}
	var none hourly.Peaks
	if PeaksOf(&none, 14) != nil {
		t.Error("no samples have peaks")
	}
}

func TestBucketsOf_wideHistogram_sharesAddUpToOne(t *testing.T) {
	h := histogram.New(histogram.Memory, 24*time.Hour)
	for i := range 1000 {
		h.AddNanos(1e7*float64(i), 1, now.UnixNano())
	}
	got := BucketsOf(&h)
	sum := 0.0
	for i, b := range got {
		sum += b.Share
		if b.From >= b.To || i > 0 && b.From < got[i-1].To {
			t.Errorf("bucket %d is %+v", i, b)
		}
	}
	if len(got) > maxBuckets || sum < 0.97 || sum > 1.001 {
		t.Errorf("%d buckets with a sum of %v", len(got), sum)
	}
	empty := histogram.New(histogram.CPU, 24*time.Hour)
	if BucketsOf(&empty) != nil {
		t.Error("an empty histogram has buckets")
	}
}

func TestSurplusOf_prices_moneyFollowsNodeOfEachPod(t *testing.T) {
	web, hpa := deployment("shop", "web"), deployment("shop", "hpa")
	pods := []*cluster.Pod{pod(web, "a", cluster.Amounts(2000, 2<<30)), pod(web, "b", cluster.Amounts(2000, 2<<30)), pod(hpa, "c", cluster.Amounts(1000, 1<<30))}
	pods[1].Node = "n2"
	scaled := autoscaler(hpa, cluster.Amounts(100, 1<<30))
	scaled.Horizontal = []*cluster.HorizontalAutoscaler{{Target: hpa, Utilization: []cluster.UtilizationTarget{{Resource: cluster.CPU, Percent: 70}}}}
	w := worldOf(pods, autoscaler(web, cluster.Amounts(1000, 1<<30)), scaled)
	w.Nodes[1].Ready = true
	w.AllPods = true
	w.Prices = review.Prices{PriceSource: review.PriceSource{Currency: "EUR"}, Nodes: map[string]review.Price{"n1": {Core: 1}, "n2": {Core: 3, GiB: 1}}}
	got := SurplusOf(w, Of(w))
	want := float64(1+3+1) * review.HoursPerMonth
	if got.Money[web] != want || got.Total != want || got.Money[hpa] != 0 || got.Currency != "EUR" {
		t.Errorf("surplus %+v, want %v for web", got, want)
	}
	if !got.Packing.Known || got.Packing.Gone != 1 {
		t.Errorf("packing %+v", got.Packing)
	}
	w.AllPods = false
	w.Prices = review.Prices{}
	if got := SurplusOf(w, Of(w)); got.Packing.Known || got.Money != nil || got.Total != 0 {
		t.Errorf("without prices and other pods: %+v", got)
	}
}

// A pool has one name and one capacity, on the page and in the CapacityPlan.
func TestPools_nodesWithLabelsAndRoles_haveTheNamesAndCapacityOfTheCapacityPlan(t *testing.T) {
	node := func(name string, labels ...string) cluster.Node {
		return cluster.Node{Name: name, Ready: true, Labels: labels, Allocatable: cluster.Amounts(3900, 15<<30), Capacity: cluster.Amounts(4000, 16<<30)}
	}
	nodes := []cluster.Node{
		node("a", "karpenter.sh/nodepool=general", "node.kubernetes.io/instance-type=m6i"), node("b", "node.kubernetes.io/instance-type=m6i"),
		node("c", "node-role.kubernetes.io/worker="), node("d", "node-role.kubernetes.io/worker="), node("e", "team=red"), node("f"), node("g"),
	}
	nodes[3].Cordoned, nodes[6].Ready = true, false
	rules := capacity.Rules{Pools: []capacity.Rule{{Pool: "red", Labels: []string{"team=red"}}, {Pool: "big", Labels: []string{"node.kubernetes.io/instance-type=m6i"}}}}
	for name, tt := range map[string]struct {
		rules capacity.Rules
		want  string
	}{
		"labels and roles": {capacity.Rules{}, "general, m6i, other, worker"},
		"rules":            {rules, "big, other, red, worker"},
		"own label":        {capacity.Rules{PoolLabel: "team"}, "other, red"},
	} {
		for _, whole := range []bool{true, false} {
			w := &World{Snapshot: cluster.NewSnapshot(nil, nil), Nodes: nodes, Rules: tt.rules, WholeNodes: whole}
			o := Of(w)
			want, _ := capacity.Measure(&capacity.World{Snapshot: w.Snapshot, Nodes: nodes, Rules: tt.rules, Allocatable: !whole})
			for i := range want {
				want[i].Loads = nil
			}
			var names []string
			var sum cluster.Resources
			for i := range o.Pools {
				names = append(names, o.Pools[i].Name)
				sum = sum.Add(o.Pools[i].Capacity)
			}
			if !reflect.DeepEqual(o.Pools, want) {
				t.Errorf("%s, whole nodes %t: pools %+v differ from the plan %+v", name, whole, o.Pools, want)
			}
			if got := strings.Join(names, ", "); got != tt.want || o.Totals.Capacity != sum {
				t.Errorf("%s: pools %s, want %s; capacity %v, pools have %v", name, got, tt.want, o.Totals.Capacity, sum)
			}
		}
	}
}

// Followers have the size of their group, so they need no more, although the recommendation of the VPA is that of the leader.
func TestOf_podsHaveTheSizeOfTheirRole_workloadHasNoRisk(t *testing.T) {
	w := cluster.Workload{Group: "apps", Kind: "StatefulSet", Namespace: "shop", Name: "db"}
	a := autoscaler(w, cluster.Amounts(930, 620<<20))
	a.Mode, a.Rules.RoleLabel = cluster.InPlaceOrRecreate, "role"
	a.Advice[0].Groups = []cluster.GroupSize{{Role: "follower", Target: cluster.Resources{}.Set(cluster.CPU, 300)}}
	var pods []*cluster.Pod
	for i, role := range []string{"leader", "follower", "follower"} {
		p := pod(w, fmt.Sprintf("db-%d", i), cluster.Amounts(300, 620<<20))
		p.Marks = &cluster.Marks{Labels: "role=" + role}
		p.Created = now.Add(time.Duration(i) * time.Minute)
		if role == "leader" {
			p.Containers[0].Requests.CPU = 930
		}
		pods = append(pods, p)
	}
	row := Of(worldOf(pods, a)).Rows[0]
	c := row.Containers[0]
	if row.Sized != 3 || row.Risk != 0 || c.Requests.CPU != 930 || row.Freed.CPU != 0 || row.Totals.Recommended.CPU != 1530 || !c.Fits() {
		t.Errorf("%d sized, risk %v, shown %v, freed %v, recommended %v, fits %t", row.Sized, row.Risk, c.Requests, row.Freed, row.Totals.Recommended, c.Fits())
	}
	world := worldOf(pods, a)
	world.Prices = review.Prices{PriceSource: review.PriceSource{Currency: "EUR"}, Default: review.Price{Core: 1}}
	if got := SurplusOf(world, Of(world)); got.Total != 0 || got.Money[w] != 0 {
		t.Errorf("pods have their sizes, and %+v", got)
	}
	pods[2].Containers[0].Requests.CPU = 1100
	if got := SurplusOf(world, Of(world)); got.Total != 0.8*review.HoursPerMonth {
		t.Errorf("a follower has 800m more: %+v", got)
	}
	if row := Of(worldOf(pods, a)).Rows[0]; row.Sized != 2 || row.Freed.CPU != 800 || row.Containers[0].Outside.CPU != 1100 {
		t.Errorf("a follower with the size of a leader: %d sized, freed %v", row.Sized, row.Freed)
	}
}

// The status of a VPA may have sizes of ordinary init containers, which are not among the containers that are shown: they do not run with the others.
func TestOf_initContainerHasRecommendation_isNoContainerOfTheRow(t *testing.T) {
	web := deployment("shop", "web")
	a := autoscaler(web, cluster.Amounts(500, 600*mi))
	a.Advice = append(a.Advice, a.Advice[0])
	a.Advice[1].Container = "migrate"
	p := pod(web, "a", cluster.Amounts(500, 600*mi))
	p.Containers = append(p.Containers, cluster.Container{Name: "migrate", Role: cluster.Init, Requests: cluster.Amounts(10, 10*mi)})
	if row := Of(worldOf([]*cluster.Pod{p}, a)).Rows[0]; len(row.Containers) != 1 || row.Containers[0].Container != "app" || row.Sized != 1 {
		t.Errorf("%d containers, %d pods sized", len(row.Containers), row.Sized)
	}
}
