// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package histogram

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// dense is a simple reference implementation: an array of all buckets, searched for each query.
type dense struct {
	o        *Options
	weights  []float64
	total    float64
	ref      time.Time
	halfLife time.Duration

	// Buckets below Epsilon keep their weight until the reference is moved.
	first, last int
}

func newDense(o *Options, halfLife time.Duration) *dense {
	return &dense{o: o, weights: make([]float64, o.Buckets()), halfLife: halfLife, first: o.Buckets() - 1}
}

func (d *dense) shift(to time.Time) {
	to = to.Round(d.halfLife)
	factor := math.Ldexp(1, int(math.Floor(float64(d.ref.Sub(to))/float64(d.halfLife)+0.5)))
	for b := d.first; b <= d.last; b++ {
		d.weights[b] *= factor
	}
	d.total *= factor
	d.ref = to
	d.range_()
}

func (d *dense) range_() {
	for d.weights[d.first] < Epsilon && d.first < len(d.weights)-1 {
		d.first++
	}
	for d.weights[d.last] < Epsilon && d.last > 0 {
		d.last--
	}
}

func (d *dense) factor(at time.Time) float64 {
	if at.After(d.ref.Add(100 * d.halfLife)) {
		d.shift(at)
	}
	return math.Exp2(float64(at.Sub(d.ref)) / float64(d.halfLife))
}

func (d *dense) bucket(v float64) int {
	if v < d.o.first {
		return 0
	}
	return min(len(d.weights)-1, int(math.Log(v*d.o.step/d.o.first+1)/math.Log(1.05)))
}

func (d *dense) add(v, w float64, at time.Time) {
	w = float64(w * d.factor(at)) // not fused with an addition, as in Histogram
	b := d.bucket(v)
	d.weights[b] += w
	d.total += w
	if d.weights[b] >= Epsilon {
		d.first, d.last = min(d.first, b), max(d.last, b)
	}
}

func (d *dense) subtract(v, w float64, at time.Time) {
	w = float64(w * d.factor(at)) // not fused with an addition, as in Histogram
	sub := func(x float64) float64 {
		if x -= w; x < Epsilon {
			return 0
		}
		return x
	}
	b := d.bucket(v)
	d.total, d.weights[b] = sub(d.total), sub(d.weights[b])
	d.range_()
}

func (d *dense) merge(o dense) {
	o.weights = append([]float64(nil), o.weights...)
	if d.ref.Before(o.ref) {
		d.shift(o.ref)
	} else if o.ref.Before(d.ref) {
		o.shift(d.ref)
	}
	for b := o.first; b <= o.last; b++ {
		d.weights[b] += o.weights[b]
	}
	d.total += o.total
	d.first, d.last = min(d.first, o.first), max(d.last, o.last)
}

func (d *dense) percentile(p float64) float64 {
	if d.weights[d.first] < Epsilon {
		return 0
	}
	sum := 0.0
	b := d.first
	for ; b < d.last; b++ {
		if sum += d.weights[b]; sum >= p*d.total {
			break
		}
	}
	if b == len(d.weights)-1 {
		b--
	}
	return d.o.first * (math.Pow(1.05, float64(b+1)) - 1) / d.o.step
}

func (d *dense) same(t *rapid.T, h *Histogram) {
	t.Helper()
	for b, w := range d.weights {
		if h.weight(b) != w {
			t.Fatalf("bucket %d weighs %v, not %v", b, h.weight(b), w)
		}
	}
	if h.total != d.total || int(h.first) != d.first || int(h.last) != d.last {
		t.Fatalf("total, first, last are %v %d %d, not %v %d %d", h.total, h.first, h.last, d.total, d.first, d.last)
	}
	for _, p := range []float64{0, 0.01, 0.5, 0.9, 0.95, 0.99, 1} {
		if got, want := h.Percentile(p), d.percentile(p); got != want {
			t.Fatalf("percentile %v is %v, not %v", p, got, want)
		}
	}
}

// The histogram equals the reference bit for bit after any sequence of operations.
func TestHistogram_randomUse_equalsReference(t *testing.T) {
	epoch := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		o := rapid.SampledFrom([]*Options{CPU, Memory}).Draw(t, "options")
		halfLife := time.Duration(rapid.SampledFrom([]int{1, 7, 24, 48}).Draw(t, "half-life")) * time.Hour
		hs := []*Histogram{new(Histogram), new(Histogram)}
		ds := []*dense{newDense(o, halfLife), newDense(o, halfLife)}
		*hs[0], *hs[1] = New(o, halfLife), New(o, halfLife)
		value := rapid.Custom(func(t *rapid.T) float64 {
			return o.first * math.Exp(rapid.Float64Range(-1, 13).Draw(t, "ln"))
		})
		at := rapid.Custom(func(t *rapid.T) time.Time {
			return epoch.Add(time.Duration(rapid.Int64Range(-2000*3600, 4000*3600).Draw(t, "s")) * time.Second)
		})
		type sample struct {
			v, w float64
			at   time.Time
		}
		var added []sample
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			i := rapid.IntRange(0, 1).Draw(t, "which")
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0, 1:
				if len(added) > 0 {
					s := rapid.SampledFrom(added).Draw(t, "sample")
					hs[i].Subtract(s.v, s.w, s.at)
					ds[i].subtract(s.v, s.w, s.at)
				}
			case 2:
				if err := hs[i].Merge(hs[1-i]); err != nil {
					t.Fatal(err)
				}
				ds[i].merge(*ds[1-i])
			default:
				s := sample{value.Draw(t, "value"), rapid.SampledFrom([]float64{0.1, 1}).Draw(t, "weight"), at.Draw(t, "at")}
				hs[i].Add(s.v, s.w, s.at)
				ds[i].add(s.v, s.w, s.at)
				added = append(added, s)
			}
			ds[i].same(t, hs[i])
		}
	})
}

// Bucket equals the logarithm, also on both sides of every edge.
func TestBucket_anyValue_equalsTheLogarithm(t *testing.T) {
	for name, o := range map[string]*Options{"cpu": CPU, "memory": Memory} {
		t.Run(name, func(t *testing.T) {
			d := newDense(o, time.Hour)
			check := func(v float64) {
				if got, want := o.Bucket(v), d.bucket(v); got != want {
					t.Fatalf("%v is in bucket %d, want %d", v, got, want)
				}
			}
			for b := range o.Buckets() {
				near := o.Start(b)
				for _, to := range []float64{math.Inf(1), math.Inf(-1)} {
					v := near
					for range 2000 {
						check(v)
						v = math.Nextafter(v, to)
					}
				}
				for _, off := range []float64{1e-13, 1e-12, 1e-11, 1e-9, 1e-3} {
					check(near * (1 + off))
					check(near * (1 - off))
				}
			}
			rapid.Check(t, func(t *rapid.T) {
				v := o.first * math.Exp(rapid.Float64Range(-2, 20).Draw(t, "ln"))
				if got, want := o.Bucket(v), d.bucket(v); got != want {
					t.Fatalf("%v is in bucket %d, want %d", v, got, want)
				}
			})
			for i := range int64(200_000) {
				check(float64(i) / 1000)
				check(float64(i) * 1e6)
			}
		})
	}
}
