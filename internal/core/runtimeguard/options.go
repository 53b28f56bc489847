// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package runtimeguard

import (
	"iter"
	"math"
	"strconv"
	"strings"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/integer"
)

// The variables that contain options of a JVM. The JVM reads the first one before the command line and the last one after it. The launcher
// java puts JDK_JAVA_OPTIONS before its arguments. Scripts that start a JVM by convention add the others to the command line.
const (
	variableToolOptions     = "JAVA_TOOL_OPTIONS"
	variableLauncherOptions = "JDK_JAVA_OPTIONS"
	variableLastOptions     = "_JAVA_OPTIONS"
)

var scriptVariables = [...]string{"JAVA_OPTS", "JAVA_OPTIONS", "CATALINA_OPTS"}

// readOptions reads the options of a JVM in the order in which they apply. A later option overrides an earlier one.
func (c *Container) readOptions(r *cluster.Runtime) {
	variable := func(name string) {
		value := ""
		for _, v := range c.Variables {
			if v.Name == name {
				value = v.Value // the kubelet uses the last one with a name
			}
		}
		readText(cut(value), r)
	}
	variable(variableToolOptions)
	variable(variableLauncherOptions)
	for _, name := range scriptVariables {
		variable(name)
	}
	for _, word := range c.Words {
		readText(cut(word), r)
	}
	variable(variableLastOptions)
}

func readText(text string, r *cluster.Runtime) {
	for token := range tokens(text) {
		readOption(strings.Trim(token, `"'();`), r)
	}
}

// readOption reads an option about the heap or the number of processors. It ignores values that a JVM would refuse.
func readOption(option string, r *cluster.Runtime) {
	name, value, _ := strings.Cut(option, "=")
	switch {
	case name == "-XX:ActiveProcessorCount":
		n, err := strconv.ParseInt(value, 10, 32)
		r.CPUCountSet = err == nil && n > 0
	case name == "-XX:MaxRAMPercentage":
		if v, err := strconv.ParseFloat(value, 32); err == nil && v > 0 && v <= 100 {
			r.HeapPercent = float32(v)
		}
	case name == "-XX:MaxHeapSize":
		setHeap(value, r)
	case strings.HasPrefix(option, "-Xmx"):
		setHeap(strings.TrimPrefix(option, "-Xmx"), r)
	}
}

func setHeap(size string, r *cluster.Runtime) {
	if n, ok := bytesOf(size); ok {
		r.HeapBytes = n
	}
}

// bytesOf parses a size as a JVM does: a number, and one of the units k, m, g and t, which are powers of 1024.
func bytesOf(size string) (int64, bool) {
	if size == "" {
		return 0, false
	}
	shift := 10 * (strings.IndexByte("kmgt", size[len(size)-1]|0x20) + 1)
	if shift > 0 {
		size = size[:len(size)-1]
	}
	n, err := strconv.ParseInt(size, 10, 64)
	if err != nil || n <= 0 || n > math.MaxInt64>>shift {
		return 0, false
	}
	return n << shift, true
}

// tokens returns the parts of a text between white space, at most mostTokens.
func tokens(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		n := 0
		for token := range strings.FieldsSeq(text) {
			if n++; n > mostTokens || !yield(token) {
				return
			}
		}
	}
}

// Heap returns the largest heap of a JVM in bytes, and false if its options do not set one. The limit is the memory limit of the container
// in bytes, 0 without one; -Xmx does not depend on it.
func Heap(r *cluster.Runtime, limit int64) (int64, bool) {
	switch {
	case r == nil || r.Kind != cluster.JVM:
		return 0, false
	case r.HeapBytes > 0:
		return r.HeapBytes, true
	case r.HeapPercent > 0 && limit > 0:
		share, _ := integer.ScaledUp(limit, int64(math.Ceil(float64(r.HeapPercent)*10_000)), 1_000_000)
		return min(share, limit), true
	}
	return 0, false
}

// CPUCountValue returns the value of VariableOf for a CPU request in millicores.
func CPUCountValue(kind cluster.RuntimeKind, millicores int64) string {
	count := strconv.FormatInt(Processors(millicores), 10)
	if kind == cluster.JVM {
		return "-XX:ActiveProcessorCount=" + count
	}
	return count
}

// A Range is a range of CPU requests in millicores, both ends included.
type Range struct{ From, To int64 }

// bands are the ranges of CPU requests that a JVM may take for "no request was set", ascending. A test of the module test/admission derives
// them from the conversions of requests into CPU shares and weights.
var bands = [...]Range{
	{989, 1000},  // cgroup v1: 1000; cgroup v2 with the quadratic conversion: all
	{2538, 2562}, // cgroup v2 with the linear conversion
}

// Band returns the range of bands that contains a CPU request in millicores, and whether there is one.
func Band(millicores int64) (Range, bool) {
	for _, b := range bands {
		if millicores >= b.From && millicores <= b.To {
			return b, true
		}
	}
	return Range{}, false
}

// Processors returns the number of processors for a CPU request in millicores: whole cores, rounded up, at least 1.
func Processors(millicores int64) int64 {
	return max(millicores/1000+min(max(millicores%1000, 0), 1), 1)
}
