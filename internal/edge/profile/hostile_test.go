// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"runtime"
	"strings"
	"testing"
)

// A profile can be as large as etcd takes it. These are read in every pass of the recommender that finds them changed.
func TestParse_worstProfiles_takeBoundedMemory(t *testing.T) {
	const size = 1_500_000
	fill := func(before, unit, after string) string {
		return before + strings.Repeat(unit, (size-len(before)-len(after))/len(unit)) + after
	}
	const head = `{"apiVersion":"podfit.dev/v1alpha1","kind":"SizingProfile","metadata":{"name":"p"`
	for name, text := range map[string]string{
		"annotation":    fill(head+`,"annotations":{"a":"`, `x`, `"}},"spec":{}}`),
		"unknown field": fill(head+`},"spec":{"`, `x`, `":1}}`),
		"base":          fill(head+`},"spec":{"base":"`, `x`, `"}}`),
		"depth":         fill(head+`},"spec":`, `[`, `}`),
		"name":          fill(`{"apiVersion":"podfit.dev/v1alpha1","kind":"SizingProfile","metadata":{"name":"`, `x`, `"},"spec":{}}`),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = Parse([]byte(text))
		runtime.ReadMemStats(&after)
		if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 100 {
			t.Errorf("%s: %d MiB are allocated", name, took)
		}
	}
}

func TestSlip_nameOfAMegabyte_isNoSlip(t *testing.T) {
	if got := Slip(strings.Repeat("balanced", 1<<17), []string{"balanced", strings.Repeat("x", 1<<20)}); got != "" {
		t.Errorf("taken for %q", got)
	}
}
