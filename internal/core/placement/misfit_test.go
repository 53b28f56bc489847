// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"strings"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/fleet"
)

// A pod that fits only on a node of a group at its maximum does not fit, and the reason says so, without the name of the group.
func TestMisfit_groupIsFull_isSaid(t *testing.T) {
	nodes := []cluster.Node{{Name: "small", Ready: true, Allocatable: cluster.Amounts(1000, 1<<30)}}
	size := cluster.Amounts(4000, 8<<30)
	for name, c := range map[string]struct {
		more       int
		pod        cluster.Pod
		size       cluster.Resources
		fits, says bool
	}{
		"one more can be added":      {1, cluster.Pod{}, size, true, false},
		"none can be added":          {0, cluster.Pod{}, size, false, true},
		"too large for the group":    {0, cluster.Pod{}, cluster.Amounts(9000, 1<<30), false, false},
		"its nodes are not known":    {0, cluster.Pod{Place: cluster.Somewhere, Node: "small"}, size, false, false},
		"it stays on its node":       {0, cluster.Pod{Node: "small", Controller: cluster.Workload{Kind: "DaemonSet"}}, size, false, false},
		"it fits on a node that is":  {0, cluster.Pod{}, cluster.Amounts(500, 1<<20), true, false},
		"its tolerations are listed": {0, cluster.Pod{Tolerance: cluster.AnyTaint}, size, false, true},
	} {
		group := cluster.NodeGroup{Name: "MachineDeployment/prod/md-0", Counted: true, More: c.more}
		f := fleet.New(fleet.Config{Nodes: nodes, New: []cluster.NewNode{{Size: cluster.Amounts(8000, 16<<30), NodeGroup: group}}})
		s := SizesOf(nodes, nil, nil, f)
		now, ever := s.Fit(&c.pod, c.size)
		if now != c.fits {
			t.Errorf("%s: fits %t", name, now)
		}
		if ever != (c.fits || c.says) { // the last node of a full group may be on its way for the pod
			t.Errorf("%s: may fit %t", name, ever)
		}
		if c.fits {
			continue
		}
		r := s.Misfit(&c.pod, c.size)
		if says := strings.Contains(r.String(), "are at their maximum"); r.Code != decision.NoNodeFits || says != c.says || strings.Contains(r.String(), "md-0") {
			t.Errorf("%s: %s", name, r)
		}
	}
}
