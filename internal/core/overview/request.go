// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"cmp"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
)

// A RequestStep is a change of the requests that a container of new or resized pods has from a time on. Resources that did not change are not set.
type RequestStep struct {
	At        time.Time
	Container string
	Requests  cluster.Resources
}

const maxSteps = 200

// RequestSteps returns how the requests of a workload changed, the oldest first: by the creation of its pods, and by the resizes that the
// updater has recorded. The requests of a resized pod before its resize are not known. If pods have different requests at the same time, the
// last change counts.
func RequestSteps(pods []*cluster.Pod, record *ledger.State) []RequestStep {
	var all []*RequestStep
	resized := make(map[string]bool)
	for _, p := range record.Pods {
		if p.Failed != nil || p.Do != decision.Resize {
			continue
		}
		resized[p.UID] = true
		for _, f := range p.With {
			all = append(all, &RequestStep{p.At, f.Container, f.Requests})
		}
	}
	for _, p := range pods {
		if !p.Live() || p.Placeholder || resized[p.UID] || record.Omitted > 0 || p.Created.IsZero() {
			continue // with omitted records, the pod may have been resized since
		}
		for i := range p.Containers {
			if c := &p.Containers[i]; c.Role != cluster.Init {
				requests, _ := c.Running()
				all = append(all, &RequestStep{p.Created, c.Name, requests})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *RequestStep) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Container, b.Container)) })
	return withoutRepetition(all)
}

// withoutRepetition drops steps that change nothing, and the oldest ones of a container that has too many.
func withoutRepetition(all []*RequestStep) []RequestStep {
	last := make(map[string]cluster.Resources)
	count := make(map[string]int)
	var out []RequestStep
	for _, s := range all {
		now := s.Requests.Or(last[s.Container])
		if before, known := last[s.Container]; known && now == before {
			continue
		}
		last[s.Container] = now
		count[s.Container]++
		out = append(out, *s)
	}
	kept := out[:0]
	for _, s := range out {
		count[s.Container]--
		if count[s.Container] < maxSteps {
			kept = append(kept, s)
		}
	}
	return kept
}
