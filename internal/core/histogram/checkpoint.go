// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package histogram

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// maxStored is the weight of the heaviest bucket of a checkpoint; the others are in proportion to it.
const maxStored = 10000

// maxTotal is far above any total weight that can come about: 2^100 for the largest decay factor, times a
// hundred million samples a second for a century.
const maxTotal = 1e60

// A Checkpoint is a histogram as it is stored in a VerticalPodAutoscalerCheckpoint, format v3.
type Checkpoint struct {
	Reference time.Time
	Weights   map[int]uint32 // by bucket; the heaviest is 10000
	Total     float64        // of the weights before they were scaled to whole numbers
}

// Checkpoint returns the histogram in its stored form. Buckets that round to nothing are dropped.
func (h *Histogram) Checkpoint() Checkpoint {
	checkpoint := Checkpoint{Total: h.total, Weights: make(map[int]uint32, max(0, int(h.last)-int(h.first)+1))}
	if h.ref != never {
		checkpoint.Reference = time.Unix(0, h.ref).UTC()
	}
	heaviest := 0.0
	for b := int(h.first); b <= int(h.last); b++ {
		heaviest = max(heaviest, h.weight(b))
	}
	if heaviest == 0 {
		return checkpoint
	}
	ratio := maxStored / heaviest
	for b := int(h.first); b <= int(h.last); b++ {
		if w := uint32(math.Floor(float64(h.weight(b)*ratio) + 0.5)); w > 0 {
			checkpoint.Weights[b] = w
		}
	}
	return checkpoint
}

// Load returns the histogram that a checkpoint holds. It refuses what no histogram can have written.
func Load(options *Options, halfLife time.Duration, checkpoint Checkpoint) (Histogram, error) {
	loaded := New(options, halfLife)
	switch {
	case math.IsNaN(checkpoint.Total) || checkpoint.Total < 0 || checkpoint.Total > maxTotal:
		return loaded, fmt.Errorf("total weight %v is not between 0 and %g", checkpoint.Total, float64(maxTotal))
	case halfLife <= 0:
		return loaded, fmt.Errorf("half-life %v is not positive", halfLife)
	}
	first := options.Buckets()
	last := -1
	sum := int64(0)
	for b, w := range checkpoint.Weights {
		if b < 0 || b >= options.Buckets() {
			return loaded, fmt.Errorf("bucket %d is not between 0 and %d", b, options.Buckets()-1)
		}
		if w > 0 {
			first = min(first, b)
			last = max(last, b)
			sum += int64(w)
		}
	}
	if !checkpoint.Reference.IsZero() {
		if y := checkpoint.Reference.Year(); y < 1970 || y > 2200 {
			return loaded, fmt.Errorf("reference time %v is out of range", checkpoint.Reference)
		}
		loaded.ref = nanos(checkpoint.Reference)
	}
	if sum == 0 {
		return loaded, nil
	}
	if loaded.ref == never {
		return loaded, errors.New("weights without a reference time")
	}
	ratio := checkpoint.Total / float64(sum)
	loaded.weights = make([]float64, last-first+1)
	loaded.lo = uint8(first)
	for b, w := range checkpoint.Weights {
		if w > 0 {
			loaded.weights[b-first] = float64(w) * ratio
		}
	}
	loaded.total = checkpoint.Total
	loaded.first = uint8(first)
	loaded.last = uint8(last)
	loaded.narrow() // what was near Epsilon may have fallen below it by rounding (kubernetes/autoscaler#7726)
	return loaded, nil
}
