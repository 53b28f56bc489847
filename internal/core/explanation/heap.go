// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explanation

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/rationale"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/runtimeguard"
	"podfit.dev/podfit/internal/core/wording"
)

// A Heap is what is known about the heap of the JVM in a container. It has no effect on the recommendation.
type Heap struct {
	Container string
	runtimeguard.HeapAdvice
	Option string // of the JVM, to copy; "" without advice
	Adds   bool   // podfit can add the option to new pods (policy.Variables)
	Flat   string // what the recorded memory says without metrics of the heap, as a sentence; "" if nothing
}

// JVMs returns the names of the containers of the first pod with a Java virtual machine, also those that are not shown.
func (in *Input) JVMs() []string {
	var out []string
	for _, p := range in.Pods[:min(len(in.Pods), 1)] {
		for i := range p.Containers {
			if r := p.Runtime(&p.Containers[i]); r != nil && r.Kind == cluster.JVM {
				out = append(out, p.Containers[i].Name)
			}
		}
	}
	return out
}

func heaps(in *Input) []Heap {
	var out []Heap
	for _, name := range in.JVMs() {
		if !in.shows(name) {
			continue
		}
		h := Heap{Container: name, HeapAdvice: runtimeguard.HeapAdvice{GCShare: math.NaN(), Lack: "no Prometheus was read"}}
		if u, read := in.HeapUsage[name]; read {
			h.HeapAdvice = runtimeguard.AdviseHeap(u)
		}
		c := in.Pods[0].Container(name)
		_, limits := c.Running()
		r, a := in.Pods[0].Runtime(c), in.Autoscaler
		h.Option = runtimeguard.HeapOption(&h.HeapAdvice, r, limits.Memory > 0)
		h.Adds = r.VariableOpen && r.HeapBytes == 0 && r.HeapPercent == 0 && a != nil && a.Mode.Applies() && (a.Policy(name) == nil || !a.Policy(name).Off)
		if ceiling, set := runtimeguard.Heap(r, limits.Memory); set && h.Lack != "" {
			h.Flat = in.flat(name, ceiling)
		}
		out = append(out, h)
	}
	return out
}

// flat returns that the memory of a container is flat at the ceiling of its heap or above, "" if it is not, or if that is not known.
func (in *Input) flat(container string, ceiling int64) string {
	// How many days the memory of a JVM must have been flat: the hourly peaks, without the lowest tenth, differ by at most 10 %.
	const flatDays = 3
	if in.Sizing == nil {
		return ""
	}
	history := rationale.HistoryOf(in.Sizing.Histories, container)
	if history == nil {
		return ""
	}
	peaks := recommend.PeaksOf(history, cluster.Memory)
	if peaks == nil {
		return ""
	}
	hours := peaks.AppendHours(nil, peaks.Newest()+1-24*flatDays, peaks.Newest()+1)
	slices.Sort(hours)
	if len(hours) < 24*flatDays*9/10 {
		return ""
	}
	low, high := hours[len(hours)/10].Amount(), hours[len(hours)-1].Amount()
	if high > 1.1*low || low < float64(ceiling) {
		return ""
	}
	return fmt.Sprintf(" Its options set a heap of at most %s, and for %d days its memory has been flat at about %s: the heap is probably used up to its ceiling, so the memory in use does not show how much the JVM needs.",
		wording.Amount(cluster.Memory, ceiling), flatDays, wording.Amount(cluster.Memory, int64(high)))
}

// Texts returns the facts and the advice as paragraphs of full sentences. After the last one, a reader copies Option.
func (h *Heap) Texts() []string {
	mem := func(v int64) string { return wording.Amount(cluster.Memory, v) }
	if h.Lack != "" {
		return []string{"The need of the JVM in " + h.Container + " is not known: " + h.Lack + ". With --prometheus, podfit explain reads jvm_memory_used_bytes, " +
			"jvm_memory_max_bytes and jvm_gc_pause_seconds of Micrometer, or the same of client_java or the JMX exporter, and container_memory_working_set_bytes." + h.Flat}
	}
	facts := "The heap of " + h.Container + " has " + mem(h.Live) + " after a collection"
	if !h.Collected {
		facts += " at most (the old generation was not collected in the last day)"
	}
	facts += fmt.Sprintf(", and a ceiling of %s. Beside it the container uses %s at most. Collections take %s %% of the time in the worst hour of the week.",
		mem(h.Ceiling), mem(h.Beside), wording.Trimmed(100*h.GCShare, 1))
	target := wording.Percent(runtimeguard.GCShareTarget)
	var advice string
	switch needs := " With it the container needs " + mem(h.AdvisedMemory) + " of memory"; {
	case h.AdvisedCeiling < h.Ceiling:
		advice = "A ceiling of " + mem(h.AdvisedCeiling) + " should keep collections below " + target + " of the time." + needs +
			". Set the option first, then lower the memory: with the present ceiling, less memory leads to OOM kills. -Xms must not be above the ceiling."
	case h.AdvisedCeiling > h.Ceiling:
		advice = "Collections take more than " + target + " of the time. A ceiling of " + mem(h.AdvisedCeiling) + " should lower that." + needs + ". Raise the memory first, then set the option."
	default:
		advice = "The ceiling is suitable." + needs + "; with another memory limit, the option keeps the ceiling."
	}
	if percent, ok := strings.CutPrefix(h.Option, runtimeguard.HeapPercentFlag); ok && h.Adds {
		advice += " podfit adds the option to new pods if you annotate the VPA with podfit.dev/inject-heap-percent=" + percent + "."
	}
	return []string{facts, advice}
}
