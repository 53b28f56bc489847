// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"context"
	"math"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// fixedUsage is a source of usage that returns the same samples each time.
type fixedUsage []usage.Sample

// Samples implements sampler.
func (s *fixedUsage) Samples(context.Context) ([]usage.Sample, error) { return *s, nil }

// FuzzUsage gives the recommender an arbitrary sample after an hour of valid samples. An impossible sample is rejected and the
// recommendation stays; a possible sample changes it to plausible values.
func FuzzUsage(f *testing.F) {
	for _, v := range []float64{
		0, math.Copysign(0, -1), 1e-9, -1e-9, -1, 1, 1e5, 1e14, math.MaxInt64, math.MaxFloat64, -math.MaxFloat64,
		math.SmallestNonzeroFloat64, math.NaN(), math.Inf(1), math.Inf(-1),
	} {
		f.Add(v, v, int64(60), uint8(3))
		f.Add(0.3, v, int64(60), uint8(2))
		f.Add(v, 2e8, int64(-3600), uint8(1))
	}
	f.Add(0.3, 2e8, int64(math.MaxInt64), uint8(3))
	f.Add(0.3, 2e8, int64(math.MinInt64), uint8(3))
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, cpu, memory float64, late int64, has uint8) {
		b := newBench(t)
		b.autoscale("web", b.deployment("web", 1, "app")).Created = start
		pod := b.pods[0].Key
		source := &fixedUsage{}
		d := b.dependencies()
		d.source = always(source)
		r := newRecommender(b.config, d)
		now := start
		for range 10 {
			now = now.Add(6 * time.Minute)
			*source = fixedUsage{{Pod: pod, Container: "app", At: now, CPU: 0.3, Memory: 200 << 20, Has: cluster.Both}}
			r.pass(t.Context(), now)
		}
		before := *b.advice("web", "app")
		if before.Target != cluster.Amounts(350, 262144000) {
			t.Fatalf("the recommendation from valid samples is %v", before.Target)
		}
		last := now
		at := now.Add(time.Duration(late) * time.Second)
		*source = fixedUsage{{Pod: pod, Container: "app", At: at, CPU: cpu, Memory: memory, Has: cluster.Set(has) & cluster.Both}}
		now = now.Add(time.Minute)
		r.pass(t.Context(), now)
		latest := now.Add(usage.MaxAhead)
		after := *b.advice("web", "app")
		for _, res := range cluster.All {
			used, most := cpu, 1e5
			if res == cluster.Memory {
				used, most = memory, 1e14
			}
			lower, target, upper := after.Lower.Amount(res), after.Target.Amount(res), after.Upper.Amount(res)
			if lower <= 0 || lower > target || target > upper {
				t.Errorf("%s: lower %d, target %d, upper %d", res, lower, target, upper)
			}
			possible := used >= 0 && used <= most && !at.Before(last) && !at.After(latest)
			if changed := target != before.Target.Amount(res); changed && !possible {
				t.Errorf("%s: a sample of %v at %v changed the target from %v to %v", res, used, at, before.Target, after.Target)
			}
		}
		if !possibleAt(latest, r.usageStore.Series(b.autoscalers[0].Target, "app")) {
			t.Error("the history ends in the future")
		}
	})
}

// possibleAt reports whether a history has no sample after a time.
func possibleAt(now time.Time, s *usage.ContainerHistory) bool {
	return s != nil && !s.Seen(cluster.CPU).Last.After(now) && !s.Seen(cluster.Memory).Last.After(now)
}
