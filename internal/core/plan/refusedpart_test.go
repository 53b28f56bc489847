// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
)

// A resize by a part shrinks nothing, so the target may have less memory than the part that the node refused. That is no reason to try
// again during the back-off: the resize would be by the same part.
func TestPass_nodeRefusesPartAndTargetHasLessMemory_attemptsAreFew(t *testing.T) {
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
