// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"fmt"
	"regexp"
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
	AnnotationContinues = "podfit.dev/continues"             // the former name of the target, whose usage history it continues
	AnnotationRoleLabel = "podfit.dev/role-label"            // the label of pods by whose values they are sized apart
	AnnotationFollowers = "podfit.dev/followers"             // whether pods of another role get memory of their own size, too
)

var (
	objectName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)
	labelName  = regexp.MustCompile(`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
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
	{AnnotationMaxStep, "none, or a list of a percentage from 1% to 1000%, cpu of at least 1m and memory of at least 1Mi, such as 50%,memory=1Gi", maxStep},
	{AnnotationPerCPU, "none, or the least and the most memory for each core, one of which may be missing, such as 2Gi-8Gi, 2Gi- or -8Gi", memoryPerCPU},
	{AnnotationIgnore, "none, rescue or always", func(text string, to *cluster.Settings) bool {
		to.IgnoreProtection = text
		return text == "none" || text == "rescue" || text == "always"
	}},
	{AnnotationContinues, "the former name of the target: lower-case letters, digits, '-' and '.', at most 253", func(text string, to *cluster.Settings) bool {
		to.Continues = text
		return objectName.MatchString(text) && len(text) <= 253
	}},
	{AnnotationRoleLabel, "none, " + cluster.UsageLevel + ", or the name of a label of the pods, such as role or " + cluster.PodIndex, func(text string, to *cluster.Settings) bool {
		to.RoleLabel = text
		return labelName.MatchString(text) && len(text) <= 317
	}},
	{AnnotationFollowers, "same or own", func(text string, to *cluster.Settings) bool {
		to.Followers = text
		return text == "same" || text == "own"
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

// maxStep parses limits of a step, such as "50%,cpu=500m,memory=1Gi". "none" replaces those of a namespace.
func maxStep(text string, to *cluster.Settings) bool {
	s := &to.MaxStep
	s.Set = true
	if text == "none" {
		return true
	}
	for part := range strings.SplitSeq(text, ",") {
		name, amount, isAmount := strings.Cut(strings.TrimSpace(part), "=")
		number, isPercent := strings.CutSuffix(name, "%")
		if isPercent && !isAmount {
			percent, err := strconv.ParseUint(number, 10, 16)
			s.Set = s.Set && err == nil && percent >= 1 && percent <= 1000 && s.Value.Percent == 0
			s.Value.Percent = int64(percent)
			continue
		}
		res, known := cluster.ParseResource(name)
		v, err := cluster.ParseAmount(res, amount)
		s.Set = s.Set && known && err == nil && v >= cluster.Amounts(1, 1<<20).Amount(res) && !s.Value.Amount.Has.Has(res)
		s.Value.Amount = s.Value.Amount.Set(res, v)
	}
	return s.Set
}

// memoryPerCPU parses a range of the memory for each core: "2Gi-8Gi", "2Gi-", "-8Gi". "none" replaces that of a namespace.
func memoryPerCPU(text string, to *cluster.Settings) bool {
	least, most, found := strings.Cut(text, "-")
	low, lowErr := cluster.ParseAmount(cluster.Memory, cmp.Or(strings.TrimSpace(least), "0"))
	high, highErr := cluster.ParseAmount(cluster.Memory, cmp.Or(strings.TrimSpace(most), "0"))
	valid := found && lowErr == nil && highErr == nil && max(low, high) >= 1<<20 && (high == 0 || low <= high)
	to.MemoryPerCPU = cluster.Setting[cluster.MemoryPerCPU]{Value: cluster.MemoryPerCPU{Least: low, Most: high}, Set: valid || text == "none"}
	return to.MemoryPerCPU.Set
}
