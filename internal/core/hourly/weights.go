// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package hourly

import (
	"math"

	"podfit.dev/podfit/internal/core/codec"
)

// The buckets of Weights: bucket 0 ends at the first bound, each later one is wider by the ratio.
const (
	weightBuckets = 128
	weightFirst   = 0.001
	weightRatio   = 1.12 // the last bucket ends at 1,780 times a thousand times the first: 1,780 cores
)

// Weights are a decaying histogram of CPU usage, in cores, that is stored without loss. It allocates the buckets between the lowest
// and the highest one in use. The zero value is empty.
type Weights struct {
	weight []float32
	first  uint8 // bucket of the first weight
	hour   int32 // of the newest sample
}

// Observe adds a sample of v cores. A sample that is older by halfLife, in hours, weighs half as much.
func (w *Weights) Observe(hour int, v, halfLife float64) {
	w.age(int32(hour), halfLife)
	b := 0
	if v > weightFirst {
		b = min(int(math.Ceil(math.Log(v/weightFirst)/math.Log(weightRatio))), weightBuckets-1)
	}
	*w.at(b)++
}

// at returns a bucket. It allocates it if necessary.
func (w *Weights) at(bucket int) *float32 {
	first := int(w.first)
	end := int(w.first) + len(w.weight)
	if bucket < first || bucket >= end {
		if len(w.weight) == 0 {
			first = bucket
			end = bucket
		}
		grown := make([]float32, max(end, bucket+1)-min(first, bucket))
		copy(grown[first-min(first, bucket):], w.weight)
		w.weight = grown
		w.first = uint8(min(first, bucket))
	}
	return &w.weight[bucket-int(w.first)]
}

// age decays all weights to a later hour.
func (w *Weights) age(hour int32, halfLife float64) {
	if hour <= w.hour {
		return
	}
	if w.hour > 0 {
		f := float32(math.Exp2(-float64(hour-w.hour) / halfLife))
		for i := range w.weight {
			w.weight[i] *= f
			if w.weight[i] < 1e-9 {
				w.weight[i] = 0
			}
		}
	}
	w.hour = hour
}

// Newest returns the hour of the newest sample, 0 if there is none.
func (w *Weights) Newest() int { return int(w.hour) }

// Quantile returns the amount that a share of the samples does not exceed, 0 if there are none. It assumes that the
// samples of a bucket are spread evenly over the bucket, so that it is not always rounded up.
func (w *Weights) Quantile(share float64) float64 {
	rest := share * w.Total()
	bucket := -1 // in which the quantile lies, or the last one with samples
	within := 1.0
	for i, weight := range w.weight {
		if weight == 0 {
			continue
		}
		bucket = int(w.first) + i
		if rest <= float64(weight) {
			within = rest / float64(weight)
			break
		}
		rest -= float64(weight)
	}
	if bucket < 0 {
		return 0
	}
	most := weightFirst * math.Pow(weightRatio, float64(bucket))
	least := most / weightRatio
	if bucket == 0 {
		least = 0
	}
	return least + (most-least)*within
}

// Total returns the sum of the weights of all samples.
func (w *Weights) Total() float64 {
	total := 0.0
	for _, weight := range w.weight {
		total += float64(weight)
	}
	return total
}

// Code encodes or decodes Weights: the hour, then the number and the weight of each bucket that is not empty, then the number of buckets as
// the end mark. When decoding fails (c.Err), the Weights do not change.
func (w *Weights) Code(c *codec.Coder) {
	decoded := Weights{hour: w.hour}
	codec.Uvarint(c, "hour of weights", &decoded.hour, maxHour)
	if !c.Decoding() {
		for i, weight := range w.weight {
			if weight != 0 {
				codeBucket(c, int(w.first)+i, weight)
			}
		}
		codeBucket(c, weightBuckets, 0)
		return
	}
	for {
		bucket, weight := codeBucket(c, 0, 0)
		if c.Err() != nil {
			return
		}
		if bucket == weightBuckets {
			*w = decoded
			return
		}
		*decoded.at(bucket) = weight
	}
}

// codeBucket encodes or decodes a bucket, or the end mark, which has no weight.
func codeBucket(c *codec.Coder, bucket int, weight float32) (int, float32) {
	codec.Byte(c, "bucket of weights", &bucket, weightBuckets)
	if bucket < weightBuckets {
		c.Float32("weight of a bucket", &weight, math.SmallestNonzeroFloat32, maxWeight)
	}
	return bucket, weight
}

// maxWeight is above any weight that a bucket can have.
const maxWeight = 1e30
