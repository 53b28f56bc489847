// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package occupancy

import (
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/room"
)

// Containers of a pod share the room in proportion to their increases. Limits follow, and whole cores stay whole.
func TestBook_part_severalContainers_growInProportion(t *testing.T) {
	p := &cluster.Pod{UID: "1", Containers: []cluster.Container{
		{Name: "app", Requests: cluster.Amounts(1000, 100*mebibyte), Limits: cluster.Amounts(2000, 200*mebibyte)},
		{Name: "log", Requests: cluster.Amounts(100, 100*mebibyte)},
	}}
	with := []policy.Fitted{
		{Container: "app", Requests: cluster.Amounts(3000, 200*mebibyte), Limits: cluster.Amounts(6000, 400*mebibyte)},
		{Container: "log", Requests: cluster.Amounts(300, 50*mebibyte)},
	}
	b := &Book{}
	step := room.Step{From: room.Amount{CPU: 1100, Memory: 200 * mebibyte}, To: room.Amount{CPU: 2200, Memory: 225 * mebibyte}}
	a := &cluster.Autoscaler{}
	got, ok := b.Part(&decision.Decision{Pod: p, Autoscaler: a, With: with}, step)
	if !ok || got[0].Requests != cluster.Amounts(2000, 125*mebibyte) || got[0].Limits != cluster.Amounts(4000, 250*mebibyte) || got[1].Requests != cluster.Amounts(200, 100*mebibyte) {
		t.Errorf("got %v %v and %v (%t)", got[0].Requests, got[0].Limits, got[1].Requests, ok)
	}
	a.IntegerCPU = []string{"app"}
	step.To = room.Amount{CPU: 1900, Memory: 200 * mebibyte} // 800 of 2200 millicores
	got, ok = b.Part(&decision.Decision{Pod: p, Autoscaler: a, With: with}, step)
	if !ok || got[0].Requests != cluster.Amounts(1000, 100*mebibyte) || got[1].Requests.CPU != 172 {
		t.Errorf("whole cores: got %v and %v (%t)", got[0].Requests, got[1].Requests, ok)
	}
	if with[0].Requests != cluster.Amounts(3000, 200*mebibyte) {
		t.Error("the recommendation was changed")
	}
}
