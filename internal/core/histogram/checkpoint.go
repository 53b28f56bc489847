// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package histogram

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// maxStored is the stored weight of the heaviest bucket; the others are stored in proportion to it.
const maxStored = 10000

// maxTotal is above any possible total weight: 2^100 for the largest decay factor, times 100 million samples a second
// for a century.
const maxTotal = 1e60

// A Checkpoint is the stored form of a histogram in a VerticalPodAutoscalerCheckpoint, format v3.
type Checkpoint struct {
	Reference time.Time
	Weights   map[int]uint32 // by bucket; the heaviest is 10000
	Total     float64        // sum of the weights before scaling to integers
}

// Checkpoint returns the stored form of the histogram. Buckets whose stored weight rounds to 0 are left out.
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

// Load returns the histogram of a checkpoint. It returns an error for values that no histogram can have.
func Load(options *Options, halfLife time.Duration, checkpoint Checkpoint) (Histogram, error) {
	loaded := New(options, halfLife)
	switch {
	case math.IsNaN(checkpoint.Total) || checkpoint.Total < 0 || checkpoint.Total > maxTotal:
		return loaded, fmt.Errorf("total weight must be between 0 and %g, got %v", float64(maxTotal), checkpoint.Total)
	case halfLife <= 0:
		return loaded, fmt.Errorf("half-life must be positive, got %v", halfLife)
	}
	first := options.Buckets()
	last := -1
	sum := int64(0)
	for b, w := range checkpoint.Weights {
		if b < 0 || b >= options.Buckets() {
			return loaded, fmt.Errorf("bucket must be between 0 and %d, got %d", options.Buckets()-1, b)
		}
		if w > 0 {
			first = min(first, b)
			last = max(last, b)
			sum += int64(w)
		}
	}
	if !checkpoint.Reference.IsZero() {
		if y := checkpoint.Reference.Year(); y < 1970 || y > 2200 {
			return loaded, fmt.Errorf("reference time must be between 1970 and 2200, got %v", checkpoint.Reference)
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
	loaded.narrow() // rounding may have moved a weight below Epsilon (kubernetes/autoscaler#7726)
	return loaded, nil
}
