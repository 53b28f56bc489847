// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package rescue

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/disruption"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/need"
)

var (
	web = cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: "web"}
	db  = cluster.Workload{Group: "apps", Kind: "StatefulSet", Namespace: "shop", Name: "db"}

	delays = attempt.Delays{RefusalBase: time.Minute, RefusalMax: time.Hour, BackoffBase: 5 * time.Minute, BackoffMax: time.Hour}
)

// bookOf returns a book for the pods of one autoscaler, with the disruption budgets of the namespace shop.
func bookOf(pods []*cluster.Pod, budgets ...cluster.DisruptionBudget) *Book {
	counter := &disruption.Counter{
		Now: noon, Limits: &disruption.Limits{StuckFor: 10 * time.Minute}, Need: &need.Rules{QuickOOM: 10 * time.Minute}, Ledger: ledger.New(),
	}
	governed := []cluster.Governed{{Autoscaler: &cluster.Autoscaler{}, Pods: pods}}
	return &Book{Counter: counter, Delays: &delays, Governed: governed, Budgets: map[string][]cluster.DisruptionBudget{"shop": budgets}}
}

// budgetOf returns a disruption budget that selects the pods of a workload and wants more healthy pods than there are.
func budgetOf(name, app string, healthy, desired int32) cluster.DisruptionBudget {
	selector := cluster.Selector{Requirements: []cluster.Requirement{{Prefix: "app=", Op: cluster.In, Values: []string{app}}}}
	return cluster.DisruptionBudget{Name: name, Selector: selector, Healthy: healthy, Desired: desired, Current: true}
}

func TestBook_isCrashing_notReadyBecauseOfOOMKills(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*cluster.Pod)
		want   bool
	}{
		"OOM-killed":          {change: func(*cluster.Pod) {}, want: true},
		"ready":               {change: func(p *cluster.Pod) { p.Ready = true }},
		"no record of it":     {change: func(p *cluster.Pod) { p.Crash = nil }},
		"terminates":          {change: func(p *cluster.Pod) { p.Deleting = true }},
		"has failed":          {change: func(p *cluster.Pod) { p.Phase = cluster.Failed }},
		"killed an hour ago":  {change: func(p *cluster.Pod) { p.Containers[0].Exit.Finished = noon.Add(-time.Hour) }},
		"not started yet":     {change: func(p *cluster.Pod) { p.Phase = cluster.Pending }, want: true},
		"ready, but starting": {change: func(p *cluster.Pod) { p.Ready = true; p.Phase = cluster.Pending }},
	} {
		p := killedPod(web, 0)
		c.change(p)
		if got := bookOf(nil).IsCrashing(p); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestBook_budgetOfOthers_allowsIfTheKilledPodsWereReady(t *testing.T) {
	refused := decision.Reason{Code: decision.DisruptionBudget, Text: "cannot evict", Have: 1, Until: noon.Add(time.Minute)}
	for name, c := range map[string]struct {
		budgets []cluster.DisruptionBudget
		want    decision.Reason
		allowed bool
	}{
		"with the two killed pods, there would be enough": {
			budgets: []cluster.DisruptionBudget{budgetOf("pdb", "web", 1, 3)}, want: decision.Reason{Code: decision.BudgetOfOthers, Text: "pdb", Have: 3, Want: 3}, allowed: true,
		},
		"with them, there would be too few": {
			budgets: []cluster.DisruptionBudget{budgetOf("pdb", "web", 1, 4)}, want: decision.Reason{Code: decision.BudgetOfOthers, Text: "pdb", Have: 3, Want: 4},
		},
		"one of two selects the pod": {
			budgets: []cluster.DisruptionBudget{budgetOf("other", "db", 0, 9), budgetOf("pdb", "web", 1, 3)},
			want:    decision.Reason{Code: decision.BudgetOfOthers, Text: "pdb", Have: 3, Want: 3}, allowed: true,
		},
		"both select the pod": {
			budgets: []cluster.DisruptionBudget{budgetOf("a", "web", 1, 3), budgetOf("b", "web", 1, 3)}, want: decision.Reason{Code: decision.BudgetOfOthers, Text: "a, b"},
		},
		"none selects the pod":   {budgets: []cluster.DisruptionBudget{budgetOf("other", "db", 0, 9)}, want: refused},
		"there is none":          {want: refused},
		"enough pods are ready":  {budgets: []cluster.DisruptionBudget{budgetOf("pdb", "web", 3, 3)}, want: refused},
		"its status is outdated": {budgets: []cluster.DisruptionBudget{{Name: "pdb", Healthy: 1, Desired: 3}}, want: refused},
		"it allows the eviction of pods that are not ready": {
			budgets: []cluster.DisruptionBudget{{Name: "pdb", Healthy: 1, Desired: 3, Current: true, AlwaysAllow: true}}, want: refused,
		},
	} {
		ready := killedPod(web, 2)
		ready.Ready = true
		pods := []*cluster.Pod{killedPod(web, 0), killedPod(web, 1), ready, killedPod(db, 0)}
		other := web
		other.Namespace = "bank"
		b := bookOf(append(pods, killedPod(other, 0)), c.budgets...)
		b.Counter.Ledger.Refused(noon, ledger.Attempt{Pod: pods[0], Do: decision.Evict}, decision.Refusal{Kind: decision.DeniedByBudget, Text: "cannot evict"}, 1)
		for range 2 { // the second answer uses what the first one has counted
			if r, blocked := b.BudgetOfOthers(pods[0], 0); blocked == c.allowed || r != c.want {
				t.Errorf("%s: blocked %v, %+v", name, blocked, r)
			}
		}
	}
}

func TestBook_budgetOfOthers_countsEachBudgetOfItsOwn(t *testing.T) {
	pods := []*cluster.Pod{killedPod(web, 0), killedPod(web, 1), killedPod(db, 0)}
	b := bookOf(pods, budgetOf("web", "web", 0, 2), budgetOf("db", "db", 0, 2))
	if r, blocked := b.BudgetOfOthers(pods[0], 0); blocked || r.Have != 2 {
		t.Errorf("web: blocked %v, %+v", blocked, r)
	}
	if r, blocked := b.BudgetOfOthers(pods[2], 1); blocked || r.Have != 2 {
		t.Errorf("%t, %s with a pod that is created only when this one is ready", blocked, r)
	}
	if r, blocked := b.BudgetOfOthers(pods[2], 0); !blocked || r.Have != 1 {
		t.Errorf("db: blocked %v, %+v", blocked, r)
	}
}

func TestBook_budgetOfOthers_unknownBudgets_block(t *testing.T) {
	other := web
	other.Namespace = "bank"
	if r, blocked := bookOf(nil).BudgetOfOthers(killedPod(other, 0), 0); !blocked || r.Code != decision.BudgetsUnknown {
		t.Errorf("blocked %v, %+v", blocked, r)
	}
}

func TestGate_begin_oneDeletionOfAWorkload(t *testing.T) {
	pods := []*cluster.Pod{killedPod(web, 0), killedPod(web, 1), killedPod(db, 0)}
	g := &Gate{Book: bookOf(pods), Pods: pods}
	g.Begin(pods[0])
	if r, blocked := g.InProgress(&decision.Decision{Pod: pods[1]}, false); !blocked || r != (decision.Reason{Code: decision.RescueInProgress, Text: "web-0"}) {
		t.Errorf("another pod of the workload: blocked %v, %+v", blocked, r)
	}
	for _, p := range []*cluster.Pod{pods[0], pods[2]} {
		if r, blocked := g.InProgress(&decision.Decision{Pod: p}, false); blocked {
			t.Errorf("%s is blocked: %+v", p.Name, r)
		}
	}
	g.End(pods[0])
	if r, blocked := g.InProgress(&decision.Decision{Pod: pods[1]}, false); blocked {
		t.Errorf("after the end: %+v", r)
	}
}

// A scene is the time after the deletion of a pod: what has become of its replacement.
type scene struct {
	*Gate
	deleted *cluster.Pod
	next    *cluster.Pod // another OOM-killed pod, older than the deletion
}

// sceneOf returns a scene in which a pod was deleted some time ago and has no replacement yet. The replacement gets 2 GiB.
func sceneOf(controller cluster.Workload, ago time.Duration, again int) *scene {
	s := &scene{deleted: killedPod(controller, 0), next: killedPod(controller, 1)}
	s.Gate = &Gate{Book: bookOf(nil), Pods: []*cluster.Pod{s.next}}
	for n := range again + 1 {
		s.Counter.Ledger.Done(noon.Add(-ago), ledger.Attempt{Pod: s.deleted, Do: decision.Delete, Newest: noon.Add(-time.Hour), Memory: 2 * gib, Repeated: n > 0})
	}
	return s
}

// replaced notes that the controller has all its pods again.
func (s *scene) replaced() {
	s.Counter.Complete = map[cluster.Workload]bool{s.deleted.Controller: true}
}

// add adds a pod that was created after the deletion, and is not ready yet.
func (s *scene) add(age time.Duration) *cluster.Pod {
	p := killedPod(s.deleted.Controller, 1+len(s.Pods))
	p.Crash = nil
	p.Containers[0].Exit = nil
	p.Created = noon.Add(-age)
	p.Started = p.Created
	p.ReadySince = p.Created
	s.Pods = append(s.Pods, p)
	return p
}

// addReady adds a ready pod that was created after the deletion, a minute ago.
func (s *scene) addReady() { s.add(time.Minute).Ready = true }

// addKilled adds a pod that was created after the deletion, and OOM-killed, too.
func (s *scene) addKilled() {
	p := killedPod(s.deleted.Controller, 1+len(s.Pods))
	p.Created = noon.Add(-time.Minute)
	s.Pods = append(s.Pods, p)
}

func TestGate_inProgress_waitsForTheReplacement(t *testing.T) {
	for name, c := range map[string]struct {
		controller cluster.Workload // web if not set
		ago        time.Duration    // since the deletion; 20 minutes if not set
		change     func(*scene)
		waits      bool
	}{
		"no replacement exists":                    {change: func(*scene) {}, waits: true},
		"it is not ready yet":                      {change: func(s *scene) { s.add(time.Minute) }, waits: true},
		"it is ready, but replaces an earlier one": {change: func(s *scene) { s.addReady() }, waits: true},
		"it is ready": {change: func(s *scene) {
			s.replaced()
			s.addReady()
		}},
		"one is ready, another one is new": {waits: true, change: func(s *scene) {
			s.replaced()
			s.addReady()
			s.add(time.Minute)
		}},
		"one is ready, another one was ready until a while ago": {change: func(s *scene) {
			s.replaced()
			s.addReady()
			s.add(10 * time.Minute).ReadySince = noon
		}},
		"of a StatefulSet, each one replaces a pod": {controller: db, waits: true, change: func(s *scene) {
			s.replaced()
			s.addReady()
			s.add(11 * time.Minute).ReadySince = noon
		}},
		"it is stuck for another reason": {change: func(s *scene) { s.add(10 * time.Minute) }},
		"it is stuck, another one is not ready yet": {waits: true, change: func(s *scene) {
			s.add(10 * time.Minute)
			s.add(time.Minute)
		}},
		"it terminates": {waits: true, change: func(s *scene) { s.add(10 * time.Minute).Deleting = true }},
		"that of another workload": {waits: true, change: func(s *scene) {
			s.add(10 * time.Minute).Top = db
		}},
		"an earlier pass has seen that it exists":    {change: func(s *scene) { s.Counter.Ledger.Learn(noon, ledger.View{}, nil) }},
		"there are as many pods, but none is newer":  {change: func(s *scene) { s.replaced() }},
		"as many, but the watch may not show it yet": {waits: true, ago: 5*time.Minute - 1, change: func(s *scene) { s.replaced() }},
		"the deletion was not carried out":           {ago: 5 * time.Minute, change: func(s *scene) { s.Pods = append(s.Pods, s.deleted) }},
		"the watch may not show the deletion yet":    {ago: 5*time.Minute - 1, waits: true, change: func(s *scene) { s.Pods = append(s.Pods, s.deleted) }},
	} {
		if c.controller.IsZero() {
			c.controller = web
		}
		if c.ago == 0 {
			c.ago = 20 * time.Minute
		}
		s := sceneOf(c.controller, c.ago, 0)
		c.change(s)
		want := decision.Reason{}
		if c.waits {
			want = decision.Reason{Code: decision.RescueInProgress, For: c.ago}
		}
		for range 2 { // the second answer uses the state that the first one has found
			if r, waits := s.InProgress(&decision.Decision{Pod: s.next, Autoscaler: &cluster.Autoscaler{}, With: fits(2 * gib)}, false); waits != c.waits || r != want {
				t.Errorf("%s: waits %v, %+v", name, waits, r)
			}
		}
		if s.IsRepeated(s.next) {
			t.Errorf("%s: the next deletion counts as repeated", name)
		}
	}
}

// A deletion that did not help is repeated after a back-off, and with noticeably more memory.
func TestGate_inProgress_replacementIsKilled_backsOff(t *testing.T) {
	for name, c := range map[string]struct {
		ago    time.Duration // since the deletion
		again  int           // deletions before it that did not help
		to     int64
		want   decision.Reason
		passes bool
	}{
		"during the back-off": {
			ago: 5*time.Minute - 1, to: 4 * gib, want: decision.Reason{Code: decision.BackingOff, Until: noon.Add(1), Have: 1, Text: "deletion"},
		},
		"after it": {
			ago: 5 * time.Minute, to: 4 * gib, want: decision.Reason{Code: decision.NotEnoughMemory, From: 2 * gib, To: 4 * gib}, passes: true,
		},
		"not with as much memory": {
			ago: 5 * time.Minute, to: 2 * gib, want: decision.Reason{Code: decision.NotEnoughMemory, From: 2 * gib, To: 2 * gib},
		},
		"not with 9 % more": {
			ago: 5 * time.Minute, to: 2 * gib * 109 / 100, want: decision.Reason{Code: decision.NotEnoughMemory, From: 2 * gib, To: 2 * gib * 109 / 100},
		},
		"but with 11 % more": {
			ago: 5 * time.Minute, to: 2 * gib * 111 / 100, want: decision.Reason{Code: decision.NotEnoughMemory, From: 2 * gib, To: 2 * gib * 111 / 100}, passes: true,
		},
		"a longer back-off after two": {
			ago: 9 * time.Minute, again: 1, to: 4 * gib, want: decision.Reason{Code: decision.BackingOff, Until: noon.Add(time.Minute), Have: 2, Text: "deletion"},
		},
	} {
		s := sceneOf(web, c.ago, c.again)
		s.addKilled()
		if !s.IsRepeated(s.next) {
			t.Errorf("%s: the next deletion does not count as repeated", name)
		}
		if r, waits := s.InProgress(&decision.Decision{Pod: s.next, Autoscaler: &cluster.Autoscaler{}, With: fits(c.to)}, false); waits == c.passes || r != c.want {
			t.Errorf("%s: waits %v, %+v", name, waits, r)
		}
	}
}

func TestGate_isRepeated_podIsAReplacementItself(t *testing.T) {
	s := sceneOf(web, 20*time.Minute, 0)
	s.replaced()
	s.addReady()
	replacement := killedPod(web, 2)
	replacement.Created = noon.Add(-time.Hour + time.Second)
	if !s.IsRepeated(replacement) || s.IsRepeated(s.next) {
		t.Error("only the deletion of a replacement is repeated")
	}
	if s.IsRepeated(killedPod(db, 0)) {
		t.Error("a workload without a deletion counts as repeated")
	}
}
