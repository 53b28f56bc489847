// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package rationale

import (
	"slices"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
)

func TestWhy_cpuLimitsRemoved_saysWhatNewPodsGet(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Sizing)
		want   string // "" if there is no line
	}{
		"no rule": {func(s *Sizing) { s.Autoscaler.CPULimits.Remove = false }, ""},
		"remove":  {func(*Sizing) {}, "new pods get no CPU limit; this pod keeps its limit until it is replaced"},
		"a LimitRange": {
			func(s *Sizing) { s.Limits.Range.Container.Default = cluster.Resources{}.Set(cluster.CPU, 900) },
			"new pods keep the CPU limit: a LimitRange adds a default cpu limit",
		},
		"no limit": {func(s *Sizing) { s.Pod.Containers[0].Limits = cluster.Resources{} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := cartScene()
			s.Autoscaler.Horizontal = nil
			s.Autoscaler.CPULimits.Remove = true
			s.Pod.Containers[0].Requests = s.Pod.Containers[0].Requests.Set(cluster.CPU, 400)
			s.Pod.Containers[0].Limits = s.Pod.Containers[0].Limits.Set(cluster.CPU, 800)
			c.change(&s.Sizing)
			count := 0
			for _, w := range WhyOf(&s.Sizing) {
				if slices.ContainsFunc(w.Lines(), func(l Line) bool { return c.want != "" && l.What == c.want }) {
					count++
					if w.Resource != cluster.CPU {
						t.Errorf("the line is about %s", w.Resource)
					}
				}
				if line := w.limitLine(); line != (Line{}) && c.want == "" {
					t.Errorf("line %+v", line)
				}
			}
			if c.want != "" && count != 1 {
				t.Errorf("%d lines %q", count, c.want)
			}
		})
	}
}
