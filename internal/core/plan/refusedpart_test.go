// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
)

// A resize by a part shrinks nothing, so the target may have less memory than the part that the node refused. That is no reason to try
// again during the back-off: the resize would be by the same part.
func TestPass_nodeRefusesPartOfResizeToLessMemory_backsOff(t *testing.T) {
	w, a := growing(1)
	a.Mode = cluster.InPlace
	a.Advice[0].Estimate = cluster.Estimate{Lower: cluster.Amounts(500, 32<<20), Target: cluster.Amounts(1000, 40<<20), Upper: cluster.Amounts(2000, 80<<20)}
	w.Pods = w.Governed[0].Pods
	w.Nodes = []cluster.Node{{Name: "a", Allocatable: cluster.Amounts(500, 1<<30), Ready: true}, {Name: "b", Allocatable: cluster.Amounts(4000, 4<<30), Ready: true}}
	b := DefaultBudget()
	b.MinReplicas, b.InPlace = 1, true
	attempts, parts := 0, 0
	for minute := range 120 {
		pass := Begin(noon.Add(time.Duration(minute)*time.Minute), w, b)
		pass.Learn()
		for _, d := range actions(pass) {
			attempts++
			if d.Reason.Part {
				parts++
			}
			pass.Refused(d, decision.Refusal{Kind: decision.DeniedByNode})
		}
	}
	if attempts == 0 || attempts > 8 || parts == 0 {
		t.Errorf("%d attempts in two hours, %d by a part, want 1 to 8, by a part too", attempts, parts)
	}
}

// A quota that podfit cannot read refused the rest of an increase, and the node stays full. After the back-off, the rest is requested again:
// otherwise, nothing would show for a day that the quota has room by now, and that the pod can be evicted.
func TestPass_quotaRefusesRestAndNodeStaysFull_restIsRequestedAgain(t *testing.T) {
	w, a := growing(3)
	w.Pods = w.Governed[0].Pods
	w.Nodes = []cluster.Node{{Name: "a", Allocatable: cluster.Amounts(400, 512<<20), Ready: true}, {Name: "b", Allocatable: cluster.Amounts(4000, 4<<30), Ready: true}}
	b := DefaultBudget()
	b.Tolerance = 1
	pod := w.Governed[0].Pods[0]
	pod.Containers[0].Requests = cluster.Amounts(200, 256<<20)
	full := Begin(noon, w, b).Decisions()[0].With
	part := slices.Clone(full)
	part[0].Requests = pod.Containers[0].Requests
	for range maxParts {
		w.Ledger.Done(noon, ledger.Attempt{Pod: pod, Autoscaler: a.Key, Do: decision.Resize, With: part, Part: true})
	}
	refused := decision.Refusal{Kind: decision.DeniedByQuota, Text: "exceeded quota: compute"}
	attempts := 0
	for minute := 6; minute < 12*60; minute++ {
		pass := Begin(noon.Add(time.Duration(minute)*time.Minute), w, b)
		pass.Learn()
		own := *pass.entryOf(pod).Decision
		if own.Do == decision.Evict {
			t.Fatalf("the pod is evicted after %d minutes", minute)
		}
		if own.Do == decision.Resize {
			attempts++
			pass.Refused(own, refused)
		}
	}
	if attempts < 8 || attempts > 16 {
		t.Errorf("%d attempts in 12 hours, want 8 to 16", attempts)
	}
}
