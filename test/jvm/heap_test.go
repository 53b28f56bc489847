// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package jvm runs a real JVM with the heap that podfit advises for it. It installs a JDK as root on Debian, if there is none.
package jvm

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"podfit.dev/podfit/internal/core/runtimeguard"
)

const mi = 1 << 20

// jdk returns the path of java, which also runs programs from their source. As root on Debian, it installs it if it is missing.
func jdk(t *testing.T) string {
	t.Helper()
	if path, err := exec.LookPath("javac"); err == nil {
		return strings.TrimSuffix(path, "c")
	}
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		t.Fatal("no JDK is installed; on Debian, run apt-get install openjdk-17-jdk-headless")
	}
	for _, arguments := range [][]string{{"update", "-qq"}, {"install", "-qq", "-y", "--no-install-recommends", "openjdk-17-jdk-headless"}} {
		cmd := exec.CommandContext(t.Context(), "apt-get", arguments...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("a JDK could not be installed: apt-get %s: %v\n%s", arguments[0], err, out)
		}
	}
	path, err := exec.LookPath("java")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// run returns what the JVM of testdata/Load.java reports of itself under load, and the most memory that its process had.
func run(t *testing.T, java, classes string, options ...string) (u runtimeguard.HeapUsage, peak float64) {
	t.Helper()
	const live, allocated, work = "48", "320", "8000" // MiB, MiB, steps for each KiB
	cmd := exec.CommandContext(t.Context(), java, append(options, "-cp", classes, "Load", live, allocated, work)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("java %s: %v\n%s%s", options, err, out, errs.Bytes())
	}
	u.Hours = runtimeguard.HeapHours // one run stands for the worst hour of a day
	values := map[string]*float64{
		"collected": &u.Collected, "collections": &u.Collections, "lowest": &u.Lowest, "ceiling": &u.Ceiling, "nonheap": &u.NonHeap, "beside": &u.Beside,
		"gc": &u.GCShare, "peak": &peak, "seconds": new(float64),
	}
	for line := range strings.Lines(string(out)) {
		var name string
		var v float64
		if _, err := fmt.Sscan(line, &name, &v); err != nil || values[name] == nil {
			t.Fatalf("java printed %q: %v", line, err)
		}
		*values[name] = v
		delete(values, name)
	}
	if len(values) > 0 {
		t.Fatalf("java did not print all values:\n%s", out)
	}
	t.Logf("%s: %.0f MiB after a collection, %.0f MiB beside the heap, %.1f %% of the time in collections, peak %.0f MiB",
		options, u.Collected/mi, u.Beside/mi, 100*u.GCShare, peak/mi)
	return u, peak
}

// With the advised heap, a JVM has the same live set, takes less time for collections than the target, and its process stays below the advised
// memory. A heap close above the live set shows that the target is no matter of course.
func TestAdviseHeap_realJDK_advisedHeapIsEnough(t *testing.T) {
	java, classes := jdk(t), t.TempDir()
	if out, err := exec.CommandContext(t.Context(), java+"c", "-d", classes, "testdata/Load.java").CombinedOutput(); err != nil {
		t.Fatalf("javac: %v\n%s", err, out)
	}
	for _, collector := range []string{"-XX:+UseSerialGC", "-XX:+UseG1GC"} {
		before, _ := run(t, java, classes, collector, "-Xmx512m")
		a := runtimeguard.AdviseHeap(before)
		if a.Lack != "" || !a.Collected || a.Live < 48*mi || a.Live > 80*mi {
			t.Fatalf("%s: advice %+v, want a live set of 48 MiB and little more", collector, a)
		}
		if a.AdvisedCeiling >= a.Ceiling || a.AdvisedCeiling < 3*a.Live {
			t.Fatalf("%s: advised ceiling of %d MiB, want less than %d MiB, and three times the live set of %d MiB or more", collector, a.AdvisedCeiling/mi, a.Ceiling/mi, a.Live/mi)
		}
		t.Logf("%s: a ceiling of %d MiB and %d MiB of memory are advised", collector, a.AdvisedCeiling/mi, a.AdvisedMemory/mi)
		after, peak := run(t, java, classes, collector, fmt.Sprintf("-Xmx%dm", a.AdvisedCeiling/mi))
		if after.GCShare >= runtimeguard.GCShareTarget {
			t.Errorf("%s: %.1f %% of the time in collections, want less than %.0f %%", collector, 100*after.GCShare, 100*runtimeguard.GCShareTarget)
		}
		if peak >= float64(a.AdvisedMemory) {
			t.Errorf("%s: the process had %.0f MiB, want less than the advised %d MiB", collector, peak/mi, a.AdvisedMemory/mi)
		}
	}
	small, _ := run(t, java, classes, "-XX:+UseSerialGC", "-Xmx72m")
	if small.GCShare <= runtimeguard.GCShareTarget {
		t.Errorf("a heap of 72 MiB: %.1f %% of the time in collections, want more than the target", 100*small.GCShare)
	}
	if a := runtimeguard.AdviseHeap(small); a.AdvisedCeiling <= a.Ceiling {
		t.Errorf("a heap of 72 MiB: advice %+v, want a higher ceiling", a)
	}
}

// A JVM obeys the option that is advised for a container with a memory limit. -XX:MaxRAM stands for the limit.
func TestHeapOption_realJDK_setsTheAdvisedCeiling(t *testing.T) {
	java := jdk(t)
	for _, c := range []struct{ ceiling, memory int64 }{{128, 256}, {304, 512}, {1024, 1296}, {96, 208}, {112, 600}, {3072, 4096}} {
		a := runtimeguard.HeapAdvice{AdvisedCeiling: c.ceiling * mi, AdvisedMemory: c.memory * mi}
		option := runtimeguard.HeapOption(&a, nil, true)
		cmd := exec.CommandContext(t.Context(), java, fmt.Sprintf("-XX:MaxRAM=%dm", c.memory), "-XX:+PrintFlagsFinal", "-version")
		cmd.Env = append(os.Environ(), "JAVA_TOOL_OPTIONS="+option)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		var got int64
		for line := range strings.Lines(string(out)) {
			if fields := strings.Fields(line); len(fields) > 3 && fields[1] == "MaxHeapSize" {
				_, err = fmt.Sscan(fields[3], &got)
			}
		}
		if off := got - a.AdvisedCeiling; err != nil || off > 4*mi || off < -c.memory*mi/1000-4*mi {
			t.Errorf("%s with %d MiB: the heap is %d MiB, want %d MiB (%v)", option, c.memory, got/mi, c.ceiling, err)
		}
	}
}
