// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"regexp"
	"slices"
	"testing"
)

func TestMetricTables_entries_areWellFormed(t *testing.T) {
	name := regexp.MustCompile(`^vpa_(recommender|quality|resources|updater|admission_controller)_[a-z0-9_]+$`)
	seen := map[string]bool{}
	for _, m := range slices.Concat(RecommenderMetrics(), UpdaterMetrics(), AdmissionMetrics()) {
		if !name.MatchString(m.Name) || seen[m.Name] {
			t.Errorf("%s: the name is not one of upstream, or is listed twice", m.Name)
		}
		seen[m.Name] = true
		if histogram := m.Type == "histogram"; histogram != (m.Buckets != nil) || !slices.IsSorted(m.Buckets) {
			t.Errorf("%s: type %s has the buckets %v", m.Name, m.Type, m.Buckets)
		}
		if !slices.Contains([]string{"counter", "gauge", "histogram"}, m.Type) {
			t.Errorf("%s: unknown type %q", m.Name, m.Type)
		}
	}
	if len(seen) != 34 {
		t.Errorf("the tables have %d metrics, upstream has 34", len(seen))
	}
}

func TestFlagTables_entries_areWellFormed(t *testing.T) {
	for command, want := range map[string]struct {
		flags []Flag
		count int
	}{
		"recommender":          {RecommenderFlags(), 83},
		"updater":              {UpdaterFlags(), 44},
		"admission-controller": {AdmissionFlags(), 42},
	} {
		if len(want.flags) != want.count {
			t.Errorf("%s: %d flags, upstream has %d", command, len(want.flags), want.count)
		}
		for i, f := range want.flags {
			if i > 0 && want.flags[i-1].Name >= f.Name {
				t.Errorf("%s: the table is not sorted: --%s comes after --%s", command, f.Name, want.flags[i-1].Name)
			}
			if f.Type == "" {
				t.Errorf("%s: --%s has no type", command, f.Name)
			}
			if f.Type == "bool" && f.Default != "false" && f.Default != "true" {
				t.Errorf("%s: --%s is a bool with the default %q", command, f.Name, f.Default)
			}
		}
	}
}
