// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package hourly

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func samePeaks(t *rapid.T, what string, p, q *Peaks) {
	t.Helper()
	if p.Empty() != q.Empty() {
		t.Fatalf("%s: one is empty", what)
	}
	if p.Empty() {
		return
	}
	if p.Newest() != q.Newest() || p.Since() != q.Since() {
		t.Fatalf("%s: from %d to %d, and from %d to %d", what, p.Since(), p.Newest(), q.Since(), q.Newest())
	}
	for h := p.Newest() - p.Room(); h <= p.Newest()+1; h++ {
		if p.At(h) != q.At(h) {
			t.Fatalf("%s: hour %d is %d and %d", what, h, p.At(h), q.At(h))
		}
	}
}

// clonePeaks returns an independent copy.
func clonePeaks(p *Peaks) Peaks {
	q := *p
	q.ring = append([]Level(nil), p.ring...)
	return q
}

// Merging is commutative, associative and idempotent.
func TestPeaksMerge_anyOrder_givesTheSameResult(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, _ := drawPeaks(t, 48)
		b, _ := drawPeaks(t, 48)
		c, _ := drawPeaks(t, 48)
		merged := func(ps ...*Peaks) *Peaks {
			m := clonePeaks(ps[0])
			for _, p := range ps[1:] {
				m.Merge(p)
			}
			return &m
		}
		ab, bc := merged(&a, &b), merged(&b, &c)
		samePeaks(t, "a and b", ab, merged(&b, &a))
		samePeaks(t, "a, b and c", merged(ab, &c), merged(&a, bc))
		samePeaks(t, "again", merged(ab, &b, &a, &b), ab)
		empty := NewPeaks(48)
		samePeaks(t, "with nothing", merged(&empty, &a), &a)
	})
}

func drawWeights(t *rapid.T) (Weights, []weighed) {
	var w Weights
	var all []weighed
	hour := 500_000
	for range rapid.IntRange(0, 40).Draw(t, "samples") {
		hour += rapid.SampledFrom([]int{0, 0, 1, 3, 24, 200}).Draw(t, "step")
		x := weighed{hour, rapid.Float64Range(0, 50).Draw(t, "cores")}
		w.Observe(x.hour, x.cores, 12)
		all = append(all, x)
	}
	return w, all
}

type weighed struct {
	hour  int
	cores float64
}

func sameWeights(t *rapid.T, what string, v, w *Weights) {
	t.Helper()
	if v.hour != w.hour {
		t.Fatalf("%s: of hour %d and %d", what, v.hour, w.hour)
	}
	for i := range weightBuckets {
		x, y := weightAt(v, i), weightAt(w, i)
		if d := math.Abs(x - y); d > 1e-7+1e-5*x {
			t.Fatalf("%s: bucket %d weighs %g and %g", what, i, x, y)
		}
	}
}

func weightAt(w *Weights, bucket int) float64 {
	if i := bucket - int(w.first); i >= 0 && i < len(w.weight) {
		return float64(w.weight[i])
	}
	return 0
}

func TestWeightsMerge_twoParts_equalsTheWeightsOfAllSamples(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, as := drawWeights(t)
		b, bs := drawWeights(t)
		c, _ := drawWeights(t)
		merged := func(ws ...*Weights) *Weights {
			m := *ws[0]
			for _, w := range ws[1:] {
				m.Merge(w, 12)
			}
			return &m
		}
		ab, bc := merged(&a, &b), merged(&b, &c)
		sameWeights(t, "a and b", ab, merged(&b, &a))
		sameWeights(t, "a, b and c", merged(ab, &c), merged(&a, bc))
		var all Weights // the weights after all samples in the order of time
		for len(as)+len(bs) > 0 {
			if len(bs) == 0 || len(as) > 0 && as[0].hour <= bs[0].hour {
				as, bs = bs, as
			}
			all.Observe(bs[0].hour, bs[0].cores, 12)
			bs = bs[1:]
		}
		sameWeights(t, "one after the other", ab, &all)
	})
}
