// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package hourly

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// sortedQuantile is a simple reference implementation.
func sortedQuantile(levels []Level, position float64) Level {
	sorted := slices.Sorted(slices.Values(levels))
	return sorted[int(position*float64(len(sorted)-1))]
}

func TestQuantile_randomLevels_equalsReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		levels := rapid.SliceOfN(rapid.Uint16Range(0, rapid.SampledFrom([]uint16{0, 1, 20, math.MaxUint16}).Draw(t, "highest")), 1, 200).Draw(t, "levels")
		all := make([]Level, len(levels))
		for i, l := range levels {
			all[i] = Level(l)
		}
		if rapid.Bool().Draw(t, "sorted") {
			slices.Sort(all)
		}
		position := rapid.SampledFrom([]float64{0, 0.5, 0.7, 0.75, 0.8, 1}).Draw(t, "position")
		before := slices.Clone(all)
		want := sortedQuantile(all, position)
		if got := Quantile(all, position); got != want {
			t.Fatalf("the quantile %g of %v is %d, want %d", position, before, got, want)
		}
		if !slices.Equal(slices.Sorted(slices.Values(all)), slices.Sorted(slices.Values(before))) {
			t.Fatalf("%v became %v", before, all)
		}
	})
}

func BenchmarkQuantile_week(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	week, room := make([]Level, 7*24), make([]Level, 7*24)
	for i := range week {
		week[i] = Level(20000 + 1000*random.NormFloat64())
	}
	b.Run("selection", func(b *testing.B) {
		for b.Loop() {
			copy(room, week)
			Quantile(room, 0.8)
		}
	})
	b.Run("sorting", func(b *testing.B) {
		for b.Loop() {
			copy(room, week)
			slices.Sort(room)
		}
	})
}

// Quantile is between the bounds of the bucket that percentile names, and grows with the share.
func TestWeights_quantile_isInterpolatedWithinTheBucket(t *testing.T) {
	var w Weights
	if w.Quantile(0.5) != 0 || percentile(&w, 0.5) != 0 || w.Total() != 0 {
		t.Errorf("without samples: %v, %v, %v", w.Quantile(0.5), percentile(&w, 0.5), w.Total())
	}
	for i := range 1000 {
		w.Observe(i/100, 0.1+float64(i%100)/100, 1e6)
	}
	if got := w.Total(); math.Abs(got-1000) > 1 {
		t.Errorf("the samples weigh %v", got)
	}
	last := 0.0
	for share := 0.05; share <= 1; share += 0.05 {
		got, upper := w.Quantile(share), percentile(&w, share)
		if got < last || got > upper*1.0001 || got < upper/weightRatio*0.9999 {
			t.Errorf("share %.2f: %v after %v, the bucket ends at %v", share, got, last, upper)
		}
		last = got
	}
}

// percentile returns the bound that a share of the samples does not exceed, 0 if there are none.
func percentile(w *Weights, share float64) float64 {
	sum := 0.0
	for i, weight := range w.weight {
		if sum += float64(weight); sum > 0 && sum >= share*w.Total()*(1-1e-12) {
			return weightFirst * math.Pow(weightRatio, float64(int(w.first)+i))
		}
	}
	return 0
}
