// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package surge

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
)

var (
	web = cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}

	delays = attempt.Delays{RefusalBase: time.Minute, RefusalMax: time.Hour, BackoffBase: 5 * time.Minute, BackoffMax: time.Hour}
)

// gateOf returns a gate for ready pods of the Deployment web, without surges.
func gateOf(mover Mover) *Gate {
	pods := surgePods("a", "b", "c")
	for _, p := range pods {
		p.Top = web
		p.Controller = cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: "web-1"}
	}
	state := &State{Active: map[cluster.Workload]cluster.Surge{}, Scaled: map[cluster.Workload]bool{}}
	return &Gate{Now: noon, State: state, Mover: mover, Pods: pods, Ledger: ledger.New(), Delays: &delays}
}

func TestMover_otherNames_areInvalid(t *testing.T) {
	for name, want := range map[string]bool{"evict": true, "room": true, "surge": true, "": false, "Surge": false, "always": false} {
		if got := Mover(name).IsValid(); got != want {
			t.Errorf("%q is valid: %t, want %t", name, got, want)
		}
	}
}

func TestState_has_surgeOfTheDeployment(t *testing.T) {
	s := &State{Active: map[cluster.Workload]cluster.Surge{web: {}}}
	other := web
	other.Name = "cart"
	if !s.Has(web) || s.Has(other) {
		t.Error("web has a surge with an unknown record, cart has none")
	}
	p := surgePods("a")[0]
	p.Top = web
	if s.Removes(p) {
		t.Error("an unknown surge removes a pod")
	}
	s.Active[web] = cluster.Surge{UID: "a"}
	if !s.Removes(p) {
		t.Error("the surge does not remove its pod")
	}
	var none *State
	if none.Has(web) || none.Removes(p) {
		t.Error("there is a surge without a state")
	}
}

func TestGate_replaces_onlyWhereASurgeIsPossible(t *testing.T) {
	refused := func(kind decision.RefusalKind) func(*Gate, *decision.Decision) {
		return func(g *Gate, d *decision.Decision) { g.Ledger.SurgeFailed(noon, d.Pod, decision.Refusal{Kind: kind}) }
	}
	for name, c := range map[string]struct {
		mover   Mover
		forRoom bool
		change  func(*Gate, *decision.Decision)
		want    bool
	}{
		"by surge":                         {mover: BySurge, want: true},
		"by surge, to make room":           {mover: BySurge, forRoom: true, want: true},
		"for room, to make room":           {mover: ForRoom, forRoom: true, want: true},
		"for room, but it makes no room":   {mover: ForRoom},
		"by eviction":                      {mover: ByEviction, forRoom: true},
		"the autoscaler chooses a surge":   {mover: ByEviction, change: func(_ *Gate, d *decision.Decision) { d.Autoscaler.Mover = "surge" }, want: true},
		"the autoscaler chooses eviction":  {mover: BySurge, change: func(_ *Gate, d *decision.Decision) { d.Autoscaler.Mover = "evict" }},
		"an invalid choice":                {mover: BySurge, change: func(_ *Gate, d *decision.Decision) { d.Autoscaler.Mover = "fly" }, want: true},
		"no surge is possible":             {mover: BySurge, change: func(g *Gate, _ *decision.Decision) { g.State = nil }},
		"a rescue":                         {mover: BySurge, change: func(_ *Gate, d *decision.Decision) { d.Rescue = true }},
		"a canary":                         {mover: BySurge, change: func(_ *Gate, d *decision.Decision) { d.Autoscaler.Canary.On = true }},
		"a StatefulSet":                    {mover: BySurge, change: func(_ *Gate, d *decision.Decision) { d.Pod.Top.Kind = "StatefulSet" }},
		"a Deployment of another group":    {mover: BySurge, change: func(_ *Gate, d *decision.Decision) { d.Pod.Top.Group = "example.com" }},
		"not of a ReplicaSet":              {mover: BySurge, change: func(_ *Gate, d *decision.Decision) { d.Pod.Controller.Kind = "Job" }},
		"an HPA scales the workload":       {mover: BySurge, change: func(g *Gate, _ *decision.Decision) { g.State.Scaled[web] = true }},
		"the pod is not ready":             {mover: BySurge, change: func(_ *Gate, d *decision.Decision) { d.Pod.Ready = false }},
		"a quota refused the surge":        {mover: BySurge, change: refused(decision.DeniedByQuota)},
		"the server was busy":              {mover: BySurge, change: refused(decision.ServerBusy), want: true},
		"the additional pod was not ready": {mover: BySurge, change: refused(decision.NotReadyInTime), want: true},
	} {
		g := gateOf(c.mover)
		d := &decision.Decision{Pod: g.Pods[0], Autoscaler: &cluster.Autoscaler{}}
		if c.change != nil {
			c.change(g, d)
		}
		if got := g.Replaces(d, c.forRoom); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestGate_inProgress_oneSurgeOfAWorkload(t *testing.T) {
	g := gateOf(BySurge)
	if r, waits := g.InProgress(g.Pods[0]); waits {
		t.Errorf("without a surge: %+v", r)
	}
	g.Begin(g.Pods[0])
	if r, waits := g.InProgress(g.Pods[0]); waits {
		t.Errorf("the pod itself: %+v", r)
	}
	if r, waits := g.InProgress(g.Pods[1]); !waits || r != (decision.Reason{Code: decision.Surging, Text: "a", Until: noon.Add(Within)}) {
		t.Errorf("another pod: waits %v, %+v", waits, r)
	}
	g.End(g.Pods[1])
	if _, waits := g.InProgress(g.Pods[1]); !waits {
		t.Error("the end of another pod ends the surge")
	}
	g.End(g.Pods[0])
	if r, waits := g.InProgress(g.Pods[1]); waits {
		t.Errorf("after the end: %+v", r)
	}
	g.State.Active[web] = cluster.Surge{Pod: "old", Deadline: noon.Add(time.Minute)}
	if r, waits := g.InProgress(g.Pods[1]); !waits || r != (decision.Reason{Code: decision.Surging, Text: "old", Until: noon.Add(time.Minute)}) {
		t.Errorf("an earlier pass has begun one: waits %v, %+v", waits, r)
	}
}

func TestGate_failed_backOffGrowsWithTheFailuresOfAllPods(t *testing.T) {
	notReady := decision.Refusal{Kind: decision.NotReadyInTime, Text: "not ready"}
	busy := decision.Refusal{Kind: decision.ServerBusy, Text: "busy"}
	quota := decision.Refusal{Kind: decision.DeniedByQuota, Text: "quota"}
	type failure struct {
		pod int
		ago time.Duration
		why decision.Refusal
	}
	for name, c := range map[string]struct {
		failures []failure
		until    time.Time
		text     string
		evicts   bool // an eviction does not wait
	}{
		"none":                       {evicts: true},
		"another cause":              {failures: []failure{{0, 30 * time.Second, busy}}, text: "busy", until: noon.Add(30 * time.Second), evicts: true},
		"not ready in time":          {failures: []failure{{0, time.Minute, notReady}}, text: "not ready", until: noon.Add(4 * time.Minute)},
		"twice the same pod":         {failures: []failure{{0, 8 * time.Minute, notReady}, {0, time.Minute, notReady}}, text: "not ready", until: noon.Add(9 * time.Minute)},
		"two pods":                   {failures: []failure{{1, time.Minute, notReady}, {0, 8 * time.Minute, notReady}}, text: "not ready", until: noon.Add(9 * time.Minute)},
		"the last one decides":       {failures: []failure{{0, time.Minute, notReady}, {1, 10 * time.Second, busy}}, text: "busy", until: noon.Add(110 * time.Second), evicts: true},
		"one that evicts is ignored": {failures: []failure{{0, time.Minute, notReady}, {1, 10 * time.Second, quota}}, text: "not ready", until: noon.Add(4 * time.Minute)},
		"its back-off has ended":     {failures: []failure{{0, 5 * time.Minute, notReady}}, text: "not ready", until: noon, evicts: true},
	} {
		g := gateOf(BySurge)
		for _, f := range c.failures {
			g.Ledger.SurgeFailed(noon.Add(-f.ago), g.Pods[f.pod], f.why)
		}
		want := decision.Reason{Code: decision.SurgeFailed, Text: c.text, Until: c.until}
		if r, waits := g.Failed(); r != want || waits != noon.Before(c.until) {
			t.Errorf("%s: a surge waits %v, %+v", name, waits, r)
		}
		if r, waits := g.NotReady(); r != want || waits == c.evicts {
			t.Errorf("%s: an eviction waits %v, %+v", name, waits, r)
		}
	}
}
