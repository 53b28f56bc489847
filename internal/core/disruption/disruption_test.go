// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/need"
)

const gib = 1 << 30

var (
	noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	web  = cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: "web-1"}
	db   = cluster.Workload{Group: "apps", Kind: "StatefulSet", Namespace: "shop", Name: "db"}
	top  = cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}
)

// podsOf returns pods of a controller that have been ready for an hour.
func podsOf(controller cluster.Workload, n int) []*cluster.Pod {
	var out []*cluster.Pod
	for i := range n {
		name := fmt.Sprint(controller.Name, "-", i)
		p := &cluster.Pod{
			Key: cluster.Key{Namespace: "shop", Name: name}, UID: name, Controller: controller, Top: controller, Node: "n", Phase: cluster.Running, Ready: true,
			Created: noon.Add(-2 * time.Hour), Started: noon.Add(-2 * time.Hour), ReadySince: noon.Add(-time.Hour),
			Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(1000, gib)}},
		}
		if controller == web {
			p.Top = top
		}
		out = append(out, p)
	}
	return out
}

// counterOf returns a counter for controllers that should have a number of replicas.
func counterOf(replicas int32) *Counter {
	scale := cluster.Scale{Known: true, Replicas: replicas}
	return &Counter{
		Now: noon, Limits: &Limits{MinReplicas: 2, Tolerance: 0.5, StuckFor: 10 * time.Minute, Window: time.Minute},
		Need: &need.Rules{QuickOOM: 10 * time.Minute}, Scales: map[cluster.Workload]cluster.Scale{web: scale, db: scale}, Ledger: ledger.New(),
	}
}

// evict records the eviction of a pod.
func (c *Counter) evict(at time.Time, p *cluster.Pod) {
	c.Ledger.Done(at, ledger.Attempt{Pod: p, Do: decision.Evict, Newest: p.Created})
}

// lose records the eviction of a pod that had no answer.
func (c *Counter) lose(at time.Time, p *cluster.Pod) {
	c.Ledger.Refused(at, ledger.Attempt{Pod: p, Do: decision.Evict, Newest: p.Created}, decision.Refusal{Kind: decision.OutcomeIsUnknown}, 1)
}

// spend records that the change of a pod takes from the budget.
func (c *Counter) spend(p *cluster.Pod, stuck bool) {
	c.Ledger.Spend(ledger.Attempt{Pod: p, Do: decision.Resize}, stuck, noon.Add(time.Second))
}

// A scene is 4 ready pods of a ReplicaSet with 4 replicas, unless a test changes it.
type scene struct {
	*Counter
	a    *cluster.Autoscaler
	pods []*cluster.Pod
}

func TestCounter_groups_countTheStateOfThePods(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*scene)
		want   Group
	}{
		"all are ready": {want: Group{Wanted: 4, Known: true, Tolerance: 2, Live: 4, Ready: 4, Least: 2}},
		"one is not ready": {
			change: func(s *scene) { s.pods[0].Ready = false },
			want:   Group{Wanted: 4, Known: true, Tolerance: 2, Live: 4, Ready: 3, Least: 2},
		},
		"one is not scheduled": {
			change: func(s *scene) { s.pods[0].Node = "" },
			want:   Group{Wanted: 4, Known: true, Tolerance: 2, Live: 3, Ready: 3, Least: 2},
		},
		"one terminates": {
			change: func(s *scene) { s.pods[0].Deleting = true },
			want:   Group{Wanted: 4, Known: true, Tolerance: 2, Live: 3, Ready: 3, Least: 2},
		},
		"one has finished and one has failed": {
			change: func(s *scene) {
				s.pods[0].Phase = cluster.Succeeded
				s.pods[1].Phase = cluster.Failed
			},
			want: Group{Wanted: 4, Known: true, Tolerance: 2, Live: 2, Ready: 2, Least: 2},
		},
		"fewer than the minimum": {
			change: func(s *scene) { s.pods = s.pods[:1] },
			want:   Group{Wanted: 4, Known: true, Tolerance: 2, Live: 1, Ready: 1, Least: 2, Below: true},
		},
		"fewer than the minimum of the autoscaler": {
			change: func(s *scene) { s.a.MinReplicas = 5 },
			want:   Group{Wanted: 4, Known: true, Tolerance: 2, Live: 4, Ready: 4, Least: 5, Below: true},
		},
		"a part of a replica is not tolerated": {
			change: func(s *scene) { s.Limits.Tolerance = 0.49 },
			want:   Group{Wanted: 4, Known: true, Tolerance: 1, Live: 4, Ready: 4, Least: 2},
		},
		"the number of replicas is not known": {
			change: func(s *scene) { s.Scales = nil },
			want:   Group{Live: 4, Ready: 4, Least: 2},
		},
		"all are ready for less than minReadySeconds": {
			change: func(s *scene) {
				s.Scales[web] = cluster.Scale{Known: true, Replicas: 4, MinReady: 2 * time.Hour}
				s.pods[1].ReadySince = noon.Add(-90 * time.Minute)
			},
			want: Group{Wanted: 4, Known: true, Tolerance: 2, Live: 4, Least: 2, next: noon.Add(30 * time.Minute)},
		},
		"ready for exactly minReadySeconds": {
			change: func(s *scene) { s.Scales[web] = cluster.Scale{Known: true, Replicas: 4, MinReady: time.Hour} },
			want:   Group{Wanted: 4, Known: true, Tolerance: 2, Live: 4, Ready: 4, Least: 2},
		},
		"upstream's rules count pods that run and are not ready": {
			change: func(s *scene) {
				s.Need.UpstreamRules = true
				s.pods[0].Ready = false
			},
			want: Group{Wanted: 4, Known: true, Tolerance: 2, Live: 4, Ready: 4, Least: 2},
		},
		"upstream's rules know no minReadySeconds": {
			change: func(s *scene) {
				s.Need.UpstreamRules = true
				s.Scales[web] = cluster.Scale{Known: true, Replicas: 4, MinReady: 2 * time.Hour}
			},
			want: Group{Wanted: 4, Known: true, Tolerance: 2, Live: 4, Ready: 4, Least: 2},
		},
		"the watch still shows an evicted one": {
			change: func(s *scene) { s.evict(noon, s.pods[0]) },
			want:   Group{Wanted: 4, Known: true, Tolerance: 2, Live: 3, Ready: 3, Least: 2, gone: 1, Replaced: 1, open: 1},
		},
		"the watch shows an evicted one for too long": {
			change: func(s *scene) { s.evict(noon.Add(-attempt.WatchDelay), s.pods[0]) },
			want:   Group{Wanted: 4, Known: true, Tolerance: 2, Live: 4, Ready: 4, Least: 2},
		},
		"two are evicted and gone, one has a replacement": {
			change: func(s *scene) {
				s.evict(noon, s.pods[0])
				s.evict(noon, s.pods[1])
				s.pods = append(s.pods[2:], podsOf(web, 5)[4])
			},
			want: Group{Wanted: 4, Known: true, Tolerance: 2, Live: 3, Ready: 3, Least: 2, Replaced: 1, open: 1},
		},
		"the controller has replaced all": {
			change: func(s *scene) {
				s.evict(noon, s.pods[0])
				s.Complete = map[cluster.Workload]bool{web: true}
				s.pods = s.pods[1:]
			},
			want: Group{Wanted: 4, Known: true, Tolerance: 2, Live: 3, Ready: 3, Least: 2},
		},
		"an eviction had no answer": {
			change: func(s *scene) { s.lose(noon, s.pods[0]) },
			want:   Group{Wanted: 4, Known: true, Tolerance: 2, Live: 4, Ready: 3, Least: 2, Unclear: 1},
		},
		"after a scale-down, the ready ones may be deleted": {
			change: func(s *scene) {
				s.Scales[web] = cluster.Scale{Known: true, Replicas: 3}
				s.pods[0].Ready = false
			},
			want: Group{Wanted: 3, Known: true, Tolerance: 1, Live: 3, Ready: 2, Least: 2},
		},
		"after a scale-down, by upstream's rules": {
			change: func(s *scene) {
				s.Scales[web] = cluster.Scale{Known: true, Replicas: 3}
				s.Need.UpstreamRules = true
			},
			want: Group{Wanted: 3, Known: true, Tolerance: 1, Live: 4, Ready: 4, Least: 2},
		},
		"an earlier pass has taken from the budget": {
			change: func(s *scene) {
				s.spend(s.pods[0], false)
				s.spend(s.pods[1], true)
			},
			want: Group{Wanted: 4, Known: true, Tolerance: 2, Live: 4, Ready: 4, Least: 2, Spent: 1, Revived: 1},
		},
		"what an earlier pass has taken has expired": {
			change: func(s *scene) {
				s.spend(s.pods[0], false)
				s.spend(s.pods[1], true)
				s.Now = noon.Add(time.Second)
			},
			want: Group{Wanted: 4, Known: true, Tolerance: 2, Live: 4, Ready: 4, Least: 2},
		},
		"the budget of earlier passes does not count": {
			change: func(s *scene) {
				s.spend(s.pods[0], false)
				s.spend(s.pods[1], true)
				s.Limits.Window = 0
			},
			want: Group{Wanted: 4, Known: true, Tolerance: 2, Live: 4, Ready: 4, Least: 2},
		},
		"what is not available has taken nothing more": {
			change: func(s *scene) {
				for _, p := range s.pods {
					s.spend(p, false)
				}
				s.pods[0].Ready = false
				s.pods[1].Deleting = true
				s.pods[2].Node = ""
				s.lose(noon, s.pods[3])
			},
			want: Group{Wanted: 4, Known: true, Tolerance: 2, Live: 2, Least: 2, Unclear: 1, Replaced: 1, open: 1},
		},
	} {
		s := &scene{Counter: counterOf(4), a: &cluster.Autoscaler{}, pods: podsOf(web, 4)}
		if c.change != nil {
			c.change(s)
		}
		if got := s.Groups(s.a, s.pods)[web]; got == nil || *got != c.want {
			t.Errorf("%s:\ngot  %+v\nwant %+v", name, got, c.want)
		}
	}
}

func TestCounter_groups_toleranceOfTheAutoscaler_overridesTheFlag(t *testing.T) {
	for _, c := range []struct {
		set   float64
		spare int // pods that may be changed at once
	}{{0, 1}, {0.25, 1}, {0.5, 2}, {0.75, 3}, {1, 4}} {
		a := &cluster.Autoscaler{}
		a.Rules.EvictionTolerance = cluster.Setting[float64]{Value: c.set, Set: true}
		g := counterOf(4).Groups(a, podsOf(web, 4))[web]
		n := 0
		for ; g.MayChange(Serving); n++ {
			g.Take(Serving)
		}
		if r := g.Reason(Serving); n != c.spare || r.Code != decision.BudgetSpent || r.Text != "podfit.dev/eviction-tolerance" {
			t.Errorf("tolerance %v: %d pods, then %+v, want %d pods", c.set, n, r, c.spare)
		}
	}
}

func TestCounter_groups_oneForEachController(t *testing.T) {
	alone := podsOf(cluster.Workload{}, 1)
	groups := counterOf(3).Groups(&cluster.Autoscaler{}, append(append(podsOf(web, 3), podsOf(db, 2)...), alone...))
	if len(groups) != 2 || groups[web].Live != 3 || groups[db].Live != 2 {
		t.Errorf("groups %v", groups)
	}
}

// A Job should have as many pods as exist. The terminating ones will be replaced, the finished ones will not.
func TestCounter_groups_job_wantsThePodsThatExist(t *testing.T) {
	job := cluster.Workload{Group: "batch", Kind: "Job", Namespace: "shop", Name: "report"}
	pods := podsOf(job, 4)
	pods[0].Deleting = true
	pods[1].Phase = cluster.Succeeded
	want := Group{Wanted: 3, Known: true, Tolerance: 1, Live: 2, Ready: 2, Least: 2}
	if got := counterOf(0).Groups(&cluster.Autoscaler{}, pods)[job]; *got != want {
		t.Errorf("got  %+v\nwant %+v", *got, want)
	}
}

// The pods of a StatefulSet often have to find each other when they are ready.
func TestCounter_groups_statefulSet_waitsForThePause(t *testing.T) {
	for pause, ready := range map[time.Duration]int{time.Hour: 3, time.Hour + time.Second: 0} {
		c := counterOf(3)
		c.Limits.StatefulSetPause = pause
		groups := c.Groups(&cluster.Autoscaler{}, append(podsOf(db, 3), podsOf(web, 3)...))
		if groups[db].Ready != ready || groups[web].Ready != 3 {
			t.Errorf("pause %s: %d of db and %d of web are available, want %d and 3", pause, groups[db].Ready, groups[web].Ready, ready)
		}
	}
	c := counterOf(3)
	c.Limits.StatefulSetPause = time.Minute
	c.Scales[db] = cluster.Scale{Known: true, Replicas: 3, MinReady: 2 * time.Hour}
	if got := c.Groups(&cluster.Autoscaler{}, podsOf(db, 3))[db]; got.Ready != 0 || !got.next.Equal(noon.Add(time.Hour)) {
		t.Errorf("minReadySeconds are longer than the pause: %+v", got)
	}
}

// The controller of a StatefulSet creates no pod while one with a lower ordinal is not Ready. So the first one that is down does not wait for
// replacements.
func TestCounter_first_isThePodThatTheControllerWaitsFor(t *testing.T) {
	for name, tt := range map[string]struct {
		of      cluster.Workload
		down    []int
		evicted int
		first   int  // ordinal; -1: none
		flaps   bool // it was ready for a moment
		isNew   bool // it was created a moment ago, and has no status
		starts  int  // that many pods with the lowest ordinals have been not ready for a short time
	}{
		"the last one was evicted":                {of: db, down: []int{2, 1}, evicted: 3, first: 1},
		"all others are down":                     {of: db, down: []int{0, 1, 2}, evicted: 3, first: 0},
		"it was ready shortly before":             {of: db, down: []int{2, 1}, evicted: 3, first: -1, flaps: true}, // the controller had its chance
		"it was created shortly before":           {of: db, down: []int{1}, evicted: 3, first: -1, isNew: true},
		"no pod is down":                          {of: db, evicted: 3, first: -1},
		"one with a lower ordinal was evicted":    {of: db, down: []int{2, 3}, evicted: 1, first: -1},
		"one with a lower ordinal starts":         {of: db, down: []int{1}, evicted: 3, first: -1, starts: 1},
		"the pods have no order":                  {of: web, down: []int{1}, evicted: 3, first: -1},
		"one with a lower ordinal, the only ones": {of: db, down: []int{1, 2, 3}, evicted: 0, first: -1},
	} {
		c, pods := counterOf(4), podsOf(tt.of, 4)
		for _, i := range tt.down {
			pods[i].Ready, pods[i].ReadySince, pods[i].Containers[0].Exit = false, noon.Add(-c.Limits.StuckFor), &cluster.Exit{OOM: true, Now: true}
		}
		if tt.flaps {
			pods[1].ReadySince = noon.Add(time.Second - c.Limits.StuckFor)
		}
		if tt.isNew {
			pods[1].Phase, pods[1].Created, pods[1].Started, pods[1].ReadySince = cluster.Pending, noon, time.Time{}, time.Time{}
		}
		for _, p := range pods[:tt.starts] {
			p.Ready, p.ReadySince = false, c.Now
		}
		left := slices.Delete(slices.Clone(pods), tt.evicted, tt.evicted+1)
		slices.Reverse(left)
		got := c.First(tt.of, left)
		if tt.first < 0 && got != nil || tt.first >= 0 && got != pods[tt.first] {
			t.Errorf("%s: the first one is %v", name, got)
		}
	}
}

// A StatefulSet deletes the pods with the highest ordinals after a scale-down, even if an evicted one below has no replacement.
func TestCounter_groups_scaleDownWithoutReplacement_evictedPodIsOpen(t *testing.T) {
	c := counterOf(4)
	pods := podsOf(db, 4)
	c.evict(noon.Add(-time.Minute), pods[0])
	a := &cluster.Autoscaler{}
	c.Ledger.Learn(noon, ledger.View{Governed: []cluster.Governed{{Autoscaler: a, Pods: pods[1:]}}, Scales: c.Scales}, nil)
	if got := c.Groups(a, pods[1:])[db]; got.Replaced != 1 || got.Ready != 3 {
		t.Fatalf("before the scale-down: %+v", got)
	}
	c.Scales[db] = cluster.Scale{Known: true, Replicas: 3}
	want := Group{Wanted: 3, Known: true, Tolerance: 1, Live: 3, Ready: 2, Least: 2, open: 1}
	if got := c.Groups(a, pods[1:])[db]; *got != want {
		t.Errorf("after the scale-down:\ngot  %+v\nwant %+v", *got, want)
	}
}

func TestCounter_open_evictionsWithoutReplacement(t *testing.T) {
	c := counterOf(4)
	pods := podsOf(web, 5)
	dbs := podsOf(db, 4)
	c.evict(noon, pods[0])
	c.evict(noon, pods[1])
	c.lose(noon, dbs[3])
	all := append(append([]*cluster.Pod{}, pods[2:4]...), dbs...)
	if got := c.Open(c.Groups(&cluster.Autoscaler{}, all), all, nil); !maps.Equal(got, map[cluster.Workload]int{top: 2, db: 1}) {
		t.Errorf("open: %v", got)
	}
	dbs[3].Deleting = true
	if got := c.Open(c.Groups(&cluster.Autoscaler{}, dbs), dbs, nil); !maps.Equal(got, map[cluster.Workload]int{db: 1}) {
		t.Errorf("once the pod without an answer terminates: %v", got)
	}
	if got := c.Open(c.Groups(&cluster.Autoscaler{}, podsOf(db, 4)[:3]), nil, nil); len(got) != 0 {
		t.Errorf("without pods: %v", got)
	}
	none := append(podsOf(web, 4), podsOf(cluster.Workload{}, 1)...)
	c = counterOf(4)
	if got := c.Open(c.Groups(&cluster.Autoscaler{}, none), none, nil); len(got) != 0 {
		t.Errorf("without an eviction: %v", got)
	}
}

func TestCounter_readyBeside_doesNotCountThePod(t *testing.T) {
	c := counterOf(3)
	pods := podsOf(web, 3)
	pods[2].Ready = false
	g := c.Groups(&cluster.Autoscaler{}, pods)[web]
	beside := c.ReadyBeside(g, pods[0])
	other := c.ReadyBeside(g, pods[2])
	if beside != 1 || other != 2 {
		t.Errorf("%d are ready beside a ready pod, %d beside another, want 1 and 2", beside, other)
	}
	if got := c.ReadyBeside(&Group{}, pods[0]); got != 0 {
		t.Errorf("%d are ready of none", got)
	}
}

func TestCounter_health(t *testing.T) {
	kill := func(p *cluster.Pod, ago time.Duration) {
		p.Containers[0].Exit = &cluster.Exit{OOM: true, Finished: noon.Add(-ago)}
	}
	for name, c := range map[string]struct {
		change func(*Counter, *cluster.Pod) // the pod is not ready for a minute
		want   Health
	}{
		"not ready for a short time": {change: func(*Counter, *cluster.Pod) {}, want: Serving},
		"ready": {
			change: func(_ *Counter, p *cluster.Pod) {
				p.Ready = true
				kill(p, 0)
			},
			want: Serving,
		},
		"not started": {
			change: func(_ *Counter, p *cluster.Pod) {
				p.Phase = cluster.Pending
				p.Ready = true
			},
			want: Unstarted,
		},
		"not started, by upstream's rules": {
			change: func(c *Counter, p *cluster.Pod) {
				c.Need.UpstreamRules = true
				p.Phase = cluster.Pending
			},
			want: Unstarted,
		},
		"OOM-killed, by upstream's rules": {
			change: func(c *Counter, p *cluster.Pod) {
				c.Need.UpstreamRules = true
				kill(p, 0)
			},
			want: Serving,
		},
		"OOM-killed recently":    {change: func(_ *Counter, p *cluster.Pod) { kill(p, 10*time.Minute-1) }, want: Down},
		"OOM-killed a while ago": {change: func(_ *Counter, p *cluster.Pod) { kill(p, 10*time.Minute) }, want: Serving},
		"OOM-killed, and not restarted since": {
			change: func(_ *Counter, p *cluster.Pod) {
				kill(p, time.Hour)
				p.Containers[0].Exit.Now = true
			},
			want: Down,
		},
		"OOM-killed, and not ready for long": {
			change: func(_ *Counter, p *cluster.Pod) {
				kill(p, time.Minute)
				p.ReadySince = noon.Add(-time.Hour)
			},
			want: Down,
		},
		"a container has exited":       {change: func(_ *Counter, p *cluster.Pod) { p.Containers[0].Exit = &cluster.Exit{Now: true, Finished: noon} }, want: Serving},
		"not ready for long":           {change: func(_ *Counter, p *cluster.Pod) { p.ReadySince = noon.Add(-10 * time.Minute) }, want: Stuck},
		"not ready for almost as long": {change: func(_ *Counter, p *cluster.Pod) { p.ReadySince = noon.Add(-10*time.Minute + 1) }, want: Serving},
		"never ready since its start":  {change: func(_ *Counter, p *cluster.Pod) { p.ReadySince = time.Time{} }, want: Stuck},
		"its start is not known": {
			change: func(_ *Counter, p *cluster.Pod) {
				p.ReadySince = time.Time{}
				p.Started = time.Time{}
			},
			want: Serving,
		},
	} {
		counter := counterOf(1)
		p := podsOf(web, 1)[0]
		p.Ready = false
		p.ReadySince = noon.Add(-time.Minute)
		c.change(counter, p)
		if got := counter.Health(p); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	for h, down := range map[Health]bool{Serving: false, Stuck: false, Down: true, Unstarted: true} {
		if h.IsDown() != down {
			t.Errorf("health %d is down: %v", h, !down)
		}
	}
}

func TestGroup_mayChange(t *testing.T) {
	for name, c := range map[string]struct {
		g    Group
		h    Health
		want bool
	}{
		"all are ready":                              {g: Group{Wanted: 4, Ready: 4, Tolerance: 2}, want: true},
		"one may be unavailable yet":                 {g: Group{Wanted: 4, Ready: 4, Tolerance: 2, Spent: 1}, want: true},
		"as many as may be unavailable are":          {g: Group{Wanted: 4, Ready: 4, Tolerance: 2, Spent: 2}},
		"one is not ready, one is taken":             {g: Group{Wanted: 4, Ready: 3, Tolerance: 2, Spent: 1}},
		"none may be unavailable: one after another": {g: Group{Wanted: 1, Ready: 1}, want: true},
		"none may be unavailable, one is taken":      {g: Group{Wanted: 1, Ready: 1, Spent: 1}},
		"none may be unavailable, one is not ready":  {g: Group{Wanted: 1}},
		"not started, without budget":                {g: Group{Wanted: 4, Replaced: 4, Spent: 4, Revived: 4}, h: Unstarted, want: true},
		"down":                                       {g: Group{Wanted: 4, Tolerance: 2, Replaced: 1, Revived: 2}, h: Down, want: true},
		"down, but replacements are missing":         {g: Group{Wanted: 4, Tolerance: 2, Replaced: 2}, h: Down},
		"down, and none may be unavailable":          {g: Group{Wanted: 1}, h: Down, want: true},
		"down, one is replaced":                      {g: Group{Wanted: 1, Replaced: 1}, h: Down},
		"stuck":                                      {g: Group{Wanted: 4, Tolerance: 2, Replaced: 1, Revived: 1}, h: Stuck, want: true},
		"stuck, but replacements are missing":        {g: Group{Wanted: 4, Tolerance: 2, Replaced: 2}, h: Stuck},
		"stuck, but as many are changed":             {g: Group{Wanted: 4, Tolerance: 2, Revived: 2}, h: Stuck},
	} {
		if got := c.g.MayChange(c.h); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestGroup_takeAndGiveBack_budgetOfTheHealth(t *testing.T) {
	for h, want := range map[Health]Group{Serving: {Spent: 1}, Stuck: {Revived: 1}, Down: {Replaced: 1}, Unstarted: {}} {
		var g Group
		if g.Take(h); g != want {
			t.Errorf("health %d has taken: %+v, want %+v", h, g, want)
		}
		if g.GiveBack(h); g != (Group{}) {
			t.Errorf("health %d has given back: %+v", h, g)
		}
	}
}

func TestGroup_reason_notReadyOrSpent(t *testing.T) {
	notReady := Group{Wanted: 4, Ready: 1, Replaced: 1, Revived: 1, next: noon}
	spent := Group{Wanted: 4, Ready: 1, Spent: 1, Replaced: 2, Revived: 3, next: noon}
	for name, c := range map[string]struct {
		g    Group
		h    Health
		want decision.Reason
	}{
		"too few are ready":                      {g: notReady, want: decision.Reason{Code: decision.NotReady, Have: 1, Want: 4, Until: noon}},
		"too few are ready, the pod is stuck":    {g: notReady, h: Stuck, want: decision.Reason{Code: decision.BudgetSpent, Have: 2, Want: 4}},
		"too few are ready, and budget is taken": {g: spent, want: decision.Reason{Code: decision.BudgetSpent, Have: 6, Want: 4}},
		"all are ready":                          {g: Group{Wanted: 4, Ready: 4}, want: decision.Reason{Code: decision.BudgetSpent, Want: 4}},
	} {
		if got := c.g.Reason(c.h); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestCounter_hasSpent_onlyInTheSameHealth(t *testing.T) {
	c := counterOf(2)
	pods := podsOf(web, 3)
	c.spend(pods[0], false)
	c.spend(pods[1], true)
	for i, want := range []map[Health]bool{{Serving: true}, {Stuck: true}, {}} {
		for h := Serving; h <= Unstarted; h++ {
			if got := c.HasSpent(pods[i], h); got != want[h] {
				t.Errorf("pod %d with health %d: %v", i, h, got)
			}
		}
	}
	c.Limits.Window = 0
	if c.HasSpent(pods[0], Serving) {
		t.Error("the budget of earlier passes counts without a window")
	}
}
