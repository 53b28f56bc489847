// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package runtimeguard

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"podfit.dev/podfit/internal/core/cluster"
)

// A HeapUsage is what is recorded about the heap of the JVM in one container of some pods: of each value the highest of the pods. A value that
// is not recorded is NaN.
type HeapUsage struct {
	Hours       float64 // with metrics of the heap
	Collected   float64 // bytes in the old generation after its last collection
	Collections float64 // of the old generation in the last day, in the pod with the fewest
	Lowest      float64 // bytes: the lowest use of the heap in an hour, of the hour in which that is the highest
	Ceiling     float64 // bytes: the maximum heap; not above 0 if the JVM has none
	NonHeap     float64 // bytes of metaspace, compiled code and other memory that the JVM measures
	Beside      float64 // bytes: the working set without the heap in use, the lowest of an hour, of the hour in which that is the highest
	GCShare     float64 // share of the time in pauses for collections, in the hour with the highest
}

// The parameters of AdviseHeap.
const (
	HeapHours     = 24   // hours of metrics without which there is no advice
	GCShareTarget = 0.05 // of the time; G1 itself enlarges the heap from 1/13 (7.7 %) on, its default of -XX:GCTimeRatio
	heapMultiple  = 3    // of the live set: the lower end of "three to four times" in Hunt and John, Java Performance (2011), chapter 7
	mostGrowth    = 2    // times the present ceiling
	memoryMargin  = 0.10 // of the heap ceiling and the memory beside the heap
	leastMargin   = 32 << 20
	leastHeap     = 64 << 20
	heapUnit      = 16 << 20 // advised sizes are multiples of it
	mostMemory    = 1 << 50  // larger values are invalid
	smallMemory   = 256 << 20
	smallHeap     = 128 << 20
)

// HeapAdvice are the facts about the heap of a JVM, and the heap and memory that would suffice. Amounts are bytes, 0 if they are not known.
type HeapAdvice struct {
	Live      int64   // used after a collection
	Collected bool    // Live was measured after collections of the old generation. If not, it is the lowest use in an hour, which is at least as high
	Ceiling   int64   // the maximum heap
	Beside    int64   // memory beside the heap: metaspace, compiled code, threads, buffers; at most that much
	GCShare   float64 // NaN if it is not known

	AdvisedCeiling, AdvisedMemory int64

	Lack string // why nothing is advised, as a clause
}

// AdviseHeap returns the smallest heap ceiling that keeps collections below GCShareTarget of the time, and the memory of the container with it.
//
// The time for collections is about in inverse proportion to the heap that is free after a collection: each of them takes a time that depends
// on the live set, and they are as rare as that room is large (Jones, Hosking and Moss, The Garbage Collection Handbook). So the room
// is changed by the measured share / GCShareTarget. A ceiling is never lowered below heapMultiple of the live set, never raised while
// the share is below its target, and raised at most by mostGrowth.
func AdviseHeap(u HeapUsage) HeapAdvice {
	out := HeapAdvice{Live: heapBytes(u.Lowest), Ceiling: heapBytes(u.Ceiling), GCShare: math.NaN()}
	if measured := heapBytes(u.Collected); measured > 0 && u.Collections >= 1 {
		out.Live, out.Collected = measured, true
	}
	if beside := heapBytes(u.Beside); beside > 0 {
		out.Beside = max(beside, heapBytes(u.NonHeap)) // the two metrics of Beside are read at different moments
	}
	if u.GCShare >= 0 {
		out.GCShare = min(u.GCShare, 1) // the pauses of several collectors may overlap
	}
	if out.Lack = out.lack(u.Hours); out.Lack != "" {
		return out
	}
	live, ceiling := float64(out.Live), float64(out.Ceiling)
	wanted := live + (ceiling-live)*out.GCShare/GCShareTarget
	if out.GCShare <= GCShareTarget {
		wanted = min(max(wanted, heapMultiple*live, leastHeap), ceiling)
	}
	out.AdvisedCeiling = rounded(min(wanted, mostGrowth*ceiling))
	if out.GCShare <= GCShareTarget && float64(out.AdvisedCeiling) > 0.9*ceiling {
		out.AdvisedCeiling = out.Ceiling // a small difference is no reason to change it
	}
	needed := float64(out.AdvisedCeiling + out.Beside)
	out.AdvisedMemory = rounded(needed + max(memoryMargin*needed, leastMargin))
	return out
}

// heapBytes returns a valid amount above zero, else 0.
func heapBytes(v float64) int64 {
	if v >= 1 && v <= mostMemory {
		return int64(v)
	}
	return 0
}

func rounded(v float64) int64 { return int64(math.Ceil(v/heapUnit)) * heapUnit }

// lack returns why there is no advice, "" if there is.
func (a *HeapAdvice) lack(hours float64) string {
	if !(hours > 0) {
		return "no metrics of its heap are recorded"
	}
	var parts []string
	add := func(missing bool, part string) {
		if missing {
			parts = append(parts, part)
		}
	}
	add(a.Live == 0, "the heap in use")
	add(a.Ceiling == 0, "the maximum heap")
	add(a.Beside == 0, "the working set together with the heap in use")
	add(math.IsNaN(a.GCShare), "the time of collections")
	switch {
	case len(parts) > 0:
		return "not recorded: " + strings.Join(parts, ", ")
	case hours < HeapHours:
		return fmt.Sprintf("metrics of its heap are recorded for %.0f h, and %d h are needed", hours, HeapHours)
	case a.Live >= a.Ceiling:
		return "the heap in use is recorded as not below the maximum heap"
	}
	return ""
}

// HeapOption returns the option of a JVM that sets the advised ceiling, "" without advice: a percentage of the advised memory if the container
// has a memory limit, unless its options set a size in bytes. A JVM ignores the percentage for a heap below 126 MiB, or a limit below 252 MiB.
func HeapOption(a *HeapAdvice, r *cluster.Runtime, limited bool) string {
	switch {
	case a.AdvisedCeiling == 0:
		return ""
	case !limited || r != nil && r.HeapBytes > 0 || a.AdvisedMemory < smallMemory || a.AdvisedCeiling < smallHeap:
		return fmt.Sprintf("-Xmx%dm", a.AdvisedCeiling>>20)
	}
	return HeapPercentOption(math.Floor(float64(a.AdvisedCeiling)*1000/float64(a.AdvisedMemory)) / 10)
}

// HeapPercentFlag is the option of a JVM that sets its heap to a percentage of the memory limit, before the number.
const HeapPercentFlag = "-XX:MaxRAMPercentage="

// HeapPercentOption returns HeapPercentFlag with a number that has a decimal, which Java 8 requires.
func HeapPercentOption(percent float64) string {
	return HeapPercentFlag + strconv.FormatFloat(percent, 'f', 1, 64)
}
