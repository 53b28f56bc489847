// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"cmp"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/histogram"
	"podfit.dev/podfit/internal/core/hourly"
	"podfit.dev/podfit/internal/core/ledger"
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
	var out []Bucket
	for part := range slices.Chunk(all, max(1, (len(all)+maxBuckets-1)/maxBuckets)) {
		joined := Bucket{From: part[0].From, To: part[len(part)-1].To}
		for _, b := range part {
			joined.Share += b.Share
		}
		out = append(out, joined)
	}
	return out
}

// A RequestStep is a change of the requests that a container of new or resized pods has from a time on. Resources that did not change are not set.
type RequestStep struct {
	At        time.Time
	Container string
	Requests  cluster.Resources
}

const maxSteps = 200

// RequestSteps returns how the requests of a workload changed, the oldest first: by the creation of its pods, and by the resizes that the
// updater has recorded. The requests of a resized pod before its resize are not known. If pods have different requests at the same time, the
// last change counts.
func RequestSteps(pods []*cluster.Pod, record *ledger.State) []RequestStep {
	var all []*RequestStep // pointers share the compiled code of other sorts, which keeps the page small
	resized := make(map[string]bool)
	for _, p := range record.Pods {
		if p.Failed != nil || p.Do != decision.Resize {
			continue
		}
		resized[p.UID] = true
		for _, f := range p.With {
			all = append(all, &RequestStep{p.At, f.Container, f.Requests})
		}
	}
	for _, p := range pods {
		if !p.Live() || p.Placeholder || resized[p.UID] || record.Omitted > 0 || p.Created.IsZero() {
			continue // with omitted records, the pod may have been resized since
		}
		for i := range p.Containers {
			if c := &p.Containers[i]; c.Role != cluster.Init {
				requests, _ := c.Running()
				all = append(all, &RequestStep{p.Created, c.Name, requests})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *RequestStep) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Container, b.Container)) })
	return withoutRepetition(all)
}

// withoutRepetition drops steps that change nothing, and the oldest ones of a container that has too many.
func withoutRepetition(all []*RequestStep) []RequestStep {
	last := make(map[string]cluster.Resources)
	count := make(map[string]int)
	var out []RequestStep
	for _, s := range all {
		now := s.Requests.Or(last[s.Container])
		if before, known := last[s.Container]; known && now == before {
			continue
		}
		last[s.Container] = now
		count[s.Container]++
		out = append(out, *s)
	}
	return slices.DeleteFunc(out, func(s RequestStep) bool {
		count[s.Container]--
		return count[s.Container] >= maxSteps
	})
}
