// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package rationale

import (
	"slices"
	"strings"
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
		// The admission controller may know them.
		"quotas that this command cannot read": {
			func(s *Sizing) { s.Limits.QuotasUnknown = true },
			"it is not known whether new pods keep the CPU limit: this command cannot read the ResourceQuotas of the namespace",
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

func TestWhy_memoryLimitRule_saysWhatDeterminesTheLimit(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Sizing)
		want   string
	}{
		"peaks": {func(*Sizing) {}, "the memory limit follows the highest usage of 14 days: twice as much, at least 1 GiB more, within minAllowed, maxAllowed, the LimitRange and the node. It does not fall in the first 14 days"},
		"keep":  {func(s *Sizing) { s.Autoscaler.MemoryLimits = cluster.LimitRule{Keep: true} }, "the memory limit stays as it is"},
		"quotas": {
			func(s *Sizing) { s.Limits.QuotasUnknown = true },
			"the memory limit is not known: this command cannot read the ResourceQuotas of the namespace",
		},
	} {
		s := cartScene()
		s.Autoscaler.Horizontal = nil
		s.Autoscaler.MemoryLimits.Peaks = true
		own := &s.Pod.Containers[0]
		s.Autoscaler.Advice = []cluster.Advice{{Container: own.Name, MemoryLimit: 2 << 30}}
		own.Limits = own.Limits.Set(cluster.Memory, own.Requests.Memory+1<<30)
		c.change(&s.Sizing)
		var got []string
		for _, w := range WhyOf(&s.Sizing) {
			if line := w.limitLine(); line != (Line{}) {
				got = append(got, w.Resource.String()+": "+line.What)
			}
		}
		if want := []string{"memory: " + c.want}; !slices.Equal(got, want) {
			t.Errorf("%s: the lines %q, want %q", name, got, want)
		}
	}
}

// maxAllowed, a LimitRange and the node count more than the highest usage. Then the limit may be below it.
func TestWhy_limitBelowTheHighestUsage_saysSo(t *testing.T) {
	for peak, want := range map[int64]bool{3 * gib: true, 1800 * mib: true, 1600 * mib: false} {
		s := cartScene()
		s.Autoscaler.Horizontal = nil
		s.Autoscaler.MemoryLimits.Peaks = true
		own := &s.Pod.Containers[0]
		s.Autoscaler.Advice = []cluster.Advice{{Container: own.Name, MemoryLimit: 2 * gib, MemoryPeak: peak}}
		own.Limits = own.Limits.Set(cluster.Memory, own.Requests.Memory+gib)
		for _, w := range WhyOf(&s.Sizing) {
			_, text, found := strings.Cut(w.limitLine().What, "first 14 days. ")
			if low := w.Resource == cluster.Memory && want; found != low || low && !strings.HasPrefix(text, "These bounds keep it below 1.25 × that usage of ") {
				t.Errorf("peak of %d MiB: %s: %q", peak/mib, w.Resource, w.limitLine().What)
			}
		}
	}
}

// The line about the size must not contradict that about the rule.
func TestWhy_limitByPeaks_isNotInProportion(t *testing.T) {
	s := cartScene()
	s.Autoscaler.Horizontal = nil
	s.Autoscaler.MemoryLimits.Peaks = true
	own := &s.Pod.Containers[0]
	s.Autoscaler.Advice = []cluster.Advice{{Container: own.Name, MemoryLimit: 3 << 30}}
	own.Limits = own.Limits.Set(cluster.Memory, own.Requests.Memory+1<<29)
	for _, w := range WhyOf(&s.Sizing) {
		if size := w.sizeLine().What; w.Resource == cluster.Memory && strings.Contains(size, "in proportion") {
			t.Errorf("%q, and %q", size, w.limitLine().What)
		}
	}
}

// The container policy has precedence.
func TestWhy_limitsAreNotControlled_saysWhyTheRuleDoesNotApply(t *testing.T) {
	s := cartScene()
	s.Autoscaler.Horizontal = nil
	s.Autoscaler.MemoryLimits.Peaks = true
	s.Autoscaler.Policies = []cluster.ContainerPolicy{{Container: "app", RequestsOnly: true}}
	own := &s.Pod.Containers[0]
	s.Autoscaler.Advice = []cluster.Advice{{Container: own.Name, MemoryLimit: 3 << 30}}
	own.Limits = own.Limits.Set(cluster.Memory, own.Requests.Memory+1<<29)
	for _, w := range WhyOf(&s.Sizing) {
		if w.Resource == cluster.Memory && w.limitLine() == (Line{}) {
			t.Errorf("no line about the rule, and %q", w.sizeLine().What)
		}
	}
}

func TestWhy_quotasAreNotReadable_proportionIsNotClaimed(t *testing.T) {
	s := cartScene()
	s.Autoscaler.Horizontal = nil
	s.Autoscaler.MemoryLimits.Peaks = true
	s.Limits.QuotasUnknown = true
	own := &s.Pod.Containers[0]
	s.Autoscaler.Advice = []cluster.Advice{{Container: own.Name, MemoryLimit: 3 << 30}}
	own.Limits = own.Limits.Set(cluster.Memory, own.Requests.Memory+1<<29)
	for _, w := range WhyOf(&s.Sizing) {
		if size := w.sizeLine().What; w.Resource == cluster.Memory && !strings.HasSuffix(size, ", if in proportion") {
			t.Errorf("%q, and %q", size, w.limitLine().What)
		}
	}
}
