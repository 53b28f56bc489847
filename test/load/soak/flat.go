// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"podfit.dev/podfit/test/e2e/invariant"
	"podfit.dev/podfit/test/load/fleet"
)

// A Sample is what podfit uses at the end of a day, when nothing has changed for some seconds.
type Sample struct {
	Day     int
	At      time.Time
	Process int // counts the starts of podfit

	fleet.Count

	Heap       float64 // MiB that were live at the last garbage collection
	HeapInUse  float64 // MiB
	Resident   float64 // MiB
	Goroutines int
	Series     int // in /metrics, without those of deleted VPAs

	SeriesOfDeleted int // podfit serves them for 15 minutes, so that scrapers get their last values
	OverdueSeries   int // of them, those of VPAs that were deleted earlier

	Remembered int // usage histories in memory: podfit keeps those of deleted workloads for at least 24 hours, which is many days of a soak

	Checkpoints, Histories, UpdateStates int
	Events                               int // of the last day

	SeriesOf map[string]int // by metric
}

// perHistory returns an amount of memory in KiB per usage history in memory.
func (s Sample) perHistory(mebibytes float64) float64 {
	return mebibytes * 1024 / float64(max(1, s.Remembered))
}

// A Measure is a value of a sample that must not grow.
type Measure struct {
	Name    string
	Value   func(Sample) float64
	slack   float64              // that much more is no growth
	most    func(Sample) float64 // what the live workloads may have: less than that is no growth. podfit stores the objects of new workloads over time
	process bool                 // it begins anew when podfit is started
}

// Growth is how much more the last day may need than the second one.
const Growth = 1.1

const series = "series"

// Measures are all measures. The slack is what the time of a sample within a pass makes out.
var Measures = []Measure{
	{Name: "live heap (KiB per usage history)", Value: func(s Sample) float64 { return s.perHistory(s.Heap) }, slack: 2, process: true},
	{Name: "resident memory (KiB per usage history)", Value: func(s Sample) float64 { return s.perHistory(s.Resident) }, slack: 8, process: true},
	{Name: "usage histories", Value: func(s Sample) float64 { return float64(s.Remembered) }, slack: 5, process: true, most: func(s Sample) float64 { return float64(s.Created) }},
	{Name: "goroutines", Value: func(s Sample) float64 { return float64(s.Goroutines) }, slack: 15, process: true},
	{Name: series, Value: func(s Sample) float64 { return float64(s.Series) }, slack: 30, process: true},
	{Name: "overdue series", Value: func(s Sample) float64 { return float64(s.OverdueSeries) }},
	{Name: "checkpoints", Value: func(s Sample) float64 { return float64(s.Checkpoints) }, slack: 5, most: func(s Sample) float64 { return float64(s.Containers) }},
	{Name: "UsageHistories", Value: func(s Sample) float64 { return float64(s.Histories) }, slack: 5, most: func(s Sample) float64 { return float64(s.Profiled) }},
	{Name: "UpdateStates", Value: func(s Sample) float64 { return float64(s.UpdateStates) }, slack: 5, most: func(s Sample) float64 { return float64(s.Workloads) }},
	{Name: "Events", Value: func(s Sample) float64 { return float64(s.Events) }, slack: 50},
}

// A Comparison is a measure on two days.
type Comparison struct {
	Measure     string
	Of          string // "the run", or "the last process"
	First, Last int    // days
	From, To    float64
	Grows       bool
}

// settled is over how many days the least of a value counts: how much memory a process uses depends on when its last garbage collection was.
const settled = 3

// Compare compares the second day with the last one of the run, and of the last process if it ran for at least five days. Of values that belong to a process,
// the least of the first three days from the second on counts, and of the last three days.
func Compare(samples []Sample) []Comparison {
	out := compare("the run", samples, func(Measure) bool { return true })
	var last []Sample
	for _, s := range samples {
		if s.Process == samples[len(samples)-1].Process {
			last = append(last, s)
		}
	}
	if len(last) >= 5 && len(last) < len(samples) {
		out = append(out, compare("the last process", last, func(m Measure) bool { return m.process })...)
	}
	return out
}

func compare(of string, samples []Sample, applies func(Measure) bool) (out []Comparison) {
	if len(samples) < 3 {
		return nil
	}
	first, last := samples[1], samples[len(samples)-1]
	for _, m := range Measures {
		if !applies(m) {
			continue
		}
		c := Comparison{Measure: m.Name, Of: of, First: first.Day, Last: last.Day, From: m.Value(first), To: m.Value(last)}
		if m.process && len(samples) > 2*settled {
			c.From, c.To = m.least(samples[1:1+settled]), m.least(samples[len(samples)-settled:])
		}
		c.Grows = c.To > c.From*Growth && c.To > c.From+m.slack && (m.most == nil || c.To > m.most(last)*Growth+m.slack)
		out = append(out, c)
	}
	return out
}

// least returns the least value of some days.
func (m *Measure) least(samples []Sample) float64 {
	out := m.Value(samples[0])
	for _, s := range samples {
		out = min(out, m.Value(s))
	}
	return out
}

// Grown returns a violation for each measure that grows.
func Grown(samples []Sample) (out []invariant.Violation) {
	if len(samples) == 0 {
		return nil
	}
	last := samples[len(samples)-1]
	for _, c := range Compare(samples) {
		if c.Grows {
			v := invariant.Violation{
				Rule: Flat, At: last.At, Object: c.Measure, Times: 1,
				Text: fmt.Sprintf("day %d has %.1f, day %d has %.1f: more than %.1f times as much (%s)", c.First, c.From, c.Last, c.To, Growth, c.Of),
			}
			if c.Measure == series {
				v.Evidence = moreSeries(samples, c.First)
			}
			out = append(out, v)
		}
	}
	if len(samples) > 1 && samples[1].Workloads != last.Workloads {
		out = append(out, invariant.Violation{
			Rule: Flat, At: last.At, Object: "workloads", Times: 1,
			Text: fmt.Sprintf("day %d has %d workloads, day %d has %d: they cannot be compared", samples[1].Day, samples[1].Workloads, last.Day, last.Workloads),
		})
	}
	return out
}

// moreSeries returns the metrics that have more series on the last day than on another one.
func moreSeries(samples []Sample, day int) (out []string) {
	last := samples[len(samples)-1]
	first := samples[slices.IndexFunc(samples, func(s Sample) bool { return s.Day == day })]
	for _, metric := range slices.Sorted(maps.Keys(last.SeriesOf)) {
		if from, to := first.SeriesOf[metric], last.SeriesOf[metric]; to > from {
			out = append(out, fmt.Sprintf("%s: %d series, then %d", metric, from, to))
		}
	}
	return out
}
