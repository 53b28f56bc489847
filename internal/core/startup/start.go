// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package startup learns from the starts of containers how much more CPU a start needs than the recommendation, and for how long.
//
// An Observer follows one container of a new pod until Minutes after the pod is Ready, and returns a Start. Starts keeps the last ones of a
// container of a workload, and Learn compares them with the recommendation.
package startup

import (
	"math"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/codec"
)

// Minutes is how many minutes after Ready a start is followed. A boost cannot be longer, because the end of a longer start is not seen.
const Minutes = 15

const (
	// maxMillicores bounds what is stored of the usage of a container. Larger usage is rejected before.
	maxMillicores = 1e8
	// maxBegin is how long after the start of a pod, or after Ready, the first sample of a container may be taken. Usage is measured
	// once a minute, and the Metrics API reports a container after two measurements.
	maxBegin = 3 * time.Minute
	// maxGap is the longest time between two samples of a start.
	maxGap = 3 * time.Minute
	// maxUnready is how long a container may run before its pod is Ready.
	maxUnready = 30 * time.Minute
	// atLimit is the part of the CPU limit from which on usage counts as bounded by it.
	atLimit = 0.95
)

// beforeReady is the bit of Start.limited for the time before Ready. Bit i is that of the minute i.
const beforeReady = Minutes

// A Start is the CPU usage of one container while its pod started. Usage is in millicores.
type Start struct {
	ready   int64           // Unix seconds: when the pod became Ready
	before  uint32          // the highest usage before Ready
	minutes [Minutes]uint32 // the highest usage in each minute after Ready
	limited uint16          // the minutes in which usage reached the CPU limit, so the container may have needed more
}

// An Observer follows the start of one container. The zero value is one that has not seen a sample.
//
// It gives up if the start cannot be told from something else: the container or the pod restarts, fails or loses its readiness, the pod
// is not Ready in time, or samples are missing.
type Observer struct {
	start Start
	begun int64 // Unix seconds of the first sample, 0 before
	last  int64 // of the last one
	next  int   // the first minute without a sample
	over  bool
}

// NewObserver returns an Observer of a pod that started at a time, which is zero before the kubelet has seen the pod. It returns nil if
// the beginning of the start is missed.
func NewObserver(started, now time.Time) *Observer {
	if !started.IsZero() && (now.Sub(started) > maxBegin || started.Sub(now) > maxBegin) {
		return nil
	}
	return new(Observer)
}

// Note tells the Observer the state of the pod and its container, before the samples of the same time. It returns false when the start teaches
// nothing.
func (o *Observer) Note(p *cluster.Pod, c *cluster.Container) bool {
	ready := int64(0) // since when the pod is Ready; 0 if it is not
	if p.Ready && !p.ReadySince.IsZero() {
		ready = max(p.ReadySince.Unix(), 1)
	}
	switch {
	case c.Restarts > 0, !p.Live():
		o.over = true
	case o.start.ready == 0:
		o.start.ready = ready
	case ready != o.start.ready:
		o.over = true
	}
	return !o.over
}

// Observe adds a sample, with the CPU limit of the container at that time, in millicores; 0 for none. It returns the Start when it is complete: then,
// and when more is false, the Observer is of no more use.
func (o *Observer) Observe(when time.Time, millicores float64, limit int64) (start *Start, more bool) {
	at := when.Unix()
	if o.over || !(millicores >= 0) || at <= o.last {
		return nil, !o.over
	}
	if o.begun == 0 {
		o.begun = at
	} else if at-o.last > int64(maxGap/time.Second) {
		return nil, false
	}
	o.last = at
	used := uint32(math.Ceil(min(millicores, maxMillicores)))
	limited := limit > 0 && millicores >= atLimit*float64(limit)
	ready := o.start.ready
	if ready == 0 || at <= ready {
		o.start.before = max(o.start.before, used)
		o.limit(beforeReady, limited)
		return nil, at-o.begun <= int64(maxUnready/time.Second)
	}
	if o.begun > ready+int64(maxBegin/time.Second) {
		return nil, false
	}
	minute := min(int((at-ready-1)/60), Minutes-1)
	for ; o.next <= minute; o.next++ { // a minute without a sample is covered by the next one
		o.start.minutes[o.next] = used
		o.limit(o.next, limited)
	}
	o.start.minutes[minute] = max(o.start.minutes[minute], used)
	o.limit(minute, limited)
	if at-ready <= (Minutes-1)*60 {
		return nil, true
	}
	return &o.start, false
}

func (o *Observer) limit(minute int, limited bool) {
	if limited {
		o.start.limited |= 1 << minute
	}
}

const maxLimited = 1<<(Minutes+1) - 1

// Code encodes starts, or decodes them; they are nil if there are none. Ten starts take at most 870 bytes.
func Code(c *codec.Coder, s **Starts) {
	var list []Start
	if *s != nil {
		list = (*s).list
	}
	codec.Length(c, "number of starts", &list, kept)
	for i := range list {
		x := &list[i]
		codec.Uvarint(c, "time of a start", &x.ready, codec.MaxSecond)
		codec.Uvarint(c, "minutes at the limit of a start", &x.limited, maxLimited)
		codec.Uvarint(c, "usage of a start", &x.before, maxMillicores)
		for minute := range x.minutes {
			codec.Uvarint(c, "usage of a start", &x.minutes[minute], maxMillicores)
		}
		if i > 0 && list[i-1].ready > x.ready {
			c.Fail("starts are not sorted by time")
		}
	}
	if !c.Decoding() {
		return
	}
	*s = nil
	if len(list) > 0 && c.Err() == nil {
		*s = &Starts{list: list}
	}
}
