// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package rescue

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
)

func TestBook_select_podsThatChangeAtOnce(t *testing.T) {
	wanted := decision.Reason{Code: decision.NodeOutOfMemory, Resource: cluster.Memory, From: gib, To: 2 * gib, For: 20 * time.Second}
	atLimit := wanted
	atLimit.Code = decision.OutOfMemory
	onFullNode := wanted
	onFullNode.Text = "n"
	for name, c := range map[string]struct {
		change func(*Book, *decision.Decision)
		want   decision.Reason
	}{
		"killed because the node had no memory": {func(*Book, *decision.Decision) {}, wanted},
		"killed at its limit": {func(_ *Book, d *decision.Decision) {
			d.Pod.Containers[0].Limits = cluster.Amounts(0, gib)
			d.With[0].Limits = cluster.Amounts(0, 2*gib)
		}, atLimit},
		"node is short of memory": {func(b *Book, _ *decision.Decision) { b.Nodes = []cluster.Node{{Name: "n", LowMemory: true}} }, onFullNode},
		"gets no more memory":     {func(_ *Book, d *decision.Decision) { d.With = fits(gib) }, decision.Reason{}},
		"rescue is off":           {func(b *Book, _ *decision.Decision) { b.Mode = Off }, decision.Reason{}},
		"ready, lived long, would be restarted": {func(_ *Book, d *decision.Decision) {
			d.Pod.Ready, d.Pod.Containers[0].Exit.Started = true, noon.Add(-time.Hour)
		}, decision.Reason{}},
	} {
		b := bookOf(nil)
		b.Mode = ByEviction
		d := decision.Decision{Pod: killedPod(web, 0), Autoscaler: &cluster.Autoscaler{Mode: cluster.Recreate}, With: fits(2 * gib)}
		c.change(b, &d)
		b.Select(&d)
		if d.Wanted != c.want || d.Rescue != (c.want != decision.Reason{}) {
			t.Errorf("%s: rescue %t, wanted %+v", name, d.Rescue, d.Wanted)
		}
	}
}

func TestBook_podWithResize_waitsOnlyForTheKubelet(t *testing.T) {
	for name, c := range map[string]struct {
		resize  *cluster.Resize
		stuck   decision.ReasonCode
		waits   bool
		stalled bool
	}{
		"none":              {},
		"deferred":          {resize: &cluster.Resize{State: cluster.ResizeDeferred}, stuck: decision.ResizeWaiting},
		"failed":            {resize: &cluster.Resize{State: cluster.ResizeError}, stuck: decision.ResizeFailed},
		"memory in use":     {resize: &cluster.Resize{State: cluster.ResizeError, Problem: cluster.MemoryInUse}},
		"in progress":       {resize: &cluster.Resize{State: cluster.ResizeInProgress, Since: noon.Add(-time.Minute)}, waits: true},
		"for a long time":   {resize: &cluster.Resize{State: cluster.ResizeInProgress, Since: noon.Add(-time.Hour)}, waits: true, stalled: true},
		"not reported, yet": {stuck: decision.Fits, waits: true},
	} {
		b := bookOf(nil)
		d := decision.Decision{Pod: killedPod(web, 0), Autoscaler: &cluster.Autoscaler{Mode: cluster.InPlaceOrRecreate}, With: fits(2 * gib), Rescue: true}
		d.Pod.Resize = c.resize
		if c.waits && c.resize == nil {
			b.Counter.Ledger.Done(noon.Add(-time.Minute), ledger.Attempt{Pod: d.Pod, Do: decision.Resize, With: d.With})
			d.Pod.Containers[0].Applied = &cluster.Applied{Requests: d.Pod.Containers[0].Requests}
			d.Pod.Containers[0].Requests = cluster.Amounts(1000, 2*gib)
		}
		r, stuck := b.Stuck(&d)
		if stuck != (c.stuck != decision.Fits) || r.Code != c.stuck {
			t.Errorf("%s: stuck %t, %s", name, stuck, r.Code)
		}
		until := b.WaitsUntil(&d)
		if waits, stalled := !until.IsZero(), !until.IsZero() && !noon.Before(until); waits != c.waits || stalled != c.stalled {
			t.Errorf("%s: waits %t, stalled %t", name, waits, stalled)
		}
	}
}

func TestGate_killsAndRefusals_blockADeletion(t *testing.T) {
	g := &Gate{Book: bookOf(nil)}
	p := killedPod(web, 0)
	if r, few := g.FewKills(p); few || r.Have != 3 {
		t.Errorf("%d kills are too few", r.Have)
	}
	p.Containers[0].Exit.Kills = 2
	if r, few := g.FewKills(p); !few || r.Have != 2 || r.Want != MinKills {
		t.Errorf("%+v, too few: %t", r, few)
	}
	if _, refused := g.Refused(p); refused {
		t.Error("refused without an attempt")
	}
	g.Counter.Ledger.Refused(noon, ledger.Attempt{Pod: p, Do: decision.Delete}, decision.Refusal{Kind: decision.Denied, Text: "no"}, 0)
	if r, refused := g.Refused(p); !refused || r.Text != "no" || !r.Until.Equal(noon.Add(time.Minute)) {
		t.Errorf("%+v, refused: %t", r, refused)
	}
}
