// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"testing"
)

func TestHeapLimit_environment_isNineTenthsOfContainerLimit(t *testing.T) {
	for name, c := range map[string]struct {
		environment map[string]string
		want        int64
		refused     bool
	}{
		"500Mi":             {map[string]string{MemoryLimitVariable: "524288000"}, 471859200, false},
		"16Mi":              {map[string]string{MemoryLimitVariable: "16777216"}, 15099495, false},
		"in Mi, not bytes":  {map[string]string{MemoryLimitVariable: "256"}, 0, true},
		"not known":         {nil, 0, false},
		"GOMEMLIMIT is set": {map[string]string{MemoryLimitVariable: "524288000", "GOMEMLIMIT": "100MiB"}, 0, false},
		"no number":         {map[string]string{MemoryLimitVariable: "500Mi"}, 0, true},
		"zero":              {map[string]string{MemoryLimitVariable: "0"}, 0, true},
	} {
		got, err := heapLimit(func(name string) string { return c.environment[name] })
		if got != c.want || (err != nil) != c.refused {
			t.Errorf("%s: %d, error %v; want %d, refused %t", name, got, err, c.want, c.refused)
		}
	}
}
