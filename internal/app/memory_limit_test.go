// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"io"
	"math"
	"path/filepath"
	"runtime/debug"
	"testing"
)

func TestHeapLimit_environment_isNineTenthsOfTheContainersLimit(t *testing.T) {
	for name, c := range map[string]struct {
		environment map[string]string
		want        int64
		refused     bool
	}{
		"500Mi":             {map[string]string{memoryLimitVariable: "524288000"}, 471859200, false},
		"a byte":            {map[string]string{memoryLimitVariable: "1"}, 1, false},
		"not known":         {nil, 0, false},
		"GOMEMLIMIT is set": {map[string]string{memoryLimitVariable: "524288000", "GOMEMLIMIT": "100MiB"}, 0, false},
		"no number":         {map[string]string{memoryLimitVariable: "500Mi"}, 0, true},
		"zero":              {map[string]string{memoryLimitVariable: "0"}, 0, true},
	} {
		got, err := heapLimit(func(name string) string { return c.environment[name] })
		if got != c.want || (err != nil) != c.refused {
			t.Errorf("%s: %d, error %v; want %d, refused %t", name, got, err, c.want, c.refused)
		}
	}
}

func TestCommands_memoryLimitOfTheContainer_boundsTheHeap(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	t.Setenv("GOMEMLIMIT", "")
	for _, name := range []string{"recommender", "updater", "admission-controller", "run"} {
		call := func(limit string) (code int) {
			t.Setenv(memoryLimitVariable, limit)
			return Main(t.Context(), []string{"podfit", name, "--kubeconfig=" + filepath.Join(t.TempDir(), "none")}, Streams{Out: io.Discard, Err: io.Discard})
		}
		debug.SetMemoryLimit(math.MaxInt64)
		code := call("10737418240")
		if got := debug.SetMemoryLimit(-1); code != exitError || got != 9663676416 {
			t.Errorf("%s: exit code %d, the memory limit of the runtime is %d", name, code, got)
		}
		if code := call("10Gi"); code != exitUsage {
			t.Errorf("%s: exit code %d for a memory limit that is no number", name, code)
		}
	}
}
