// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"strconv"
	"strings"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/cluster"
)

// The annotations that the webhook writes on a pod.
const (
	UpdatesAnnotation  = "vpaUpdates"
	ObservedAnnotation = "vpaObservedContainers"
)

// Annotation returns the value of the annotation vpaUpdates: the resources that were set on each container, and the notes. It is empty
// if nothing is set.
func Annotation(a *cluster.Autoscaler, fits []Fitted) string {
	var text strings.Builder
	for _, fit := range fits {
		if fit.Requests.Has.Empty() && fit.Limits.Has.Empty() {
			continue
		}
		if text.Len() == 0 {
			text.WriteString("Pod resources updated by " + a.Name + ": ")
		} else {
			text.WriteString("; ")
		}
		if fit.Sidecar {
			text.WriteString("init ")
		}
		text.WriteString("container " + strconv.Itoa(fit.Index) + ": ")
		separator := ""
		for _, n := range fit.Notes {
			text.WriteString(separator + n.String())
			separator = ", "
		}
		writeResources(&text, separator, fit.Requests.Has, fit.Limits.Has)
	}
	if text.Len() > 0 && fits[0].PodLevel != nil {
		writeResources(&text, "; pod: ", fits[0].PodLevel.Requests.Has, fits[0].PodLevel.Limits.Has)
	}
	return text.String()
}

// writeResources writes the names of requests and limits, separated by commas. The separator precedes the first one.
func writeResources(b *strings.Builder, separator string, requests, limits cluster.Set) {
	for _, part := range [...]struct {
		set  cluster.Set
		name string
	}{{requests, " request"}, {limits, " limit"}} {
		for _, res := range cluster.All {
			if part.set.Has(res) {
				b.WriteString(separator + res.String() + part.name)
				separator = ", "
			}
		}
	}
}

// RefusedAnnotation returns the value of the annotation vpaUpdates for a pod that keeps its own resources because the API
// server would refuse the recommended ones.
func RefusedAnnotation(a *cluster.Autoscaler, r admissible.Refusal) string {
	return "Pod resources NOT updated by " + a.Name + ": the API server would refuse the pod: " + r.String()
}

// WithRefusedBoost returns a value of the annotation vpaUpdates, which may be empty, with the reason why the startup boost was not
// applied.
func WithRefusedBoost(a *cluster.Autoscaler, text string, r admissible.Refusal) string {
	return withClause(a, text, "Startup boost NOT applied", ": the API server would refuse the pod: "+r.String())
}

// WithoutBoost returns a value of the annotation vpaUpdates, which may be empty, with the containers whose boost factor multiplies
// nothing.
func WithoutBoost(a *cluster.Autoscaler, text string, containers []string) string {
	return withClause(a, text, "Startup boost NOT applied",
		" to container "+strings.Join(containers, ", ")+": a factor needs a CPU request or a recommendation")
}

// WithVariables returns a value of the annotation vpaUpdates, which may be empty, with the variables that are added to the environment of
// containers.
func WithVariables(a *cluster.Autoscaler, text string, added []Variable) string {
	if len(added) == 0 {
		return text
	}
	names := cluster.Each(added, func(v *Variable) string { return v.Name + " of container " + v.Container })
	return withClause(a, text, "Environment set", ": "+strings.Join(names, ", "))
}

// withClause appends a clause to a value of the annotation. If the value is empty, the clause names the autoscaler.
func withClause(a *cluster.Autoscaler, text, what, rest string) string {
	if text == "" {
		return what + " by " + a.Name + rest
	}
	return text + "; " + strings.ToLower(what[:1]) + what[1:] + rest
}

const observedSeparator = ", "

// ObservedContainers returns the value of the annotation vpaObservedContainers: the containers in the request to the webhook that have a size.
// The updater ignores containers that were added to the pod later.
func ObservedContainers(p *cluster.Pod) string {
	names := make([]string, 0, len(p.Containers))
	for i := range p.Containers {
		if p.Containers[i].IsSized() {
			names = append(names, p.Containers[i].Name)
		}
	}
	return strings.Join(names, observedSeparator)
}

// Observed reports whether the annotation vpaObservedContainers of a pod contains a container. If the annotation is absent or
// invalid, all containers count as observed.
func Observed(annotation, container string) bool {
	if annotation == "" {
		return true
	}
	found, readable := false, true
	for name := range strings.SplitSeq(annotation, observedSeparator) {
		found = found || name == container
		readable = readable && isLabel(name)
	}
	return found || !readable
}

// isLabel reports whether s is a DNS label (RFC 1123), as container names are.
func isLabel(s string) bool {
	const allowed = "-abcdefghijklmnopqrstuvwxyz0123456789"
	return s != "" && len(s) <= 63 && s[0] != '-' && s[len(s)-1] != '-' && strings.Trim(s, allowed) == ""
}
