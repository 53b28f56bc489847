// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/wording"
)

// The annotations.
const (
	AnnotationTolerance = "podfit.dev/eviction-tolerance"    // overrides --eviction-tolerance
	AnnotationMinChange = "podfit.dev/min-change"            // overrides --pod-update-threshold
	AnnotationDelay     = "podfit.dev/initial-delay"         // how long after the first recommendation no running pod is changed
	AnnotationMaxStep   = "podfit.dev/max-step"              // how far a recommendation may be from the requests of the running pods
	AnnotationPerCPU    = "podfit.dev/memory-per-cpu"        // the memory for each core that the recommendations of a pod have together
	AnnotationIgnore    = "podfit.dev/ignore-do-not-disrupt" // which changes disregard the annotations of pods that forbid to evict them
)

// settings are the annotations of an autoscaler that override a flag or set a limit.
var settings = []struct {
	annotation string
	must       string                                       // what the value must be
	parse      func(text string, to *cluster.Settings) bool // sets the value, and reports whether the text is valid
}{
	{AnnotationTolerance, "a number from 0 to 1, such as 0.25", func(text string, to *cluster.Settings) bool {
		return fraction(text, 1, &to.EvictionTolerance)
	}},
	{AnnotationMinChange, "a percentage from 0% to 1000%, such as 15%", func(text string, to *cluster.Settings) bool {
		number, ok := strings.CutSuffix(text, "%")
		ok = ok && fraction(number, 1000, &to.MinChange)
		to.MinChange.Value /= 100
		return ok
	}},
	{AnnotationDelay, "a duration from 0s to 8760h, such as 24h", func(text string, to *cluster.Settings) bool {
		d, err := time.ParseDuration(text)
		to.InitialDelay = cluster.Setting[time.Duration]{Value: d, Set: err == nil && d >= 0 && d <= 365*24*time.Hour}
		return to.InitialDelay.Set
	}},
	{AnnotationMaxStep, "none, or a list of a percentage from 1% to 1000%, cpu of at least 1m, and memory of at least 1Mi, such as 50%,memory=1Gi",
		func(text string, to *cluster.Settings) bool {
			to.MaxStep.Value, to.MaxStep.Set = maxStep(text)
			return to.MaxStep.Set
		}},
	{AnnotationPerCPU, "none, or the least and the most memory for each core, from 1Mi to 1Ti, one of which may be missing, such as 2Gi-8Gi, 2Gi- or -8Gi",
		func(text string, to *cluster.Settings) bool {
			to.MemoryPerCPU.Value, to.MemoryPerCPU.Set = memoryPerCPU(text)
			return to.MemoryPerCPU.Set
		}},
	{AnnotationIgnore, "none, rescue or always", func(text string, to *cluster.Settings) bool {
		to.IgnoreProtection = text
		return text == "none" || text == "rescue" || text == "always"
	}},
}

// An InvalidSetting is an annotation with an invalid value, shortened, and what it must be.
type InvalidSetting struct{ Annotation, Value, Must string }

// ParseSettings returns the settings in annotations. Invalid ones are not set.
func ParseSettings(annotations map[string]string) (out cluster.Settings, invalid []InvalidSetting) {
	for _, s := range settings {
		text, set := annotations[s.annotation]
		next := out
		if !set || s.parse(strings.TrimSpace(text), &next) {
			out = next
			continue
		}
		i := InvalidSetting{s.annotation, wording.Shortened(wording.OneLine(text), 80), "must be " + s.must}
		invalid = append(invalid, i)
		out.SettingProblem += fmt.Sprintf("; annotation %s %s, got %q; it has no effect", i.Annotation, i.Must, i.Value)
	}
	out.SettingProblem = strings.TrimPrefix(out.SettingProblem, "; ")
	return out, invalid
}

// fraction parses a number from 0 to most.
func fraction(text string, most float64, to *cluster.Setting[float64]) bool {
	f, err := strconv.ParseFloat(text, 64)
	*to = cluster.Setting[float64]{Value: f, Set: err == nil && f >= 0 && f <= most}
	return to.Set
}

// none is the value that removes a limit which the namespace sets.
const none = "none"

// maxStep parses limits of a step, each at most once: "50%", "cpu=500m,memory=1Gi".
func maxStep(text string) (out cluster.MaxStep, ok bool) {
	if text == none {
		return out, true
	}
	if strings.Count(text, ",") > 2 {
		return out, false
	}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if number, isPercent := strings.CutSuffix(part, "%"); isPercent {
			percent, err := strconv.ParseUint(number, 10, 16)
			if err != nil || percent < 1 || percent > 1000 || out.Percent > 0 {
				return cluster.MaxStep{}, false
			}
			out.Percent = int64(percent)
			continue
		}
		name, amount, _ := strings.Cut(part, "=")
		res, known := cluster.ParseResource(name)
		v, err := cluster.ParseAmount(res, amount)
		if !known || err != nil || v < leastSteps.Amount(res) || out.Amount.Has.Has(res) {
			return cluster.MaxStep{}, false
		}
		out.Amount = out.Amount.Set(res, v)
	}
	return out, true
}

// leastSteps are the smallest steps: with smaller ones, a change would take thousands of them.
var leastSteps = cluster.Amounts(1, 1<<20)

// memoryPerCPU parses a range of the memory for each core: "2Gi-8Gi", "2Gi-", "-8Gi".
func memoryPerCPU(text string) (out cluster.MemoryPerCPU, ok bool) {
	if text == none {
		return out, true
	}
	least, most, ok := strings.Cut(text, "-")
	ok = ok && text != "-" && perCore(least, &out.Least) && perCore(most, &out.Most)
	return out, ok && (out.Most == 0 || out.Least <= out.Most)
}

// perCore parses an end of the range, which may be missing.
func perCore(text string, to *int64) bool {
	if text == "" {
		return true
	}
	v, err := cluster.ParseAmount(cluster.Memory, strings.TrimSpace(text))
	*to = v
	return err == nil && v >= 1<<20 && v <= 1<<40
}
