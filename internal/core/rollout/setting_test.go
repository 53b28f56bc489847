// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
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
