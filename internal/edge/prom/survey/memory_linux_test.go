// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// maxResident is the maximum resident memory for reading 22,500 containers of 5,000 workloads.
const maxResident = 300 << 20

// large returns a fake with 22,500 containers in 101 namespaces, of which one has 2,500. Owners are not stored, so no pods are merged.
func large() *fake {
	containers := map[string]int{"large": 2500}
	for i := range 100 {
		containers[fmt.Sprintf("namespace-%d", i)] = 200
	}
	f := newFake(containers)
	f.unrecorded = []string{periodsMetric}
	f.byPod = keys(containers)
	return f
}

// readLarge reads some days with a cache, and returns the number of hours.
func readLarge(t testing.TB, f *fake, dir string, days int) (hours int) {
	t.Helper()
	s := f.survey(t, cached(OpenCache(dir, "uid")))
	plan, err := s.Plan(t.Context(), nil, now.AddDate(0, 0, -days), now)
	if err != nil {
		t.Fatal(err)
	}
	for part, err := range s.Read(t.Context(), plan) {
		if err != nil || len(part.Gaps) > 0 {
			t.Fatalf("error %v, gaps %v", err, part.Gaps)
		}
		for range part.Hours() {
			hours++
		}
	}
	return hours
}

// The memory of another process is measured, because this one runs other tests.
func TestRead_fiveThousandWorkloads_takesBoundedMemory(t *testing.T) {
	const inChild = "PODFIT_TEST_SURVEY_DIR"
	if dir := os.Getenv(inChild); dir != "" {
		f := large()
		if n := readLarge(t, f, dir, 1); n != 22_500*(24+9) {
			t.Errorf("got %d hours", n)
		}
		if n := readLarge(t, f, dir, 1); n != 22_500*(24+9) {
			t.Errorf("got %d hours from the cache", n)
		}
		return
	}
	if raceDetector {
		t.Skip("memory is not measured with the race detector")
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), inChild+"="+t.TempDir())
	if out, err := child.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	usage, ok := child.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		t.Fatalf("got %T", child.ProcessState.SysUsage())
	}
	t.Logf("maximum resident memory: %d MiB", usage.Maxrss>>10)
	if usage.Maxrss<<10 > maxResident {
		t.Errorf("maximum resident memory is %d MiB, want at most %d", usage.Maxrss>>10, maxResident>>20)
	}
}

// BenchmarkRead_fiveThousandWorkloads reads 14 days of 22,500 containers: 15 million values, once from a server that answers at once,
// and then from the cache.
func BenchmarkRead_fiveThousandWorkloads(b *testing.B) {
	b.Run("cold", func(b *testing.B) {
		for b.Loop() {
			f := large()
			readLarge(b, f, b.TempDir(), 14)
			b.ReportMetric(float64(len(f.ranges)), "queries")
		}
	})
	b.Run("cached", func(b *testing.B) {
		dir := b.TempDir()
		readLarge(b, large(), dir, 14)
		for b.Loop() {
			f := large()
			readLarge(b, f, dir, 14)
			b.ReportMetric(float64(len(f.ranges)), "queries")
		}
	})
}
