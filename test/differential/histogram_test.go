// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	vpa "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/model"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/util"
	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/histogram"
	"podfit.dev/podfit/test/differential/cases"
)

// histograms are upstream's and podfit's histogram with the same samples.
type histograms struct {
	upstream util.Histogram
	podfit   histogram.Histogram
}

// stored returns the checkpoint of podfit's histogram as upstream's type.
func stored(c histogram.Checkpoint) vpa.HistogramCheckpoint {
	s := vpa.HistogramCheckpoint{BucketWeights: c.Weights, TotalWeight: c.Total}
	if !c.Reference.IsZero() {
		s.ReferenceTimestamp = metav1.NewTime(c.Reference)
	}
	return s
}

// loaded returns podfit's histogram from upstream's checkpoint.
func loaded(c vpa.HistogramCheckpoint) histogram.Checkpoint {
	return histogram.Checkpoint{Reference: c.ReferenceTimestamp.Time, Weights: c.BucketWeights, Total: c.TotalWeight}
}

func (h *histograms) compare(t *rapid.T) {
	t.Helper()
	for p := 0.0; p <= 1; p += 0.05 {
		if got, want := h.podfit.Percentile(p), h.upstream.Percentile(p); got != want {
			t.Fatalf("percentile %v is %v, upstream's %v", p, got, want)
		}
	}
	if got, want := h.podfit.IsEmpty(), h.upstream.IsEmpty(); got != want {
		t.Fatalf("empty is %v, upstream's %v", got, want)
	}
	c, err := h.upstream.SaveToChekpoint()
	if err != nil {
		t.Fatal(err)
	}
	want, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(stored(h.podfit.Checkpoint()))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Fatalf("checkpoint is\n%s\nupstream's\n%s", got, want)
	}
}

// Histograms are equal to the last bit after any sequence of add, subtract, merge, store and load.
func TestHistogram_randomOperations_equalUpstream(t *testing.T) {
	config := model.GetAggregationsConfig()
	cases.Check(t, 6000, func(t *rapid.T) {
		epoch := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		theirs, ours, first := config.CPUHistogramOptions, histogram.CPU, 0.01
		if rapid.Bool().Draw(t, "memory") {
			theirs, ours, first = config.MemoryHistogramOptions, histogram.Memory, 1e7
		}
		halfLife := time.Duration(rapid.SampledFrom([]int64{1, 5, 24, 48}).Draw(t, "half-life")) * time.Hour
		fresh := func() *histograms {
			return &histograms{util.NewDecayingHistogram(theirs, halfLife), histogram.New(ours, halfLife)}
		}
		h := fresh()
		type sample struct {
			value, weight float64
			at            time.Time
		}
		var added []sample
		draw := func() sample {
			return sample{
				value:  first * math.Exp(rapid.Float64Range(-1, 13).Draw(t, "ln(value)")),
				weight: rapid.SampledFrom([]float64{0.1, 1, 0.37}).Draw(t, "weight"),
				at:     epoch.Add(time.Duration(rapid.Int64Range(-3000, 6000).Draw(t, "minutes")) * time.Minute),
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 11).Draw(t, "do") {
			case 0, 1:
				if len(added) > 0 {
					s := rapid.SampledFrom(added).Draw(t, "sample")
					h.upstream.SubtractSample(s.value, s.weight, s.at)
					h.podfit.SubtractNanos(s.value, s.weight, s.at.UnixNano())
				}
			case 2: // upstream's Merge changes its argument, so each is used only once
				o := fresh()
				for range rapid.IntRange(0, 5).Draw(t, "others") {
					s := draw()
					s.at = s.at.Add(time.Duration(rapid.IntRange(0, 9000).Draw(t, "hours")) * time.Hour)
					o.upstream.AddSample(s.value, s.weight, s.at)
					o.podfit.AddNanos(s.value, s.weight, s.at.UnixNano())
				}
				h.upstream.Merge(o.upstream)
				if err := h.podfit.Merge(&o.podfit); err != nil {
					t.Fatal(err)
				}
			case 3: // both continue from upstream's checkpoint, or from podfit's
				c, err := h.upstream.SaveToChekpoint()
				if err != nil {
					t.Fatal(err)
				}
				if rapid.Bool().Draw(t, "from podfit") {
					*c = stored(h.podfit.Checkpoint())
				}
				h = fresh()
				if err := h.upstream.LoadFromCheckpoint(c); err != nil {
					t.Fatal(err)
				}
				if h.podfit, err = histogram.Load(ours, halfLife, loaded(*c)); err != nil {
					t.Fatal(err)
				}
			case 4: // time passes
				epoch = epoch.Add(time.Duration(rapid.IntRange(0, 4000).Draw(t, "hours")) * time.Hour)
			default:
				s := draw()
				h.upstream.AddSample(s.value, s.weight, s.at)
				h.podfit.AddNanos(s.value, s.weight, s.at.UnixNano())
				added = append(added, s)
			}
			h.compare(t)
		}
	})
}

// The bucketing schemes are equal for every bucket.
func TestHistogram_buckets_equalUpstream(t *testing.T) {
	config := model.GetAggregationsConfig()
	for name, o := range map[string]struct {
		theirs util.HistogramOptions
		ours   *histogram.Options
	}{"cpu": {config.CPUHistogramOptions, histogram.CPU}, "memory": {config.MemoryHistogramOptions, histogram.Memory}} {
		t.Run(name, func(t *testing.T) {
			if got, want := o.ours.Buckets(), o.theirs.NumBuckets(); got != want {
				t.Fatalf("%d buckets, upstream has %d", got, want)
			}
			if o.theirs.Epsilon() != histogram.Epsilon {
				t.Fatalf("epsilon is %v, upstream's %v", histogram.Epsilon, o.theirs.Epsilon())
			}
			for b := range o.ours.Buckets() {
				start := o.theirs.GetBucketStart(b)
				if got := o.ours.Start(b); got != start {
					t.Errorf("bucket %d starts at %v, upstream's at %v", b, got, start)
				}
				for _, v := range []float64{start, math.Nextafter(start, 0), math.Nextafter(start, math.Inf(1)), start * 1.01, start * 1.04} {
					if got, want := o.ours.Bucket(v), o.theirs.FindBucket(v); got != want {
						t.Errorf("%v is in bucket %d, upstream's %d", v, got, want)
					}
				}
			}
			cases.Check(t, 20_000, func(t *rapid.T) {
				v := o.ours.Start(1) * math.Exp(rapid.Float64Range(-3, 20).Draw(t, "ln(value)"))
				if got, want := o.ours.Bucket(v), o.theirs.FindBucket(v); got != want {
					t.Fatalf("%v is in bucket %d, upstream's %d", v, got, want)
				}
			})
		})
	}
}
