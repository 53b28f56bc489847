// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package criticality

import (
	"slices"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
)

func TestDeclaredBy_containersWithCPULimits_areNamedOnce(t *testing.T) {
	limited := cluster.Resources{}.Set(cluster.CPU, 500)
	pod := func(label string, containers ...cluster.Container) *cluster.Pod {
		p := criticalPod(&cluster.Criticality{Labelled: label != "", Label: label})
		p.Containers = containers
		return p
	}
	gone := pod("", cluster.Container{Name: "gone", Limits: limited})
	gone.Phase = cluster.Succeeded
	got, _ := DeclaredBy([]*cluster.Pod{
		pod("2", cluster.Container{Name: "web", Limits: limited}, cluster.Container{Name: "app"}),
		pod("", cluster.Container{Name: "app", Limits: limited}, cluster.Container{Name: "web", Limits: limited}),
		pod("", cluster.Container{Name: "memory", Limits: cluster.Resources{}.Set(cluster.Memory, 1<<30)}), gone,
	})
	if want := []string{"app", "web"}; !slices.Equal(got.Limited, want) {
		t.Errorf("containers with CPU limits are %v, want %v", got.Limited, want)
	}
	java := pod("", cluster.Container{Name: "limited", Limits: cluster.Resources{}.Set(cluster.Memory, 1<<30)}, cluster.Container{Name: "free", Index: 1})
	java.Runtimes = &cluster.Runtimes{List: []cluster.Runtime{{Kind: cluster.JVM}, {Kind: cluster.JVM, Container: 1}}}
	if got, _ = DeclaredBy([]*cluster.Pod{java}); !slices.Equal(got.Runtimes, []string{"limited"}) {
		t.Errorf("containers with a runtime that follows its limit are %v", got.Runtimes)
	}
}
