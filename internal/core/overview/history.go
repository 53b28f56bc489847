// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/histogram"
	"podfit.dev/podfit/internal/core/hourly"
)

// A History is the stored usage of a workload.
type History struct {
	Containers []ContainerHistory
	Requests   []RequestStep // the oldest first
	Profiles   []ProfileSize // by container; of each, the profile of the workload first
	Unrecorded string        // why Prometheus could not be read, or not all of it, with the remedy, as sentences; "" if it was read or none is configured
}

// A ProfileSize is what a profile recommends for a container, compared with the memory peaks of the last days.
type ProfileSize struct {
	Container       string
	Profile         string
	Own             bool              // the profile of the workload
	Target          cluster.Resources // a resource that is not known is not set
	Reason          string            // why a part is not known
	DaysAbove, Days int               // days whose memory peak was above the target, of the days whose peak is known
	Killed          string            // whether the container would have been OOM-killed: "yes", "no" or "unknown"
}

// A ContainerHistory is the stored usage of a container. It has hourly peaks, or histograms, or neither.
type ContainerHistory struct {
	Name        string
	CPU, Memory []Peak // oldest first, cores and bytes; hours without samples are absent

	CPURecorded, MemoryRecorded int // how many of the peaks are from Prometheus; the others are from the UsageHistory

	CPUBuckets, MemoryBuckets []Bucket // if there are no peaks
	First, Last               time.Time
	Samples                   int
}

// A Peak is the highest usage of any pod in an hour.
type Peak struct {
	At    time.Time // start of the hour
	Value float64
}

// Fill returns stored peaks with recorded ones in the hours that the stored ones lack, and how many of them are recorded. All are sorted, the
// oldest first.
func Fill(stored, recorded []Peak) (all []Peak, filled int) {
	all = slices.Concat(stored, recorded)
	slices.SortStableFunc(all, func(a, b Peak) int { return a.At.Compare(b.At) })
	all = slices.CompactFunc(all, func(a, b Peak) bool { return a.At.Equal(b.At) }) // keeps the first, which is stored
	return all, len(all) - len(stored)
}

// PeaksOf returns the stored peaks of the last days.
func PeaksOf(p *hourly.Peaks, days int) []Peak {
	if p.Empty() {
		return nil
	}
	var out []Peak
	for hour := p.Newest() - days*24 + 1; hour <= p.Newest(); hour++ {
		if level := p.At(hour); level > 0 {
			out = append(out, Peak{time.Unix(int64(hour)*3600, 0).UTC(), level.Amount()})
		}
	}
	return out
}

// A Bucket is a range of usage and the share of the samples in it, weighted by age as in the histogram.
type Bucket struct {
	From  float64 `json:"from"`
	To    float64 `json:"to"`
	Share float64 `json:"share"`
}

// maxBuckets is the number of buckets that a histogram is shown with.
const maxBuckets = 24

// BucketsOf returns the buckets of a histogram from the lowest to the highest that has samples, at most maxBuckets.
func BucketsOf(h *histogram.Histogram) []Bucket {
	if h.IsEmpty() || h.Total() <= 0 {
		return nil
	}
	var all []Bucket
	for bucket, weight := range h.All() {
		if share := weight / h.Total(); share > 0.0005 {
			all = append(all, Bucket{h.Options().Start(bucket), h.Options().End(bucket), share})
		}
	}
	width := (len(all) + maxBuckets - 1) / maxBuckets
	var out []Bucket
	for i, b := range all {
		if i%width == 0 {
			out = append(out, b)
			continue
		}
		last := &out[len(out)-1]
		last.To = b.To
		last.Share += b.Share
	}
	return out
}
