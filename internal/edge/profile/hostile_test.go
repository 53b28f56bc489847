// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"runtime"
	"strings"
	"testing"
)

// An object can have up to 1.5 MB, the limit of etcd. The recommender parses a profile each time it changes.
func TestParse_profilesOfMaximumSize_takeBoundedMemory(t *testing.T) {
	const size = 1_500_000
	fill := func(before, unit, after string) string {
		return before + strings.Repeat(unit, (size-len(before)-len(after))/len(unit)) + after
	}
	const head = `{"apiVersion":"podfit.dev/v1alpha1","kind":"SizingProfile","metadata":{"name":"p"`
	for name, text := range map[string]string{
		"annotation":    fill(head+`,"annotations":{"a":"`, `x`, `"}},"spec":{}}`),
		"unknown field": fill(head+`},"spec":{"`, `x`, `":1}}`),
		"base":          fill(head+`},"spec":{"base":"`, `x`, `"}}`),
		"nested lists":  fill(head+`},"spec":`, `[`, `}`),
		"name":          fill(`{"apiVersion":"podfit.dev/v1alpha1","kind":"SizingProfile","metadata":{"name":"`, `x`, `"},"spec":{}}`),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = Parse([]byte(text))
		runtime.ReadMemStats(&after)
		if mebibytes := (after.TotalAlloc - before.TotalAlloc) >> 20; mebibytes > 100 {
			t.Errorf("%s: allocated %d MiB, want at most 100", name, mebibytes)
		}
	}
}
