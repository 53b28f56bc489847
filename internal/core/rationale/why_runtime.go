// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package rationale

import (
	"fmt"
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/runtimeguard"
	"podfit.dev/podfit/internal/core/wording"
)

// runtimeLine is the line about what the language runtime of the container makes of the amount: that it may misread the CPU request, or that
// it notices a change only when it starts again.
func (w *Why) runtimeLine() Line {
	r := w.Runtime
	if r == nil || !w.Size.HasRequest {
		return Line{}
	}
	text := ""
	switch {
	case w.Resource == cluster.CPU:
		text = w.processorsText(r)
	case r.Kind == cluster.JVM && w.changes():
		text = w.heapText(r)
	}
	if text == "" {
		return Line{}
	}
	return Line{What: text, Note: "detected by its " + r.Evidence.String()}
}

// changes reports whether the pod does not have the amounts yet.
func (w *Why) changes() bool {
	return w.Size.HasRequest != w.Present.HasRequest || w.Size.Request != w.Present.Request || w.Size.HasLimit && w.Size.Limit != w.Present.Limit
}

func (w *Why) processorsText(r *cluster.Runtime) string {
	guarded := slices.IndexFunc(w.Bounds, func(b policy.Bound) bool { return b.Kind == policy.JVMShare && b.Changed() })
	if guarded >= 0 {
		band, _ := runtimeguard.Band(w.Bounds[guarded].Before)
		return fmt.Sprintf("a JVM may read a request from %dm to %dm as all cores of the node", band.From, band.To)
	}
	if r.CPUCountSet {
		if !w.changes() {
			return ""
		}
		option := runtimeguard.VariableOf(r.Kind)
		if r.Kind == cluster.JVM {
			option = "-XX:ActiveProcessorCount"
		}
		return option + " sets the number of processors; another request does not change it"
	}
	band, misread := runtimeguard.Band(w.Size.Request)
	if r.Kind != cluster.JVM || !misread || w.Size.HasLimit {
		return ""
	}
	return fmt.Sprintf("a JVM may read a request from %dm to %dm as all cores of the node. To avoid these, annotate the VPA with podfit.dev/runtime-guards=cpu",
		band.From, band.To)
}

func (w *Why) heapText(r *cluster.Runtime) string {
	switch {
	case r.HeapBytes > 0:
		return fmt.Sprintf("the options of the JVM set a heap of %s; another request does not change it", wording.Figure(cluster.Memory, float64(r.HeapBytes)))
	case w.Restarts:
		return "" // a resize restarts the container, and so the JVM notices it
	case r.HeapPercent > 0:
		return fmt.Sprintf("the JVM takes its heap, %s of the memory limit, when it starts; a resize without a restart does not change it",
			percent(float64(r.HeapPercent)/100))
	}
	return "a JVM chooses its heap when it starts; a resize without a restart does not change it"
}
