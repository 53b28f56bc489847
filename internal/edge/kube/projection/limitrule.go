// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"fmt"
	"strings"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/wording"
)

// cpuLimits returns what is done with the CPU limits of new pods, from the annotations of an autoscaler. An invalid annotation has no effect,
// as if it was absent.
func cpuLimits(annotations map[string]string) cluster.LimitRule {
	text := strings.TrimSpace(annotations[v1alpha1.AnnotationCPULimits])
	if text == "" {
		return cluster.LimitRule{}
	}
	out := limitRule(text, "annotation "+v1alpha1.AnnotationCPULimits)
	out.Set = out.Problem == ""
	return out
}

// ProfileCPULimits returns what a SizingProfile requires for the CPU limits of new pods, from its spec in JSON. It never fails: an invalid
// field has no effect. The recommender reports it, and refuses a SizingProfile with the name of a built-in profile, which keeps limits.
func ProfileCPULimits(name string, spec []byte) cluster.LimitRule {
	var fields struct {
		Limits struct {
			CPU string `json:"cpu"`
		} `json:"limits"`
	}
	if !isCustom(name, spec, &fields) || fields.Limits.CPU == "" {
		return cluster.LimitRule{}
	}
	return limitRule(fields.Limits.CPU, "a field of SizingProfile "+name+" is invalid: limits.cpu")
}

// limitRule parses a rule. The problem of an unknown one starts with what.
func limitRule(text, what string) cluster.LimitRule {
	switch v1alpha1.LimitRule(text) {
	case v1alpha1.KeepLimit:
		return cluster.LimitRule{}
	case v1alpha1.RemoveLimit:
		return cluster.LimitRule{Remove: true}
	}
	return cluster.LimitRule{Problem: fmt.Sprintf("%s must be %s or %s, got %q; it has no effect",
		what, v1alpha1.KeepLimit, v1alpha1.RemoveLimit, wording.Shortened(wording.OneLine(text), maxQuoted))}
}
