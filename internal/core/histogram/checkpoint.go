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
	c := Checkpoint{Total: h.total, Weights: make(map[int]uint32, max(0, int(h.last)-int(h.first)+1))}
	if h.ref != never {
		c.Reference = time.Unix(0, h.ref).UTC()
	}
	heaviest := 0.0
	for b := int(h.first); b <= int(h.last); b++ {
		heaviest = max(heaviest, h.weight(b))
	}
	if heaviest == 0 {
		return c
	}
	ratio := maxStored / heaviest
	for b := int(h.first); b <= int(h.last); b++ {
		if w := uint32(math.Floor(float64(h.weight(b)*ratio) + 0.5)); w > 0 {
			c.Weights[b] = w
		}
	}
	return c
}

// Load returns the histogram that a checkpoint holds. It refuses what no histogram can have written.
func Load(o *Options, halfLife time.Duration, c Checkpoint) (Histogram, error) {
	h := New(o, halfLife)
	switch {
	case math.IsNaN(c.Total) || c.Total < 0 || c.Total > maxTotal:
		return h, fmt.Errorf("total weight %v is not between 0 and %g", c.Total, float64(maxTotal))
	case halfLife <= 0:
		return h, fmt.Errorf("half-life %v is not positive", halfLife)
	}
	lo, hi, sum := o.Buckets(), -1, int64(0)
	for b, w := range c.Weights {
		if b < 0 || b >= o.Buckets() {
			return h, fmt.Errorf("bucket %d is not between 0 and %d", b, o.Buckets()-1)
		}
		if w > 0 {
			lo, hi = min(lo, b), max(hi, b)
			sum += int64(w)
		}
	}
	if !c.Reference.IsZero() {
		if y := c.Reference.Year(); y < 1970 || y > 2200 {
			return h, fmt.Errorf("reference time %v is out of range", c.Reference)
		}
		h.ref = nanos(c.Reference)
	}
	if sum == 0 {
		return h, nil
	}
	if h.ref == never {
		return h, errors.New("weights without a reference time")
	}
	ratio := c.Total / float64(sum)
	h.weights, h.lo = make([]float64, hi-lo+1), uint8(lo)
	for b, w := range c.Weights {
		if w > 0 {
			h.weights[b-lo] = float64(w) * ratio
		}
	}
	h.total, h.first, h.last = c.Total, uint8(lo), uint8(hi)
	h.narrow() // what was near Epsilon may have fallen below it by rounding (kubernetes/autoscaler#7726)
	return h, nil
}
