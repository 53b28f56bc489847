// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package histogram

import "math"

// Epsilon is the weight below which a bucket counts as empty. It is a thousandth of the weight of a CPU sample at the
// reference time.
const Epsilon = 0.001 * 0.1

// Options are the bucket scheme of a histogram. They are immutable and shared.
//
// Bucket 0 covers [0, first). Each later bucket is wider than the one before by the ratio, and the last one
// takes everything above:
//
//	0        first     first+first·r                      max
//	|---- 0 ----|------ 1 ------|------- 2 -------| ... |--- n-1 --->
type Options struct {
	first    float64
	step     float64   // ratio − 1
	logRatio float64   // ln(ratio)
	starts   []float64 // where each bucket begins
}

// The two schemes of the checkpoint format. They must not change, because checkpoints contain bucket numbers.
var (
	CPU    = exponential(1000, 0.01, 1.05) // cores: from 10 millicores to 1000 cores, 5 % apart
	Memory = exponential(1e12, 1e7, 1.05)  // bytes: from 10 MB to 1 TB, 5 % apart
)

func exponential(limit, first, ratio float64) *Options {
	options := &Options{first: first, step: ratio - 1, logRatio: math.Log(ratio)}
	count := int(math.Ceil(math.Log(limit*(ratio-1)/first+1)/math.Log(ratio))) + 1
	options.starts = make([]float64, count)
	for i := 1; i < count; i++ {
		options.starts[i] = first * (math.Pow(ratio, float64(i)) - 1) / (ratio - 1)
	}
	return options
}

// Buckets returns the number of buckets.
func (o *Options) Buckets() int { return len(o.starts) }

// Bucket returns the bucket of a value: a value x is in bucket ⌊log(x·step/first + 1)⌋ to the base of the ratio. Negative values and NaN are in
// the first bucket, infinity is in the last.
func (o *Options) Bucket(v float64) int {
	if !(v >= o.first) {
		return 0
	}
	bucket := math.Log(float64(v*o.step/o.first)+1) / o.logRatio
	return int(min(bucket, float64(len(o.starts)-1)))
}

// Start returns where a bucket begins.
func (o *Options) Start(bucket int) float64 { return o.starts[bucket] }

// End returns the end of a bucket: the start of the next. The last bucket has no end; for it, End returns its start.
func (o *Options) End(bucket int) float64 { return o.starts[min(bucket+1, len(o.starts)-1)] }
