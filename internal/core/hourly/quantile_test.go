// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package hourly

import (
	"math"
	"testing"
)

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
