// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package histogram implements a decaying histogram: recent samples weigh more than old ones.
//
// Old weights are not reduced. Instead, the weight of a new sample doubles with every half-life since a reference
// time. The reference moves forward only when the exponents get large.
//
//	weight(t) = weight · 2^((t − reference) / halfLife)
//
// The arithmetic equals upstream's bit for bit, because a percentile is found by comparing sums of weights. Only the storage
// differs: buckets between the first and the last one in use are kept. A container uses some tens of the 176
// buckets, so a histogram takes a few hundred bytes instead of 1,500.
//
// The package is pure: no clock, no input or output.
package histogram

import (
	"errors"
	"iter"
	"math"
	"slices"
	"time"
)

// maxExponent is the number of half-lives between the reference and a sample above which the reference is moved.
const maxExponent = 100

// never is the reference of a histogram without samples: the zero time.
const never = math.MinInt64

// A Histogram is a decaying histogram. Make one with New or Load; the zero value has no buckets.
// After a plain copy only one of the two may be used; Clone returns an independent copy.
type Histogram struct {
	weights  []float64 // of the buckets from lo on; the weight of every other bucket is 0
	total    float64   // of all buckets, including what was lost to rounding below Epsilon
	ref      int64     // Unix nanoseconds, a multiple of halfLife since the zero time; or never
	halfLife time.Duration
	opts     *Options
	lo       uint8 // bucket of weights[0]

	// The first and last bucket with a weight of at least Epsilon. If there is none, first is the number of the last
	// bucket and last is 0. Lighter buckets may be outside; they count again when their weight reaches Epsilon.
	first, last uint8
}

// New returns an empty histogram.
func New(o *Options, halfLife time.Duration) Histogram {
	return Histogram{ref: never, halfLife: halfLife, opts: o, first: uint8(o.Buckets() - 1)}
}

// AddNanos adds a sample with a weight, at a time in Unix nanoseconds. It allocates only if the value is outside the span of buckets in use.
func (h *Histogram) AddNanos(value, weight float64, at int64) {
	w := float64(weight * h.factor(at))
	if !(w > 0) {
		return
	}
	b := h.opts.Bucket(value)
	bucket := h.at(b)
	*bucket += w
	h.total += w
	if *bucket >= Epsilon {
		h.first = min(h.first, uint8(b))
		h.last = max(h.last, uint8(b))
	}
}

// SubtractNanos removes a sample that was added with the same value, weight and time. It never allocates.
func (h *Histogram) SubtractNanos(value, weight float64, at int64) {
	w := float64(weight * h.factor(at))
	if !(w >= 0) {
		return
	}
	h.total = less(h.total, w)
	if i := h.opts.Bucket(value) - int(h.lo); i >= 0 && i < len(h.weights) {
		h.weights[i] = less(h.weights[i], w)
	}
	h.narrow()
}

func less(v, sub float64) float64 {
	rest := v - sub
	if rest >= Epsilon {
		return rest
	}
	return 0
}

// IsEmpty reports whether no bucket has a weight of at least Epsilon.
func (h *Histogram) IsEmpty() bool { return h.weight(int(h.first)) < Epsilon }

// Percentile returns the end of the bucket in which the given share (0 to 1) of the weight is reached, and 0
// if the histogram is empty.
func (h *Histogram) Percentile(p float64) float64 {
	if h.IsEmpty() {
		return 0
	}
	sum := 0.0
	threshold := p * h.total
	b := int(h.first)
	for ; b < int(h.last); b++ {
		sum += h.weights[b-int(h.lo)]
		if sum >= threshold {
			break
		}
	}
	return h.opts.End(b)
}

// Max returns the end of the highest bucket that is not empty, and 0 if there is none.
func (h *Histogram) Max() float64 {
	if h.IsEmpty() {
		return 0
	}
	return h.opts.End(int(h.last))
}

// Total returns the sum of all weights. Only ratios of weights have a meaning.
func (h *Histogram) Total() float64 { return h.total }

// Options returns the bucket scheme.
func (h *Histogram) Options() *Options { return h.opts }

// HalfLife returns the time in which a sample loses half of its weight.
func (h *Histogram) HalfLife() time.Duration { return h.halfLife }

// All yields the buckets that are not empty with their weights, in ascending order.
func (h *Histogram) All() iter.Seq2[int, float64] {
	return func(yield func(int, float64) bool) {
		for b := int(h.first); b <= int(h.last); b++ {
			if w := h.weight(b); w >= Epsilon && !yield(b, w) {
				return
			}
		}
	}
}

// ErrMismatch is returned if histograms with different buckets or half-lives are merged.
var ErrMismatch = errors.New("histograms of different buckets or half-lives cannot be merged")

// Merge adds all samples of another histogram, which does not change.
func (h *Histogram) Merge(other *Histogram) error {
	if h.opts != other.opts || h.halfLife != other.halfLife {
		return ErrMismatch
	}
	switch {
	case h.ref < other.ref:
		h.rebase(other.ref)
	case other.ref < h.ref:
		c := other.Clone()
		c.rebase(h.ref)
		other = &c
	}
	for b := int(other.first); b <= int(other.last); b++ {
		if w := other.weight(b); w != 0 {
			*h.at(b) += w
		}
	}
	h.total += other.total
	h.first = min(h.first, other.first)
	h.last = max(h.last, other.last)
	return nil
}

// Clone returns an independent copy.
func (h *Histogram) Clone() Histogram {
	c := *h
	c.weights = slices.Clone(h.weights)
	return c
}

// Align moves the reference to the multiple of the half-life nearest to a time, if that is later. The
// distribution does not change, except for buckets that become lighter than Epsilon. A restored histogram is
// aligned with its first new sample, as upstream does by merging it into a new histogram.
func (h *Histogram) Align(at time.Time) {
	if to := round(nanos(at), h.halfLife); to > h.ref {
		h.rebase(to)
	}
}

// Age makes all samples older by a number of half-lives. The distribution does not change, but new samples weigh more relative
// to it.
func (h *Histogram) Age(halfLives int) {
	if h.ref != never {
		h.ref -= int64(halfLives) * int64(h.halfLife)
	}
}

func (h *Histogram) weight(b int) float64 {
	if i := b - int(h.lo); i >= 0 && i < len(h.weights) {
		return h.weights[i]
	}
	return 0
}

// at returns the weight of a bucket, to be changed.
func (h *Histogram) at(b int) *float64 {
	i := b - int(h.lo)
	if i < 0 || i >= len(h.weights) {
		i = h.grow(b)
	}
	return &h.weights[i]
}

// grow extends the span to a bucket outside it and returns the index of the bucket. The new span is a multiple of
// four buckets; spare buckets are on the side on which it grew.
func (h *Histogram) grow(bucket int) int {
	first := bucket
	last := bucket // inclusive
	if n := len(h.weights); n > 0 {
		first = min(bucket, int(h.lo))
		last = max(bucket, int(h.lo)+n-1)
	}
	spare := -(last - first + 1) & 3
	if bucket == first && len(h.weights) > 0 {
		first = max(0, first-spare)
	} else {
		last = min(h.opts.Buckets()-1, last+spare)
	}
	weights := make([]float64, last-first+1)
	copy(weights[max(0, int(h.lo)-first):], h.weights)
	h.weights = weights
	h.lo = uint8(first)
	return bucket - first
}

// narrow moves first and last to buckets that are not empty.
func (h *Histogram) narrow() {
	end := h.opts.Buckets() - 1
	for h.weight(int(h.first)) < Epsilon && int(h.first) < end {
		h.first++
	}
	for h.weight(int(h.last)) < Epsilon && h.last > 0 {
		h.last--
	}
}

// factor returns the weight of a sample of a time relative to one of the reference time.
func (h *Histogram) factor(at int64) float64 {
	if h.ref == never || at-h.ref > maxExponent*int64(h.halfLife) {
		h.rebase(at)
	}
	return math.Exp2(float64(at-h.ref) / float64(h.halfLife))
}

// rebase moves the reference and scales all weights accordingly, by a power of two.
func (h *Histogram) rebase(to int64) {
	to = round(to, h.halfLife)
	from := int64(math.MinInt64) // the zero time is further away than the longest duration
	if h.ref != never {
		from = h.ref - to
	}
	scale := math.Ldexp(1, int(math.Floor(float64(from)/float64(h.halfLife)+0.5)))
	for b := int(h.first); b <= int(h.last); b++ {
		h.weights[b-int(h.lo)] *= scale
	}
	h.total *= scale
	h.ref = to
	h.narrow()
}

// round returns the multiple of d since the zero time that is nearest to a time.
func round(at int64, d time.Duration) int64 { return nanos(time.Unix(0, at).Round(d)) }

// nanos converts a time to Unix nanoseconds. Times out of range become the nearest in range.
func nanos(t time.Time) int64 {
	switch s := t.Unix(); {
	case s < -1<<33:
		return -(1 << 33) * 1e9
	case s > 1<<33:
		return (1 << 33) * 1e9
	}
	return t.UnixNano()
}

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
