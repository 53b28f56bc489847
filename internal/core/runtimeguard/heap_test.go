// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package runtimeguard

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/cluster"
)

const mi = 1 << 20

// heap is a JVM with a ceiling of 1 GiB that needs a quarter of it.
func heap(edits ...func(*HeapUsage)) HeapUsage {
	u := HeapUsage{
		Hours: 160, Collected: 100 * mi, Collections: 4, Lowest: 140 * mi, Ceiling: 1024 * mi, NonHeap: 90 * mi, Beside: 150 * mi, GCShare: 0.002,
	}
	for _, edit := range edits {
		edit(&u)
	}
	return u
}

func TestAdviseHeap_recordedUsage_givesCeilingAndMemory(t *testing.T) {
	for name, c := range map[string]struct {
		edit            func(*HeapUsage)
		ceiling, memory int64 // MiB
		live            int64
	}{
		"three times the live set":                   {func(*HeapUsage) {}, 304, 512, 100},
		"more because of the time of collections":    {func(u *HeapUsage) { u.GCShare = 0.02 }, 480, 704, 100},
		"no old collection in one of the pods":       {func(u *HeapUsage) { u.Collections = 0 }, 432, 656, 140},
		"the old generation is not measured":         {func(u *HeapUsage) { u.Collected, u.Collections = math.NaN(), math.NaN() }, 432, 656, 140},
		"an idle JVM whose live set is not known":    {func(u *HeapUsage) { u.Collected, u.Lowest = math.NaN(), 600*mi }, 1024, 1296, 600},
		"a live set that needs the ceiling":          {func(u *HeapUsage) { u.Collected = 320 * mi }, 1024, 1296, 320},
		"collections above the target":               {func(u *HeapUsage) { u.Collected, u.GCShare = 600*mi, 0.075 }, 1248, 1552, 600},
		"collections far above the target":           {func(u *HeapUsage) { u.Collected, u.GCShare = 900*mi, 0.9 }, 2048, 2432, 900},
		"pauses of collectors that overlap":          {func(u *HeapUsage) { u.GCShare = 1.5 }, 2048, 2432, 100},
		"a tiny live set":                            {func(u *HeapUsage) { u.Collected = 2 * mi }, 64, 256, 2},
		"the JVM measures more than the working set": {func(u *HeapUsage) { u.NonHeap = 170 * mi }, 304, 528, 100},
		"the JVM does not measure the rest":          {func(u *HeapUsage) { u.NonHeap = math.NaN() }, 304, 512, 100},
	} {
		t.Run(name, func(t *testing.T) {
			got := AdviseHeap(heap(c.edit))
			if got.AdvisedCeiling != c.ceiling*mi || got.AdvisedMemory != c.memory*mi || got.Live != c.live*mi || got.Lack != "" {
				t.Errorf("ceiling %d MiB, memory %d MiB, live %d MiB, lack %q; want %+v", got.AdvisedCeiling>>20, got.AdvisedMemory>>20, got.Live>>20, got.Lack, c)
			}
		})
	}
}

func TestAdviseHeap_unknownOrInvalidUsage_givesNoAdviceAndTheCause(t *testing.T) {
	nan := math.NaN()
	for name, c := range map[string]struct {
		edit func(*HeapUsage)
		want string
	}{
		"nothing is recorded":           {func(u *HeapUsage) { u.Hours = nan }, "no metrics of its heap are recorded"},
		"negative hours":                {func(u *HeapUsage) { u.Hours = -1 }, "no metrics of its heap are recorded"},
		"too young":                     {func(u *HeapUsage) { u.Hours = 23 }, "metrics of its heap are recorded for 23 h, and 24 h are needed"},
		"the JVM has no maximum":        {func(u *HeapUsage) { u.Ceiling = -1 }, "not recorded: the maximum heap"},
		"no working set":                {func(u *HeapUsage) { u.Beside = nan }, "not recorded: the working set together with the heap in use"},
		"a working set below the heap":  {func(u *HeapUsage) { u.Beside = -5 }, "not recorded: the working set together with the heap in use"},
		"no collections":                {func(u *HeapUsage) { u.GCShare = nan }, "not recorded: the time of collections"},
		"negative time of collections":  {func(u *HeapUsage) { u.GCShare = -0.1 }, "not recorded: the time of collections"},
		"infinite use":                  {func(u *HeapUsage) { u.Collected, u.Lowest = math.Inf(1), math.Inf(1) }, "not recorded: the heap in use"},
		"several values":                {func(u *HeapUsage) { u.Ceiling, u.GCShare = nan, nan }, "not recorded: the maximum heap, the time of collections"},
		"more in use than the maximum":  {func(u *HeapUsage) { u.Collected = 2048 * mi }, "the heap in use is recorded as not below the maximum heap"},
		"an absurd maximum":             {func(u *HeapUsage) { u.Ceiling = 1e300 }, "not recorded: the maximum heap"},
		"young and without collections": {func(u *HeapUsage) { u.Hours, u.GCShare = 1, nan }, "not recorded: the time of collections"},
	} {
		t.Run(name, func(t *testing.T) {
			got := AdviseHeap(heap(c.edit))
			if got.Lack != c.want || got.AdvisedCeiling != 0 || got.AdvisedMemory != 0 || HeapOption(&got, nil, true) != "" {
				t.Errorf("AdviseHeap() = %+v, want the lack %q", got, c.want)
			}
		})
	}
}

func TestHeapOption_advice_isTheFormThatTheJVMObeys(t *testing.T) {
	for name, c := range map[string]struct {
		ceiling, memory int64 // MiB
		runtime         *cluster.Runtime
		unlimited       bool
		want            string
	}{
		"a share of the limit":          {ceiling: 304, memory: 512, want: "-XX:MaxRAMPercentage=59.3"},
		"the options have a percentage": {ceiling: 304, memory: 512, runtime: &cluster.Runtime{Kind: cluster.JVM, HeapPercent: 75}, want: "-XX:MaxRAMPercentage=59.3"},
		"the options have a size":       {ceiling: 304, memory: 512, runtime: &cluster.Runtime{Kind: cluster.JVM, HeapBytes: 1}, want: "-Xmx304m"},
		"without a limit":               {ceiling: 304, memory: 512, unlimited: true, want: "-Xmx304m"},
		"a small limit":                 {ceiling: 144, memory: 240, want: "-Xmx144m"},
		"a small heap":                  {ceiling: 112, memory: 304, want: "-Xmx112m"},
		"no advice":                     {},
	} {
		t.Run(name, func(t *testing.T) {
			a := HeapAdvice{AdvisedCeiling: c.ceiling * mi, AdvisedMemory: c.memory * mi}
			if got := HeapOption(&a, c.runtime, !c.unlimited); got != c.want {
				t.Errorf("HeapOption() = %q, want %q", got, c.want)
			}
		})
	}
}

// Whatever is recorded, an advised ceiling has room above the live set, is never lowered while collections take too long nor raised while they
// do not, and its memory holds the ceiling and what is beside it.
func TestAdviseHeap_anyUsage_isSafe(t *testing.T) {
	value := rapid.OneOf(rapid.Float64(), rapid.Float64Range(0, 4096*mi), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), -1, 0}))
	share := rapid.OneOf(rapid.Float64Range(0, 1), rapid.Float64())
	rapid.Check(t, func(t *rapid.T) {
		u := HeapUsage{
			Hours: rapid.OneOf(rapid.Just(100.0), value).Draw(t, "hours"), Collected: value.Draw(t, "collected"), Collections: share.Draw(t, "collections"),
			Lowest: value.Draw(t, "lowest"), Ceiling: value.Draw(t, "ceiling"), NonHeap: value.Draw(t, "nonheap"), Beside: value.Draw(t, "beside"), GCShare: share.Draw(t, "share"),
		}
		a := AdviseHeap(u)
		if a.Lack != "" {
			if a.AdvisedCeiling != 0 || a.AdvisedMemory != 0 || strings.TrimSpace(a.Lack) == "" {
				t.Fatalf("advice despite %q: %+v", a.Lack, a)
			}
			return
		}
		high := a.GCShare > GCShareTarget
		if a.AdvisedCeiling <= a.Live || high && a.AdvisedCeiling < a.Ceiling || !high && a.AdvisedCeiling > a.Ceiling || a.AdvisedCeiling > 2*a.Ceiling+heapUnit || a.AdvisedMemory < a.AdvisedCeiling+a.Beside {
			t.Fatalf("%+v gives %+v", u, a)
		}
		if lowered := a.AdvisedCeiling < a.Ceiling; lowered && a.AdvisedCeiling < 3*a.Live {
			t.Fatalf("the ceiling is below three times the live set: %+v", a)
		}
	})
}
