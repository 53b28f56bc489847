// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/replay"
	"podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/core/usage"
)

// The highest memory of each of the last days counts, by the age of the sample. Older samples, and those of a clock that is ahead, do not.
func TestCollected_samples_highestMemoryOfEachDayCounts(t *testing.T) {
	const day = 24 * time.Hour
	now := time.Date(2026, 11, 22, 15, 0, 0, 0, time.UTC)
	var e collected
	for _, s := range []struct {
		age    time.Duration
		memory float64
		taken  cluster.Set
	}{
		{0, 10, cluster.Both}, {day - time.Second, 30, cluster.Both}, {time.Hour, 20, cluster.Both}, {2 * time.Hour, 99, cluster.Of(cluster.CPU)},
		{day, 7, cluster.Of(cluster.Memory)}, {review.PeakDays*day - time.Second, 5, cluster.Both}, {review.PeakDays * day, 99, cluster.Both}, {-day, 99, cluster.Both},
	} {
		e.add(&usage.Sample{At: now.Add(-s.age), CPU: 0.5, Memory: s.memory, Has: cluster.Both}, s.taken, now)
	}
	want := [review.PeakDays]int64{0: 30, 1: 7, review.PeakDays - 1: 5}
	if e.DayPeaks != want {
		t.Errorf("peaks of the days %v, want %v", e.DayPeaks, want)
	}
	if e.Samples != 8 || !e.To.Equal(now.Add(day)) || !e.From.Equal(now.Add(-review.PeakDays*day)) {
		t.Errorf("%d samples from %v to %v", e.Samples, e.From, e.To)
	}
	if e.count != [2]int{7, 7} || e.sum[0] != 3500 {
		t.Errorf("sums %v of %v samples", e.sum, e.count)
	}
}

// A resource without samples is not part of the evidence, and neither is throttling without an hour in which it was measured.
func TestCollected_partOfTheMeasurements_restIsNotKnown(t *testing.T) {
	now := time.Date(2026, 11, 22, 15, 0, 0, 0, time.UTC)
	for _, res := range cluster.All {
		var e collected
		e.add(&usage.Sample{At: now, CPU: 0.5, Memory: 64, Has: cluster.Of(res)}, cluster.Of(res), now)
		got := e.result()
		for _, other := range cluster.All {
			if _, known := got.Used.Get(other); known != (other == res) {
				t.Errorf("with samples of %s, the usage of %s is known: %t", res, other, known)
			}
		}
		if got.ThrottledKnown || got.Throttled != 0 {
			t.Errorf("throttling %v is known: %t", got.Throttled, got.ThrottledKnown)
		}
	}
}

func TestRecentPods_singlePod_isCounted(t *testing.T) {
	w := &replay.Workload{Samples: []replay.Sample{{At: 0, Pod: 1}, {At: 3600, Pod: 2}, {At: 7199, Pod: 3}}}
	if got := recentPods(w); got != 2 {
		t.Errorf("%d pods, want those of the last hour: 2", got)
	}
	w.Samples = w.Samples[1:2]
	if got := recentPods(w); got != 1 {
		t.Errorf("%d pods of one sample, want 1", got)
	}
}
