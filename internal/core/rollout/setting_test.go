// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

func TestParseSettings_anyValue_isSetOrReported(t *testing.T) {
	some := func(f float64) cluster.Setting[float64] { return cluster.Setting[float64]{Value: f, Set: true} }
	for _, c := range []struct {
		annotation, text string
		valid            bool
		want             cluster.Settings
	}{
		{AnnotationContinues, "web-v1.2", true, cluster.Settings{Continues: "web-v1.2"}},
		{AnnotationContinues, "Web", false, cluster.Settings{}},
		{AnnotationContinues, "a/b", false, cluster.Settings{}},
		{AnnotationContinues, strings.Repeat("a", 64) + "." + strings.Repeat("b", 64), true, cluster.Settings{Continues: strings.Repeat("a", 64) + "." + strings.Repeat("b", 64)}},
		{AnnotationTolerance, " 0.25 ", true, cluster.Settings{EvictionTolerance: some(0.25)}},
		{AnnotationTolerance, "0", true, cluster.Settings{EvictionTolerance: some(0)}},
		{AnnotationTolerance, "1", true, cluster.Settings{EvictionTolerance: some(1)}},
		{AnnotationTolerance, "1.01", false, cluster.Settings{}},
		{AnnotationTolerance, "-0.1", false, cluster.Settings{}},
		{AnnotationTolerance, "NaN", false, cluster.Settings{}},
		{AnnotationTolerance, "25%", false, cluster.Settings{}},
		{AnnotationTolerance, "", false, cluster.Settings{}},
		{AnnotationMinChange, "15%", true, cluster.Settings{MinChange: some(0.15)}},
		{AnnotationMinChange, "0%", true, cluster.Settings{MinChange: some(0)}},
		{AnnotationMinChange, "0.15", false, cluster.Settings{}},
		{AnnotationMinChange, "1001%", false, cluster.Settings{}},
		{AnnotationMinChange, "%", false, cluster.Settings{}},
		{AnnotationDelay, "36h", true, cluster.Settings{InitialDelay: cluster.Setting[time.Duration]{Value: 36 * time.Hour, Set: true}}},
		{AnnotationDelay, "0s", true, cluster.Settings{InitialDelay: cluster.Setting[time.Duration]{Set: true}}},
		{AnnotationDelay, "-1h", false, cluster.Settings{}},
		{AnnotationDelay, "8761h", false, cluster.Settings{}},
		{AnnotationDelay, "1d", false, cluster.Settings{}},
		{AnnotationIgnore, " rescue", true, cluster.Settings{IgnoreProtection: "rescue"}},
		{AnnotationIgnore, "always", true, cluster.Settings{IgnoreProtection: "always"}},
		{AnnotationIgnore, "true", false, cluster.Settings{}},
		{AnnotationMaxStep, "50%", true, stepOf(50, cluster.Resources{})},
		{AnnotationMaxStep, "cpu=500m, memory=1Gi", true, stepOf(0, cluster.Amounts(500, 1<<30))},
		{AnnotationMaxStep, "1000%,memory=1Mi", true, stepOf(1000, cluster.Resources{}.Set(cluster.Memory, 1<<20))},
		{AnnotationMaxStep, "none", true, stepOf(0, cluster.Resources{})},
		{AnnotationMaxStep, "", false, cluster.Settings{}},
		{AnnotationMaxStep, "0%", false, cluster.Settings{}},
		{AnnotationMaxStep, "1001%", false, cluster.Settings{}},
		{AnnotationMaxStep, "-50%", false, cluster.Settings{}},
		{AnnotationMaxStep, "12.5%", false, cluster.Settings{}},
		{AnnotationMaxStep, "NaN%", false, cluster.Settings{}},
		{AnnotationMaxStep, "1e-999999999%", false, cluster.Settings{}},
		{AnnotationMaxStep, "cpu=1e-999999999", false, cluster.Settings{}},
		{AnnotationMaxStep, "cpu=0", false, cluster.Settings{}},
		{AnnotationMaxStep, "cpu=-1", false, cluster.Settings{}},
		{AnnotationMaxStep, "cpu=NaN", false, cluster.Settings{}},
		{AnnotationMaxStep, "memory=1023Ki", false, cluster.Settings{}},
		{AnnotationMaxStep, "memory=99999999Pi", false, cluster.Settings{}},
		{AnnotationMaxStep, "1Gi", false, cluster.Settings{}},
		{AnnotationMaxStep, "gpu=1", false, cluster.Settings{}},
		{AnnotationMaxStep, "50%,60%", false, cluster.Settings{}},
		{AnnotationMaxStep, "cpu=1,cpu=2", false, cluster.Settings{}},
		{AnnotationMaxStep, "50%,", false, cluster.Settings{}},
		{AnnotationMaxStep, "50%=1", false, cluster.Settings{}},
		{AnnotationPerCPU, "2Gi-8Gi", true, perCPUOf(2<<30, 8<<30)},
		{AnnotationPerCPU, "2Gi - 2Gi", true, perCPUOf(2<<30, 2<<30)},
		{AnnotationPerCPU, "2Gi-", true, perCPUOf(2<<30, 0)},
		{AnnotationPerCPU, "-8Gi", true, perCPUOf(0, 8<<30)},
		{AnnotationPerCPU, "none", true, perCPUOf(0, 0)},
		{AnnotationPerCPU, "", false, cluster.Settings{}},
		{AnnotationPerCPU, "-", false, cluster.Settings{}},
		{AnnotationPerCPU, "0-0", false, cluster.Settings{}},
		{AnnotationPerCPU, "4Gi", false, cluster.Settings{}},
		{AnnotationPerCPU, "8Gi-2Gi", false, cluster.Settings{}},
		{AnnotationPerCPU, "2-8", false, cluster.Settings{}},
		{AnnotationPerCPU, "1Gi-2Gi-3Gi", false, cluster.Settings{}},
		{AnnotationPerCPU, "NaN-8Gi", false, cluster.Settings{}},
		{AnnotationPerCPU, "1e-999999999", false, cluster.Settings{}},
		{AnnotationPerCPU, "2Gi-99999999Pi", false, cluster.Settings{}},
		{"podfit.dev/unknown", "", true, cluster.Settings{}},
	} {
		got, invalid := ParseSettings(map[string]string{c.annotation: c.text})
		if (got.SettingProblem == "") != c.valid {
			t.Errorf("%s %q: problem %q", c.annotation, c.text, got.SettingProblem)
		}
		got.SettingProblem = ""
		if got != c.want || (len(invalid) == 0) != c.valid || !c.valid && (invalid[0].Annotation != c.annotation || invalid[0].Value != c.text) {
			t.Errorf("%s %q: %+v, invalid %+v", c.annotation, c.text, got, invalid)
		}
	}
}

func stepOf(percent int64, amount cluster.Resources) cluster.Settings {
	return cluster.Settings{MaxStep: cluster.Setting[cluster.MaxStep]{Value: cluster.MaxStep{Percent: percent, Amount: amount}, Set: true}}
}

func perCPUOf(least, most int64) cluster.Settings {
	return cluster.Settings{MemoryPerCPU: cluster.Setting[cluster.MemoryPerCPU]{Value: cluster.MemoryPerCPU{Least: least, Most: most}, Set: true}}
}

func TestParseSettings_hugeText_isReportedInShort(t *testing.T) {
	for _, annotation := range []string{AnnotationMaxStep, AnnotationPerCPU} {
		for _, text := range []string{strings.Repeat("9", 1<<18), strings.Repeat("50%,", 1<<16), strings.Repeat("memory=1Gi-", 1<<14)} {
			_, invalid := ParseSettings(map[string]string{annotation: text})
			if len(invalid) != 1 || len(invalid[0].Value) > 100 {
				t.Errorf("%s of %d bytes: %d are invalid", annotation, len(text), len(invalid))
			}
		}
	}
}
