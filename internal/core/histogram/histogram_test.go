// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package histogram

import (
	"encoding/json"
	"errors"
	"maps"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

const day = 24 * time.Hour

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func (h *Histogram) Add(value, weight float64, at time.Time) { h.AddNanos(value, weight, nanos(at)) }

func (h *Histogram) Subtract(value, weight float64, at time.Time) {
	h.SubtractNanos(value, weight, nanos(at))
}

func TestOptions_buckets_areThoseOfTheCheckpointFormat(t *testing.T) {
	tests := map[string]struct {
		o      *Options
		value  float64
		bucket int
		end    float64
	}{
		"no CPU":                 {CPU, 0, 0, 0.01},
		"less than 10m":          {CPU, 0.00999, 0, 0.01},
		"10m":                    {CPU, 0.01, 1, 0.0205},
		"300m":                   {CPU, 0.3, 18, 0.305390},
		"a core":                 {CPU, 1, 36, 1.016281},
		"1000 cores":             {CPU, 1000, 174, 1021.1094},
		"the last bucket":        {CPU, 5000, 175, 1021.1094},
		"infinite CPU":           {CPU, math.Inf(1), 175, 1021.1094},
		"not a number":           {CPU, math.NaN(), 0, 0.01},
		"negative":               {CPU, -1, 0, 0.01},
		"1 MiB":                  {Memory, 1 << 20, 0, 1e7},
		"200 MiB":                {Memory, 200 << 20, 14, 2.157856e8},
		"1 GiB":                  {Memory, 1 << 30, 37, 1.077095e9},
		"more than any pod has":  {Memory, 1e14, 175, 1.0211094e12},
		"the largest number":     {Memory, math.MaxFloat64, 175, 1.0211094e12},
		"the smallest number":    {Memory, math.SmallestNonzeroFloat64, 0, 1e7},
		"infinitely less memory": {Memory, math.Inf(-1), 0, 1e7},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := tt.o.Bucket(tt.value)
			if b != tt.bucket || math.Abs(tt.o.End(b)/tt.end-1) > 1e-5 {
				t.Errorf("bucket %d ends at %v, want bucket %d ending at %v", b, tt.o.End(b), tt.bucket, tt.end)
			}
		})
	}
	if CPU.Buckets() != 176 || Memory.Buckets() != 176 {
		t.Errorf("%d and %d buckets, want 176", CPU.Buckets(), Memory.Buckets())
	}
}

func TestPercentile_anyShare_returnsTheEndOfTheBucket(t *testing.T) {
	h := New(CPU, day)
	if h.Percentile(0.9) != 0 || !h.IsEmpty() {
		t.Error("an empty histogram has a percentile")
	}
	for i := range 10 {
		h.Add(float64(i)*0.1+0.05, 1, noon)
	}
	for p, value := range map[float64]float64{0.05: 0.05, 0.45: 0.45, 0.85: 0.85, 1: 0.95} {
		if got, want := h.Percentile(p), CPU.End(CPU.Bucket(value)); got != want {
			t.Errorf("percentile %v is %v, want %v", p, got, want)
		}
	}
	if got, want := h.Max(), CPU.End(CPU.Bucket(0.95)); got != want {
		t.Errorf("maximum is %v, want %v", got, want)
	}
}

func TestAdd_laterSample_weighsMore(t *testing.T) {
	h := New(Memory, day)
	h.Add(1e9, 1, noon)
	h.Add(2e9, 1, noon.Add(2*day)) // weighs four times as much
	if got, want := h.Percentile(0.21), Memory.End(Memory.Bucket(2e9)); got != want {
		t.Errorf("percentile 0.21 is %v, want %v", got, want)
	}
	if got, want := h.Percentile(0.19), Memory.End(Memory.Bucket(1e9)); got != want {
		t.Errorf("percentile 0.19 is %v, want %v", got, want)
	}
}

func TestSubtract_addedSample_restoresTheHistogram(t *testing.T) {
	h := New(Memory, day)
	h.Add(1e9, 1, noon)
	h.Add(5e9, 1, noon)
	h.Subtract(5e9, 1, noon)
	if got, want := h.Percentile(1), Memory.End(Memory.Bucket(1e9)); got != want {
		t.Errorf("percentile 1 is %v, want %v", got, want)
	}
	h.Subtract(1e9, 1, noon)
	h.Subtract(9e9, 1, noon) // never added
	if !h.IsEmpty() {
		t.Error("not empty after everything was taken back")
	}
}

func TestMerge_otherHistogram_isNotChanged(t *testing.T) {
	h, o := New(CPU, day), New(CPU, day)
	h.Add(1, 0.1, noon.Add(300*day))
	o.Add(2, 0.1, noon)
	before, _ := json.Marshal(o.Checkpoint())
	if err := h.Merge(&o); err != nil {
		t.Fatal(err)
	}
	if after, _ := json.Marshal(o.Checkpoint()); string(before) != string(after) {
		t.Errorf("other became %s, was %s", after, before)
	}
	other := New(Memory, day)
	if err := h.Merge(&other); !errors.Is(err, ErrMismatch) {
		t.Errorf("merging memory into CPU: %v", err)
	}
}

func TestAll_nonEmptyBuckets_areYieldedInOrder(t *testing.T) {
	h := New(CPU, day)
	h.Add(0.5, 0.1, noon)
	h.Add(0.1, 0.2, noon)
	h.Add(0.3, 1e-9, noon.Add(-20*day))
	got := maps.Collect(h.All())
	if len(got) != 2 || got[CPU.Bucket(0.5)] == 0 || math.Abs(got[CPU.Bucket(0.1)]/got[CPU.Bucket(0.5)]-2) > 1e-9 {
		t.Errorf("buckets are %v", got)
	}
}

func TestHistogram_unusedBuckets_takeNoMemory(t *testing.T) {
	h := New(Memory, day)
	for i := range 1000 {
		h.Add(400e6+float64(i)*1e5, 1, noon.Add(time.Duration(i)*time.Hour))
	}
	if n := len(h.weights); n > 12 {
		t.Errorf("400 to 500 MB take %d buckets", n)
	}
}

func TestAdd_withinTheSpan_doesNotAllocate(t *testing.T) {
	h := New(CPU, day)
	h.Add(0.1, 0.1, noon)
	h.Add(0.9, 0.1, noon)
	at := noon
	if n := testing.AllocsPerRun(1000, func() {
		at = at.Add(time.Minute)
		h.Add(0.4, 0.1, at)
		h.Subtract(0.4, 0.1, at)
		h.Percentile(0.9)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestCheckpoint_roundTrip_keepsPercentiles(t *testing.T) {
	h := New(CPU, day)
	for i := range 5000 {
		h.Add(0.05+0.0001*float64(i%2000), 0.1, noon.Add(time.Duration(i)*time.Minute))
	}
	c := h.Checkpoint()
	r, err := Load(CPU, day, c)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []float64{0.5, 0.9, 0.95, 1} {
		if got, want := r.Percentile(p), h.Percentile(p); got != want {
			t.Errorf("percentile %v is %v, was %v", p, got, want)
		}
	}
	again := r.Checkpoint()
	if !reflect.DeepEqual(c.Weights, again.Weights) || !c.Reference.Equal(again.Reference) || c.Total != again.Total {
		t.Errorf("checkpoint became %v, was %v", again, c)
	}
}

func TestCheckpoint_emptyHistogram_isEmpty(t *testing.T) {
	h := New(CPU, day)
	c := h.Checkpoint()
	if len(c.Weights) != 0 || c.Total != 0 || !c.Reference.IsZero() {
		t.Errorf("checkpoint is %v", c)
	}
	r, err := Load(CPU, day, c)
	if err != nil || !r.IsEmpty() {
		t.Errorf("loaded %v, %v", r, err)
	}
}

func TestLoad_invalidCheckpoint_isRefused(t *testing.T) {
	tests := map[string]struct {
		c    Checkpoint
		want string
	}{
		"negative total":      {Checkpoint{noon, map[int]uint32{1: 1}, -1}, "total weight"},
		"total not a number":  {Checkpoint{noon, map[int]uint32{1: 1}, math.NaN()}, "total weight"},
		"infinite total":      {Checkpoint{noon, map[int]uint32{1: 1}, math.Inf(1)}, "total weight"},
		"overflowing total":   {Checkpoint{noon, map[int]uint32{1: 1}, math.MaxFloat64}, "total weight"},
		"bucket below":        {Checkpoint{noon, map[int]uint32{-1: 1}, 1}, "bucket must be between 0 and 175, got -1"},
		"bucket above":        {Checkpoint{noon, map[int]uint32{176: 1}, 1}, "bucket must be between 0 and 175, got 176"},
		"bucket far above":    {Checkpoint{noon, map[int]uint32{math.MaxInt: 1}, 1}, "bucket"},
		"empty bucket above":  {Checkpoint{noon, map[int]uint32{5: 1, 176: 0}, 1}, "bucket must be between 0 and 175, got 176"},
		"no reference":        {Checkpoint{time.Time{}, map[int]uint32{1: 1}, 1}, "reference"},
		"reference long past": {Checkpoint{time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC), map[int]uint32{1: 1}, 1}, "reference"},
		"reference far ahead": {Checkpoint{time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), map[int]uint32{1: 1}, 1}, "reference"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h, err := Load(CPU, day, tt.c)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want one about %q", err, tt.want)
			}
			if !h.IsEmpty() {
				t.Error("something was loaded all the same")
			}
		})
	}
	if _, err := Load(CPU, 0, Checkpoint{}); err == nil {
		t.Error("a half-life of zero was accepted")
	}
}

// Loading any checkpoint does not panic. An accepted one works and keeps its distribution when it is stored again.
func FuzzLoad(f *testing.F) {
	h := New(Memory, day)
	h.Add(3e8, 1, noon)
	h.Add(4e8, 1, noon.Add(day))
	seed, _ := json.Marshal(h.Checkpoint())
	f.Add(seed)
	f.Add([]byte(`{"Reference":"2026-01-01T00:00:00Z","Weights":{"0":1,"175":4294967295},"Total":1e60}`))
	f.Add([]byte(`{"Reference":"2026-01-01T00:00:00Z","Weights":{"3":1,"9":10000},"Total":0.0001}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var c Checkpoint
		if json.Unmarshal(data, &c) != nil {
			t.Skip()
		}
		h, err := Load(Memory, day, c)
		if err != nil {
			return
		}
		first := h.Checkpoint()
		r, err := Load(Memory, day, first)
		if err != nil {
			t.Fatalf("what was stored is refused: %v", err)
		}
		second := r.Checkpoint()
		if r, err = Load(Memory, day, second); err != nil {
			t.Fatalf("what was stored twice is refused: %v", err)
		}
		if third := r.Checkpoint(); !reflect.DeepEqual(second.Weights, third.Weights) {
			t.Fatalf("weights became %v, were %v", third.Weights, second.Weights)
		}
		h.Add(5e8, 1, noon.Add(1000*day))
		h.Subtract(5e8, 1, noon)
		if p := h.Percentile(0.9); math.IsNaN(p) || p < 0 || p > 1.1e12 {
			t.Fatalf("percentile is %v", p)
		}
	})
}

func BenchmarkAdd(b *testing.B) {
	h := New(CPU, day)
	h.Add(0.1, 0.1, noon)
	h.Add(0.9, 0.1, noon)
	for b.Loop() {
		h.Add(0.4, 0.1, noon)
	}
}

func BenchmarkPercentile(b *testing.B) {
	h := New(CPU, day)
	for i := range 40 {
		h.Add(CPU.Start(10+i), 0.1, noon)
	}
	for b.Loop() {
		h.Percentile(0.9)
	}
}

func TestAge_olderHistogram_keepsItsDistribution(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	never := New(CPU, 24*time.Hour)
	never.Age(3)
	h := New(CPU, 24*time.Hour)
	for range 100 {
		h.Add(0.5, 1, now)
	}
	before := h.Percentile(0.9)
	h.Age(10)
	if got := h.Percentile(0.9); got != before || !never.IsEmpty() {
		t.Errorf("percentile %v, before %v", got, before)
	}
	h.Add(2, 1, now) // 2^10 times what each of the 100 weighs now
	if got := h.Percentile(0.5); got < 2 {
		t.Errorf("the median is %v after a sample of 2 cores", got)
	}
}
