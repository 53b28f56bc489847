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

	// A value x is in bucket ⌊log(x')⌋ to the base of the ratio, where x' = x·step/first + 1. The logarithm is slow, so
	// slots maps the leading bits of x' to a bucket that is right or one too low. If x' is closer to the edge of a
	// bucket than the error of the logarithm, the logarithm decides.
	slots []uint8
	edges []float64 // where each bucket begins, as x'
}

// slotBits is the number of leading bits of the mantissa of x' that select a slot. A slot is at most 3 % wide, so that it
// has the edge of at most one bucket.
const slotBits = 5

const slotShift = 52 - slotBits

// slotBase is the slot of 1, the minimum of x'.
const slotBase = 0x3FF << slotBits

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
	options.edges = make([]float64, count+1)
	for i := range options.edges {
		options.edges[i] = math.Pow(ratio, float64(i))
	}
	b := 0
	for slot := slotBase; b < count-1; slot++ {
		start := math.Float64frombits(uint64(slot) << slotShift)
		for b < count-1 && options.edges[b+1] <= start {
			b++
		}
		options.slots = append(options.slots, uint8(b))
	}
	return options
}

// Buckets returns the number of buckets.
func (o *Options) Buckets() int { return len(o.starts) }

// Bucket returns the bucket of a value. Negative values and NaN are in the first bucket, infinity is in the last.
func (o *Options) Bucket(v float64) int {
	if !(v >= o.first) {
		return 0
	}
	const doubt = 1e-12 // relative: a thousand times the error of the logarithm
	scaled := float64(v*o.step/o.first) + 1
	last := len(o.starts) - 1
	slot := int(math.Float64bits(scaled)>>slotShift) - slotBase
	if slot >= len(o.slots) {
		return last
	}
	bucket := int(o.slots[slot])
	edge := o.edges[bucket+1]
	switch off := (scaled - edge) / edge; {
	case off < -doubt:
		if scaled-o.edges[bucket] < doubt*edge {
			return o.logarithm(scaled)
		}
	case off > doubt:
		bucket++
	default:
		return o.logarithm(scaled)
	}
	return min(bucket, last)
}

// logarithm is the definition of Bucket, for x' = x·step/first + 1.
func (o *Options) logarithm(x float64) int { return min(int(math.Log(x)/o.logRatio), len(o.starts)-1) }

// Start returns where a bucket begins.
func (o *Options) Start(bucket int) float64 { return o.starts[bucket] }

// End returns the end of a bucket: the start of the next. The last bucket has no end; for it, End returns its start.
func (o *Options) End(bucket int) float64 { return o.starts[min(bucket+1, len(o.starts)-1)] }
