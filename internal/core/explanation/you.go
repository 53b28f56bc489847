// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explanation

import (
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/rollout"
	"podfit.dev/podfit/internal/core/wording"
)

// you returns what a person can do: about the situations first, and how to stop podfit last.
func you(in *Input, found []Situation, steps []Step) []Advice {
	var out []Advice
	for i := range found {
		if found[i].Advice.Text != "" {
			out = append(out, found[i].Advice)
		}
	}
	a := in.Autoscaler
	if in.Subject.Kind == OfNode {
		return out
	}
	if a == nil {
		return append(out, withoutAutoscaler(in)...)
	}
	out = append(out, byMode(in, a)...)
	if len(out) == 0 && cluster.Find(in.Decisions, func(d *decision.Decision) bool { return d.Reason.Code.NeedsAttention() }) == nil { // such a reason says what to do
		out = append(out, Advice{Text: "Nothing to do."})
	}
	if a.Mode.Updates() && len(steps) > 0 {
		out = append(out, stop(in, a)...)
	}
	return out
}

// stop returns how changes are stopped: those of running pods by a freeze, and also those of new pods by the update mode. With mode Off,
// a new pod has the requests of its template, with which it may be OOM-killed, so the freeze is first.
func stop(in *Input, a *cluster.Autoscaler) []Advice {
	var out []Advice
	if frozen(in) == "" {
		out = append(out, Advice{
			Text:    "To stop changes of running pods (new pods still get the recommended size):",
			Command: kubectl(a.Namespace, "annotate", "vpa", a.Name, "podfit.dev/freeze=true", "--overwrite"),
		})
	}
	return append(out, Advice{
		Text:    "To stop all changes (new pods get the requests of their template):",
		Command: patchOf(a, `{"spec":{"updatePolicy":{"updateMode":"Off"}}}`),
	})
}

// frozen returns the switch that stops changes of running pods, or "".
func frozen(in *Input) string {
	by := in.frozenBy()
	for i := range in.Decisions {
		if r := &in.Decisions[i].Reason; by == "" && r.Code == decision.Frozen {
			return r.Text
		}
	}
	return by
}

// unfreeze returns the command that removes the switch that rollout.Frozen names; "" if it is not known.
func unfreeze(r rollout.Rules) string {
	switch {
	case r.Autoscaler == nil:
		return ""
	case r.Cluster.On:
		return kubectl(r.Cluster.By.Namespace, "delete", "configmap", r.Cluster.By.Name)
	case r.Namespace.Frozen:
		return kubectl("", "annotate", "namespace", r.Autoscaler.Namespace, rollout.AnnotationFreeze+"-")
	case r.Autoscaler.Rules.Frozen:
		return kubectl(r.Autoscaler.Namespace, "annotate", "vpa", r.Autoscaler.Name, rollout.AnnotationFreeze+"-")
	}
	return ""
}

// withoutAutoscaler returns what can be done for pods that no VPA governs.
func withoutAutoscaler(in *Input) []Advice {
	if in.Subject.Command == "" {
		return []Advice{{Text: "The pod has no controller, so no VPA can size it."}}
	}
	text := "No VPA governs these pods."
	if in.NoAutoscalers {
		text = "It is not known whether a VPA governs these pods, because VPAs cannot be read."
	}
	return []Advice{{
		Text:    text + " To see what podfit would recommend:",
		Command: "podfit recommend " + wording.ShellWord(in.Subject.Command) + " -n " + wording.ShellWord(in.Subject.Workload.Namespace),
	}}
}

// byMode returns what can be done about an update mode that does not apply the recommendation.
func byMode(in *Input, a *cluster.Autoscaler) []Advice {
	if why := in.unjudged(); why != "" && !a.Mode.Updates() {
		return []Advice{{Text: "Update mode " + a.Mode.String() + " does not change running pods. Do not change it before the recommendation is judged."}}
	}
	if !a.Mode.Updates() {
		text := "Update mode Off does not apply the recommendation. To let podfit apply it:"
		if a.Mode.OnlyNewPods() {
			text = "Update mode Initial applies the recommendation to new pods only. To let podfit change running pods, too:"
		}
		return []Advice{{
			Text:    text,
			Command: patchOf(a, `{"spec":{"updatePolicy":{"updateMode":"InPlaceOrRecreate"}}}`),
		}}
	}
	if by := frozen(in); by != "" {
		return []Advice{{Text: "Changes are frozen. They continue when the freeze is removed: " + by + ".", Command: unfreeze(in.Rules)}}
	}
	return nil
}
