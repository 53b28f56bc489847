// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package rationale

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/runtimeguard"
	"podfit.dev/podfit/internal/core/startup"
	"podfit.dev/podfit/internal/core/wording"
)

// nodeLine is the line about the share of a node that lowers the amount.
func (w *Why) nodeLine() Line {
	for _, b := range w.Bounds {
		if b.Kind == policy.NodeShare && b.Changed() {
			return Line{
				Figure: "→ " + wording.Figure(w.Resource, float64(b.After)),
				What:   fmt.Sprintf("a pod may have %s, in proportion", wording.Figure(w.Resource, float64(b.Amount))), Note: w.Node.String(),
			}
		}
	}
	return Line{}
}

func (w *Why) result() Line {
	line := Line{Figure: "= " + wording.Figure(w.Resource, float64(w.Size.requestOr(w.Range.Target)))}
	if texts := w.BoundTexts(); len(texts) > 0 {
		line.What = "bounds: " + strings.Join(texts, ", ")
	}
	return line
}

// sizeLine is the line about the limit, a recommendation in the status that differs, and the size outside of low hours.
func (w *Why) sizeLine() Line {
	var texts []string
	switch limit := wording.Figure(w.Resource, float64(w.Size.Limit)); {
	case !w.Size.HasRequest:
	case !w.Size.HasLimit:
		texts = append(texts, "no limit")
	case w.LimitsKept:
		texts = append(texts, fmt.Sprintf("limit stays %s, by the policy", limit))
	case w.Present.HasLimit && w.Present.Limit != w.Size.Limit:
		text := fmt.Sprintf("limit %s → %s", wording.Figure(w.Resource, float64(w.Present.Limit)), limit)
		switch w.Limits.Memory {
		case policy.LimitByPeaks:
		case policy.LimitQuotasUnknown:
			text += ", if in proportion"
		default:
			text += ", in proportion"
		}
		texts = append(texts, text)
	default:
		texts = append(texts, "limit "+limit)
	}
	if w.Published.Target != w.Range.Target {
		texts = append(texts, fmt.Sprintf("the VPA's status has %s", wording.Figure(w.Resource, float64(w.Published.Target))))
	}
	for _, g := range w.Published.Groups {
		if amount, set := g.Target.Get(w.Resource); set && w.Published.RoleLabel != "" {
			which := fmt.Sprintf("pods with %s=%s", w.Published.RoleLabel, g.Role)
			switch w.Published.RoleLabel {
			case cluster.NodeSize:
				which = "pods on nodes of the size " + g.Role
			case cluster.UsageLevel:
				which = g.Role + " pods"
			}
			texts = append(texts, which+" get "+wording.Figure(w.Resource, float64(amount)))
		}
	}
	if w.Published.Whole > 0 {
		texts = append(texts, fmt.Sprintf("the pod as a whole needs %s, the sum of its containers would be %s",
			wording.Figure(w.Resource, float64(w.Published.Whole)), wording.Figure(w.Resource, float64(w.Published.Sum))))
	}
	if w.Usual > 0 {
		texts = append(texts, fmt.Sprintf("outside of the low hours: %s", wording.Figure(w.Resource, float64(w.Usual))))
	}
	if len(texts) == 0 {
		return Line{}
	}
	return Line{What: strings.Join(texts, "; ")}
}

// limitLine is the line about the memory limit, and about the CPU limit of new pods, if the profile or an annotation of the VPA has a rule for it.
func (w *Why) limitLine() Line {
	if w.Limits.Memory != policy.LimitInProportion {
		what := "the memory limit " + string(w.Limits.Memory)
		if w.Limits.Memory == policy.LimitByPeaks && w.Size.HasLimit && float64(w.Size.Limit) < policy.LeastOfPeak*float64(w.Limits.Peak) {
			peak := wording.Figure(w.Resource, float64(w.Limits.Peak))
			what += fmt.Sprintf(". These bounds keep it below %.2f × that usage of %s, so OOM kills are likely", policy.LeastOfPeak, peak)
		}
		return Line{What: what, Note: "limits.memory of the profile, or podfit.dev/memory-limits"}
	}
	if slices.Contains(w.Limits.CPU.Removed, w.Container) {
		return Line{What: "new pods get no CPU limit; this pod keeps its limit until it is replaced", Note: "limits.cpu of the profile, or podfit.dev/cpu-limits"}
	}
	i := slices.IndexFunc(w.Limits.CPU.Kept, func(k policy.KeptCPULimit) bool { return k.Container == w.Container })
	if i < 0 {
		return Line{}
	}
	what := "new pods keep the CPU limit: " + w.Limits.CPU.Kept[i].Why()
	if w.Limits.CPU.Kept[i].Kind == policy.KeptForUnknownQuota { // the admission controller may know them
		what = "it is not known whether new pods keep the CPU limit: this command cannot read the ResourceQuotas of the namespace"
	}
	return Line{What: what, Note: "limits.cpu of the profile, or podfit.dev/cpu-limits"}
}

// horizontalLine is the line about an HPA that scales by the request.
func (w *Why) horizontalLine() Line {
	if w.Horizontal == policy.NotScaled || w.Metric.HPA == nil || w.Metric.Metric == nil {
		return Line{}
	}
	what := fmt.Sprintf("HPA %s scales at %d %% of the request", w.Metric.HPA.Name, w.Metric.Metric.Percent)
	if w.Present.HasRequest {
		what += fmt.Sprintf(": %s a pod", wording.Figure(w.Resource, float64(w.Present.Request)*float64(w.Metric.Metric.Percent)/100))
	}
	return Line{What: what + "; " + string(w.Horizontal)}
}

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

// boostLine is the line about the learnt startup boost: its amount, or why there is none.
func (w *Why) boostLine() Line {
	b := &w.StartupBoost
	if !b.Learning || w.Resource != cluster.CPU {
		return Line{}
	}
	learnt := "learnt from " + plural(float64(b.Learnt.Starts), "start")
	switch {
	case b.Configured:
		return Line{What: "new pods get the startupBoost of the VPA", Note: "it has precedence over a learnt one"}
	case b.Learnt.Starts < startup.Needed:
		return Line{What: "no startup boost yet", Note: fmt.Sprintf("%s of %d needed to learn one", plural(float64(b.Learnt.Starts), "start"), startup.Needed)}
	case b.Learnt.Percent == 0:
		return Line{What: "no startup boost: starts need no more CPU", Note: learnt}
	case b.Off:
		return Line{What: "no startup boost: the update mode is Off", Note: learnt}
	case b.GateOff:
		return Line{What: "no startup boost: the feature gate CPUStartupBoost is disabled", Note: learnt}
	case !w.Size.HasRequest || w.Horizontal.IsLeft():
		return Line{What: "no startup boost: podfit does not set the CPU request", Note: learnt}
	case w.Horizontal != policy.NotScaled:
		return Line{What: "no startup boost: an HPA scales by the CPU request", Note: learnt}
	case b.Applied == nil:
		return Line{}
	}
	factor := strconv.FormatFloat(float64(b.Applied.Percent)/100, 'f', -1, 64)
	what := fmt.Sprintf("new pods start with %s times the request, until %.0f s after Ready", factor, b.Applied.Duration.Seconds())
	if b.Applied.Duration == 0 {
		what = fmt.Sprintf("new pods start with %s times the request, until they are Ready", factor)
	}
	return Line{What: what, Note: learnt}
}
