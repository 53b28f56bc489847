// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"io"
	"math"
	"path/filepath"
	"runtime/debug"
	"testing"

	"podfit.dev/podfit/internal/app/process"
)

func TestCommands_containerMemoryLimit_boundsHeap(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	t.Setenv("GOMEMLIMIT", "")
	for _, name := range []string{"recommender", "updater", "admission-controller", "run"} {
		call := func(limit string) (code int) {
			t.Setenv(process.MemoryLimitVariable, limit)
			return Main(t.Context(), []string{"podfit", name, "--kubeconfig=" + filepath.Join(t.TempDir(), "none")}, Streams{Out: io.Discard, Err: io.Discard})
		}
		debug.SetMemoryLimit(math.MaxInt64)
		code := call("10737418240")
		if got := debug.SetMemoryLimit(-1); code != exitError || got != 9663676416 {
			t.Errorf("%s: exit code %d, the memory limit of the runtime is %d", name, code, got)
		}
		if code := call("10Gi"); code != exitUsage {
			t.Errorf("%s: exit code %d for a memory limit that is not a number", name, code)
		}
	}
}
