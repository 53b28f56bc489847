// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"podfit.dev/podfit/api/podfit/v1alpha1"
)

// podfit reads these objects in pages. Without bounds, each can have the maximum size of an object, which any client with the right to
// write one can use up.
func TestCRDs_objectsWithStoredState_haveBounds(t *testing.T) {
	for name, counts := range map[string]map[string]int{
		"usagehistories.podfit.dev": {"status.histories": v1alpha1.MaxContainerHistories},
		"updatestates.podfit.dev":   {}, // the records in its status are bounded when they are read, see package checkpoint
	} {
		d, ok := definitions(t)[name]
		if !ok || len(d.Spec.Versions) != 1 {
			t.Fatalf("%s has %d versions, want 1", name, len(d.Spec.Versions))
		}
		fields := map[string]string{}
		describe(fields, "", d.Spec.Versions[0].Schema.OpenAPIV3Schema)
		for _, path := range slices.Sorted(maps.Keys(fields)) {
			facts := strings.Fields(fields[path])
			has := func(fact string) bool {
				return slices.ContainsFunc(facts, func(f string) bool { return strings.HasPrefix(f, fact) })
			}
			switch {
			case path == "apiVersion", path == "kind", has("enum="), has("format=date-time"):
			case has("type=array") && !has("maxItems="), has("type=string") && !has("maxLength="), strings.HasSuffix(path, "{}"):
				t.Errorf("%s: %s has no bound: %s", name, path, fields[path])
			}
			if most, counted := counts[path]; counted && !has(fmt.Sprintf("maxItems=%d", most)) {
				t.Errorf("%s: %s: %s, want maxItems=%d as in the Go constant", name, path, fields[path], most)
			}
			delete(counts, path)
		}
		if len(counts) > 0 {
			t.Errorf("%s: fields without a schema: %v", name, counts)
		}
	}
}
