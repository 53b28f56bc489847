// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/runtimeguard"
)

// A realJVM runs the java of this machine in a cgroup of its own.
type realJVM struct {
	*testing.T
	path       string
	conversion conversion
	folders    []string          // of the cgroup, one per hierarchy with cgroup v1
	files      map[string]string // paths of the files that set the CPU request and the memory limit
}

// newJVM returns the java of this machine. It skips the test if there is none, or if no cgroup can be created.
func newJVM(t *testing.T) *realJVM {
	t.Helper()
	path, err := exec.LookPath("java")
	if err != nil {
		t.Skip("this machine has no java: what a real JVM reads is not measured")
	}
	j := &realJVM{T: t, path: path, conversion: sharesV1, files: map[string]string{}}
	name := fmt.Sprintf("podfit-test-%d", os.Getpid())
	root := "/sys/fs/cgroup"
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil { // cgroup v2
		j.conversion = weightNew
		j.create(filepath.Join(root, name))
		j.files["cpu"], j.files["memory"] = filepath.Join(root, name, "cpu.weight"), filepath.Join(root, name, "memory.max")
	} else {
		j.create(filepath.Join(root, "cpu", name))
		j.create(filepath.Join(root, "memory", name))
		j.files["cpu"], j.files["memory"] = filepath.Join(root, "cpu", name, "cpu.shares"), filepath.Join(root, "memory", name, "memory.limit_in_bytes")
	}
	for _, file := range j.files {
		if _, err := os.Stat(file); err != nil {
			t.Skipf("this machine has no such controller, so what a real JVM reads is not measured: %v", err)
		}
	}
	return j
}

// create creates a cgroup, and removes it at the end of the test.
func (j *realJVM) create(folder string) {
	j.Helper()
	if err := os.Mkdir(folder, 0o755); err != nil {
		j.Skipf("no cgroup can be created, so what a real JVM reads is not measured: %v", err)
	}
	j.folders = append(j.folders, folder)
	j.Cleanup(func() {
		if err := os.Remove(folder); err != nil {
			j.Errorf("remove a cgroup: %v", err)
		}
	})
}

// set writes the value that stands for the CPU request or the memory limit.
func (j *realJVM) set(what string, value int64) {
	j.Helper()
	if err := os.WriteFile(j.files[what], []byte(strconv.FormatInt(value, 10)), 0o600); err != nil {
		j.Fatal(err)
	}
}

// run runs java in the cgroup and returns what it prints. The error is that of java.
func (j *realJVM) run(env []string, options ...string) (string, error) {
	j.Helper()
	enter := ""
	for _, folder := range j.folders {
		enter += "echo $$ > " + filepath.Join(folder, "cgroup.procs") + " && "
	}
	cmd := exec.CommandContext(j.Context(), "sh", append([]string{"-c", enter + `exec "$0" "$@"`, j.path}, append(options, "-version")...)...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// find returns the number after a text in the output of java.
func (j *realJVM) find(out string, pattern *regexp.Regexp) int64 {
	j.Helper()
	m := pattern.FindStringSubmatch(out)
	if m == nil {
		j.Fatalf("java printed no %s:\n%s", pattern, out)
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		j.Fatal(err)
	}
	return n
}

var (
	processorsSeen = regexp.MustCompile(`Effective CPU Count:\s+(\d+)`)
	heapSize       = regexp.MustCompile(`\bMaxHeapSize\s*=\s*(\d+)`)
)

// A JVM that reads CPU shares derives the number of processors that runtimeguard expects, around each range in which it reads the request as
// "no request", and ActiveProcessorCount overrides that.
func TestJVM_realJDK_readsCPURequestsAsExpected(t *testing.T) {
	j := newJVM(t)
	const readShares = "-XX:+UseContainerCpuShares"
	if out, err := j.run(nil, readShares); err != nil {
		t.Skipf("this java does not read CPU shares, whatever the request: %s", strings.TrimSpace(out))
	}
	cores := int64(runtime.NumCPU())
	for _, m := range []int64{1, 250, 500, 988, 989, 998, 999, 1000, 1001, 1002, 1500, 2000, 2001, 2537, 2538, 2562, 2563, 4000} {
		j.set("cpu", j.conversion.seen(m))
		want := min(j.conversion.jvmProcessors(m), cores)
		if want == 0 {
			want = cores
		}
		out, err := j.run(nil, readShares, "-XshowSettings:system")
		if err != nil {
			t.Fatalf("%dm: %v\n%s", m, err, out)
		}
		if got := j.find(out, processorsSeen); got != want {
			t.Errorf("%dm: the JVM uses %d of %d cores, want %d", m, got, cores, want)
		}
		if m%500 != 0 {
			continue
		}
		name, value, _ := strings.Cut(runtimeguard.VariableOf(cluster.JVM)+"="+runtimeguard.CPUCountValue(cluster.JVM, m), "=")
		out, err = j.run([]string{name + "=" + value}, readShares, "-XshowSettings:system")
		if err != nil {
			t.Fatalf("%dm with %s=%s: %v\n%s", m, name, value, err, out)
		}
		if got, want := j.find(out, processorsSeen), runtimeguard.Processors(m); got != want {
			t.Errorf("%dm with %s=%s: the JVM uses %d processors, want %d", m, name, value, got, want)
		}
	}
}

// A JVM chooses the heap that runtimeguard.Heap reads from its options and the memory limit, within the alignment of a heap.
func TestJVM_realJDK_choosesTheHeapThatIsRead(t *testing.T) {
	const limit, alignment = 512 << 20, 4 << 20
	j := newJVM(t)
	j.set("memory", limit)
	for options, variables := range map[string]map[string]string{
		"-Xmx96m":                           nil,
		"-XX:MaxRAMPercentage=75.0":         nil,
		"-XX:MaxRAMPercentage=12.5 -Xmx64M": nil,
		"-XX:MaxHeapSize=100663296":         nil,
		"-Xmx64m -Xmx128m":                  nil,
		"":                                  {"JAVA_TOOL_OPTIONS": "-Xmx80m"},
		"-Xmx112m":                          {"JAVA_TOOL_OPTIONS": "-Xmx80m", "JDK_JAVA_OPTIONS": "-XX:MaxRAMPercentage=50"},
		"-Xmx72m":                           {"_JAVA_OPTIONS": "-Xmx88m"},
	} {
		c := runtimeguard.Container{Words: append([]string{"java"}, strings.Fields(options)...)}
		var env []string
		for name, value := range variables {
			c.Variables = append(c.Variables, runtimeguard.Variable{Name: name, Value: value})
			env = append(env, name+"="+value)
		}
		r, ok := runtimeguard.Detect(c)
		want, known := runtimeguard.Heap(&r, limit)
		if !ok || !known {
			t.Fatalf("%q, %v: no heap is read from the options", options, variables)
		}
		out, err := j.run(env, append(strings.Fields(options), "-XX:+PrintFlagsFinal")...)
		if exit := new(exec.ExitError); errors.As(err, &exit) {
			t.Fatalf("%q: %v\n%s", options, err, out)
		} else if err != nil {
			t.Fatal(err)
		}
		if got := j.find(out, heapSize); got < want-alignment || got > want+alignment {
			t.Errorf("%q, %v: the JVM has a heap of %d bytes, want %d", options, variables, got, want)
		}
	}
}
