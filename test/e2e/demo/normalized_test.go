// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"
)

func TestNormalized_outputs_onlyVaryingPartsAreReplaced(t *testing.T) {
	for text, want := range map[string]string{
		"deployment web ×3   Recreate  app  1000m → 143m…150m  119m    143m":    "deployment web ×3 Recreate app N → N N N",
		"  ✓ OOM-killed 3×, evicted 4×":                                         "✓ OOM-killed N, evicted N",
		"localcluster · 7 workloads, 16 pods, 3 nodes · Metrics API, 2m":        "localcluster · N workloads, N pods, N nodes · Metrics API, N",
		"  Pods really use 36 % of the requested CPU and 25 % of memory.":       "Pods really use N of the requested CPU and N of memory.",
		"The CPU request 1 core is above":                                       "The CPU request N is above",
		"killed for memory at least 2× since 17:12 UTC; no usage in the window": "killed for memory at least N since TIME; no usage in the window",
		"341Mi     90 % of the samples   41 samples since Sun 22 Nov":           "N N of the samples N samples since TIME",
		"1 container without enough usage    4 containers without risk":         "N containers without enough usage N containers without risk",
		"+ 51.1Mi  safety margin of 15 %":                                       "+ N safety margin of N",
		"17:05 worker OOMRescue: Pod worker-57948dc78d-8fgkg was evicted":       "TIME worker OOMRescue: Pod POD was evicted",
		"jvm  100m, young 487m  4.0Gi, young 1Gi  from 118 s of usage":          "jvm N, young N N, young N from N of usage",
	} {
		if got := normalized(text); got != want {
			t.Errorf("normalized(%q) is %q, want %q", text, got, want)
		}
	}
}

func TestSentences_textWrappedElsewhere_areTheSame(t *testing.T) {
	a := []string{
		"NOW     2 of 2 pods have the recommended size.",
		"        17:05 The container was OOM-killed 6s after its start; the target is 250Mi.",
		"        It runs.",
		"",
		"WHY 392Mi of memory",
		"   341Mi     90 % are below",
		"             limit 783Mi",
	}
	b := []string{
		"NOW     2 of 2 pods have the recommended size. 17:05 The container was OOM-killed",
		"        10s after its start; the target is 250Mi. It runs.",
		"",
		"WHY 392Mi of memory",
		"   341Mi     90 % are below",
		"             limit 783Mi",
	}
	want := []string{
		"NOW N of N pods have the recommended size.", "TIME The container was OOM-killed N after its start; the target is N.", "It runs.",
		"WHY N of memory", "N N are below", "limit N",
	}
	if got := sentences(a); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := sentences(b); !slices.Equal(got, want) {
		t.Errorf("wrapped elsewhere: got %q, want %q", got, want)
	}
}

// The reasons are those of one eviction that a pass sees at different times. Others are kept.
func TestSummaryLines_reasonsThatDependOnTiming_areOneKind(t *testing.T) {
	const before = "  ✓ evicted 3×; last reason: "
	got := summaryLines([]string{
		before + "The memory request 2Gi is above the upper bound; the target is 599.6Mi.",
		before + "The requests differ from the targets by 141% and the pod has run for 33s; the memory request is 2Gi and the target is 599.6Mi.",
		before + "The container was OOM-killed 6s after its start; the memory request is 64Mi and the target is 250Mi.",
		before + "The container has no memory request; the target is 250Mi.",
	})
	const kind = "✓ evicted N; last reason: REASON"
	if want := []string{kind, kind, kind, "✓ evicted N; last reason: The container has no memory request; the target is N."}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
