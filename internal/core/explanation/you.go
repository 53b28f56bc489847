// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explanation

import (
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
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
	if len(out) == 0 {
		out = append(out, Advice{Text: "Nothing to do."})
	}
	if a.Mode.Updates() && len(steps) > 0 {
		out = append(out, Advice{Text: "To stop podfit here:", Command: in.patch(a, `{"spec":{"updatePolicy":{"updateMode":"Off"}}}`)})
	}
	return out
}

// withoutAutoscaler returns what can be done for pods that no VPA governs.
func withoutAutoscaler(in *Input) []Advice {
	if in.Subject.Command == "" {
		return []Advice{{Text: "The pod has no controller, so no VPA can size it."}}
	}
	return []Advice{{
		Text:    "No VPA governs these pods. To see what podfit would recommend:",
		Command: "podfit recommend " + quoted(in.Subject.Command) + " -n " + quoted(in.Subject.Workload.Namespace),
	}}
}

// byMode returns what can be done about an update mode that does not apply the recommendation.
func byMode(in *Input, a *cluster.Autoscaler) []Advice {
	if !a.Mode.Updates() {
		return []Advice{{
			Text:    "Update mode " + a.Mode.String() + " leaves running pods alone. To let podfit apply the recommendation:",
			Command: in.patch(a, `{"spec":{"updatePolicy":{"updateMode":"InPlaceOrRecreate"}}}`),
		}}
	}
	for i := range in.Decisions {
		if r := &in.Decisions[i].Reason; r.Code == decision.Frozen {
			return []Advice{{Text: "Changes are frozen. They continue when the freeze is removed: " + r.Text + "."}}
		}
	}
	return nil
}

// kubectl returns a command in the namespace of the subject.
func (in *Input) kubectl(arguments string) string {
	ns := in.Subject.Workload.Namespace
	if ns == "" && in.Autoscaler != nil {
		ns = in.Autoscaler.Namespace
	}
	if ns == "" && len(in.Pods) > 0 {
		ns = in.Pods[0].Namespace
	}
	if ns == "" {
		return "kubectl " + arguments
	}
	return "kubectl -n " + quoted(ns) + " " + arguments
}

// patch returns the command that merges a patch into a VPA.
func (in *Input) patch(a *cluster.Autoscaler, with string) string {
	return "kubectl -n " + quoted(a.Namespace) + " patch vpa " + quoted(a.Name) + " --type merge -p " + quoted(with)
}
