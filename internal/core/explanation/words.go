// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explanation

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/wording"
)

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// clock returns a time in the location of now, with its date if that is not today's.
func clock(now, at time.Time) string {
	at = at.In(now.Location())
	if now.Format(time.DateOnly) == at.Format(time.DateOnly) {
		return at.Format("15:04")
	}
	if now.Sub(at).Abs() < 6*24*time.Hour {
		return at.Format("Mon 15:04")
	}
	return at.Format("2006-01-02 15:04")
}

// since returns a time with text before it, and "" if the time is not known.
func since(now time.Time, before string, at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return before + clock(now, at)
}

func short(r cluster.Resources) string {
	return wording.Amount(cluster.CPU, r.CPU) + " CPU, " + wording.Amount(cluster.Memory, r.Memory)
}

// kubectl returns a command in the namespace of the subject.
func (in *Input) kubectl(words ...string) string {
	ns := in.Workload.Namespace
	if ns == "" && in.Autoscaler != nil {
		ns = in.Autoscaler.Namespace
	}
	if ns == "" && len(in.Pods) > 0 {
		ns = in.Pods[0].Namespace
	}
	return kubectl(ns, words...)
}

func kubectl(namespace string, words ...string) string {
	out := "kubectl"
	if namespace != "" {
		words = append([]string{"-n", namespace}, words...)
	}
	for _, word := range words {
		out += " " + wording.ShellWord(word)
	}
	return out
}

// patchOf returns the command that merges a patch into a VPA.
func patchOf(a *cluster.Autoscaler, with string) string {
	return kubectl(a.Namespace, "patch", "vpa", a.Name, "--type", "merge", "-p", with)
}
