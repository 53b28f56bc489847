// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import "slices"

// Governed is an autoscaler and the pods it governs: all of them, those too that are not scheduled yet, are being deleted
// or have finished.
type Governed struct {
	Autoscaler *Autoscaler
	Pods       []*Pod
}

// Gather assigns pods to the autoscalers that govern them: the pods of a topmost controller to the autoscaler that
// Governing chooses for it. Where none changes pods, they are assigned to the oldest autoscaler, whose update mode is then the
// reason why they are left alone. startupBoost is the feature gate CPUStartupBoost. The result is sorted by autoscaler and
// contains every autoscaler, those that govern no pod too.
func Gather(as []*Autoscaler, pods []*Pod, startupBoost bool) []Governed {
	byTarget := make(map[Workload][]*Autoscaler, len(as))
	for _, a := range as {
		byTarget[a.Target] = append(byTarget[a.Target], a)
	}
	podsOf := make(map[*Autoscaler][]*Pod, len(as))
	governing := make(map[Workload]*Autoscaler, len(as))
	for _, p := range pods {
		if p.Top.IsZero() {
			continue
		}
		a, known := governing[p.Top]
		if !known {
			if a = Governing(byTarget[p.Top], startupBoost); a == nil {
				a = Oldest(byTarget[p.Top])
			}
			governing[p.Top] = a
		}
		if a != nil {
			podsOf[a] = append(podsOf[a], p)
		}
	}
	out := make([]Governed, 0, len(as))
	for _, a := range as {
		out = append(out, Governed{Autoscaler: a, Pods: podsOf[a]})
	}
	slices.SortFunc(out, func(a, b Governed) int { return a.Autoscaler.Key.Compare(b.Autoscaler.Key) })
	return out
}
