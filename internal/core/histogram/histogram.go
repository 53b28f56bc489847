// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package histogram keeps the distribution of a quantity over time, with what is recent weighing more.
//
// A sample's weight doubles with every half-life that it is younger than a reference time: instead of
// shrinking all that is old, what is new grows. The reference moves forward only when the exponents get large.
//
//	weight(t) = weight · 2^((t − reference) / halfLife)
//
// The arithmetic is upstream's to the last bit, because a percentile is a comparison and a recommendation
// hangs on it. What differs is the storage: only the span of buckets in use is kept. A container's usage
// touches some tens of the 176 buckets, so a histogram takes a few hundred bytes instead of 1,500.
//
// The package knows no clock and no resource but the two bucket schemes; it does no input or output.
package histogram

import (
	"errors"
	"iter"
	"math"
	"slices"
	"time"
)

// maxExponent is how many half-lives a sample may be younger than the reference before that is moved.
const maxExponent = 100

// never is the reference of a histogram that has not seen a sample: the zero time.
const never = math.MinInt64

// A Histogram is a decaying histogram. Make one with New or Load; the zero value has no buckets.
// It may be copied only as long as just one of the copies is used afterwards; Clone makes independent ones.
type Histogram struct {
	weights  []float64 // of the buckets from lo on; every other bucket weighs nothing
	total    float64   // of all buckets, including what was lost to rounding below Epsilon
	ref      int64     // Unix nanoseconds, a multiple of halfLife since the zero time; or never
	halfLife time.Duration
	opts     *Options
	lo       uint8 // bucket of weights[0]

	// The first and last bucket that weigh at least Epsilon. When there is none, first is the last bucket of
	// all and last is 0. Lighter buckets may lie outside: they come back when enough is added to them.
	first, last uint8
}

// New returns an empty histogram.
func New(o *Options, halfLife time.Duration) Histogram {
	return Histogram{ref: never, halfLife: halfLife, opts: o, first: uint8(o.Buckets() - 1)}
}

// Add adds a sample of some weight. It allocates only when the value lies outside the span of all before it.
func (h *Histogram) Add(value, weight float64, at time.Time) { h.AddNanos(value, weight, nanos(at)) }

// AddNanos is Add for a time in Unix nanoseconds.
func (h *Histogram) AddNanos(value, weight float64, at int64) {
	w := float64(weight * h.factor(at))
	if !(w > 0) {
		return
	}
	b := h.opts.Bucket(value)
	i := b - int(h.lo)
	if i < 0 || i >= len(h.weights) {
		i = h.grow(b)
	}
	h.weights[i] += w
	h.total += w
	if h.weights[i] >= Epsilon {
		h.first = min(h.first, uint8(b))
		h.last = max(h.last, uint8(b))
	}
}

// Subtract takes back a sample that was added with the same value, weight and time. It never allocates.
func (h *Histogram) Subtract(value, weight float64, at time.Time) {
	h.SubtractNanos(value, weight, nanos(at))
}

// SubtractNanos is Subtract for a time in Unix nanoseconds.
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

// IsEmpty reports whether no bucket weighs anything worth counting.
func (h *Histogram) IsEmpty() bool { return h.weight(int(h.first)) < Epsilon }

// Percentile returns the end of the bucket in which the given share (0 to 1) of the weight is reached, and 0
// when the histogram is empty.
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

// Max returns the end of the highest bucket that is not empty, and 0 when there is none.
func (h *Histogram) Max() float64 {
	if h.IsEmpty() {
		return 0
	}
	return h.opts.End(int(h.last))
}

// Total returns the weight of all samples together. Only ratios of weights mean anything.
func (h *Histogram) Total() float64 { return h.total }

// Options returns the buckets' scheme.
func (h *Histogram) Options() *Options { return h.opts }

// HalfLife returns how long it takes a sample to lose half of its weight.
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

// ErrMismatch is returned when histograms of different buckets or half-lives are merged.
var ErrMismatch = errors.New("histograms of different buckets or half-lives cannot be merged")

// Merge adds all samples of another histogram. It leaves the other as it is.
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
		w := other.weight(b)
		if w == 0 {
			continue
		}
		i := b - int(h.lo)
		if i < 0 || i >= len(h.weights) {
			i = h.grow(b)
		}
		h.weights[i] += w
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
// distribution stays, but for buckets that become lighter than Epsilon. What continues a stored histogram is
// aligned once with its first new sample, as merging it with a new histogram would do.
func (h *Histogram) Align(at time.Time) {
	if to := round(nanos(at), h.halfLife); to > h.ref {
		h.rebase(to)
	}
}

// Age makes everything count as taken so many half-lives earlier. The distribution stays; what is added from then on weighs
// more against it.
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

// grow extends the span to a bucket outside it and returns the bucket's index. The new span is a multiple of
// four buckets, with the room to spare on the side on which it grew.
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

// narrow draws first and last in to buckets that are not empty.
func (h *Histogram) narrow() {
	end := h.opts.Buckets() - 1
	for h.weight(int(h.first)) < Epsilon && int(h.first) < end {
		h.first++
	}
	for h.weight(int(h.last)) < Epsilon && h.last > 0 {
		h.last--
	}
}

// factor returns what a sample of a time weighs against one of the reference time.
func (h *Histogram) factor(at int64) float64 {
	if h.ref == never || at-h.ref > maxExponent*int64(h.halfLife) {
		h.rebase(at)
	}
	return math.Exp2(float64(at-h.ref) / float64(h.halfLife))
}

// rebase moves the reference and scales all weights accordingly, by a power of two.
func (h *Histogram) rebase(to int64) {
	to = round(to, h.halfLife)
	from := int64(math.MinInt64) // the zero time is further away than a duration can say
	if h.ref != never {
		from = h.ref - to
	}
	scale := math.Ldexp(1, int(math.Floor(float64(from)/float64(h.halfLife)+0.5)))
	for b := int(h.first); b <= int(h.last); b++ {
		if i := b - int(h.lo); i >= 0 && i < len(h.weights) {
			h.weights[i] *= scale
		}
	}
	h.total *= scale
	h.ref = to
	h.narrow()
}

// round returns the multiple of d since the zero time that is nearest to a time.
func round(at int64, d time.Duration) int64 { return nanos(time.Unix(0, at).Round(d)) }

// nanos returns a time in Unix nanoseconds. What cannot be said that way is drawn to the nearest that can.
func nanos(t time.Time) int64 {
	switch s := t.Unix(); {
	case s < -1<<33:
		return -(1 << 33) * 1e9
	case s > 1<<33:
		return (1 << 33) * 1e9
	}
	return t.UnixNano()
}
