// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package runtimeguard

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/cluster"
)

func variables(pairs ...string) []Variable {
	var out []Variable
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, Variable{pairs[i], pairs[i+1]})
	}
	return out
}

func TestDetect_evidence_namesTheRuntime(t *testing.T) {
	for name, c := range map[string]struct {
		in   Container
		kind cluster.RuntimeKind
		by   cluster.RuntimeEvidence
	}{
		"nothing":                     {in: Container{Image: "example.com/shop/cart:1"}},
		"java":                        {Container{Words: []string{"java", "-jar", "app.jar"}}, cluster.JVM, cluster.ByCommand},
		"java with a path":            {Container{Words: []string{"/opt/jdk/bin/java", "-jar", "app.jar"}}, cluster.JVM, cluster.ByCommand},
		"tini, then java":             {Container{Words: []string{"/sbin/tini", "-g", "--", "java", "-version"}}, cluster.JVM, cluster.ByCommand},
		"env with a variable":         {Container{Words: []string{"/usr/bin/env", "A=b", "java"}}, cluster.JVM, cluster.ByCommand},
		"a script":                    {Container{Words: []string{"sh", "-c", "exec java $JAVA_OPTS -jar app.jar"}}, cluster.JVM, cluster.ByCommand},
		"a script with commands":      {Container{Words: []string{"/bin/bash", "-ec", "cd /app && ulimit -n 1; A=b java -jar x"}}, cluster.JVM, cluster.ByCommand},
		"a script about java":         {in: Container{Words: []string{"sh", "-c", "echo java"}}},
		"a script in a file":          {in: Container{Words: []string{"sh", "java"}}},
		"an argument java":            {in: Container{Words: []string{"highlight", "--lang", "java"}}},
		"dotnet":                      {Container{Words: []string{"dotnet", "app.dll"}}, cluster.DotNet, cluster.ByCommand},
		"node":                        {Container{Words: []string{"node", "server.js"}}, cluster.NodeJS, cluster.ByCommand},
		"a variable of a JVM":         {Container{Variables: variables("A", "b", "JAVA_HOME", "/opt")}, cluster.JVM, cluster.ByEnvironment},
		"variables of two":            {Container{Variables: variables("GOGC", "50", "JAVA_OPTS", "")}, cluster.JVM, cluster.ByEnvironment},
		"the command is stronger":     {Container{Words: []string{"node", "x"}, Variables: variables("JAVA_HOME", "/opt")}, cluster.NodeJS, cluster.ByCommand},
		"a variable of Go":            {Container{Variables: variables("GOMEMLIMIT", "1GiB")}, cluster.GoRuntime, cluster.ByEnvironment},
		"an image":                    {Container{Image: "docker.io/library/eclipse-temurin:21-jre"}, cluster.JVM, cluster.ByImage},
		"an image with a digest":      {Container{Image: "gcr.io/distroless/java17-debian12@sha256:0123"}, cluster.JVM, cluster.ByImage},
		"a registry with a port":      {Container{Image: "java.example.com:5000/shop/cart"}, cluster.UnknownRuntime, cluster.NoEvidence},
		"an image about JavaScript":   {in: Container{Image: "javascript-tools:1"}},
		"a label":                     {Container{Label: "go", Words: []string{"java"}}, cluster.GoRuntime, cluster.ByLabel},
		"a label that switches off":   {in: Container{Label: "none", Words: []string{"java"}}},
		"a label with another value":  {Container{Label: "cobol", Words: []string{"java"}}, cluster.JVM, cluster.ByCommand},
		"an empty element":            {in: Container{Words: []string{"", "java"}}},
		"a word beyond the bound":     {in: Container{Words: append(slices.Repeat([]string{"-x"}, MostWords), "java")}},
		"a variable beyond the bound": {in: Container{Variables: append(slices.Repeat(variables("A", "b"), MostVariables), Variable{"JAVA_HOME", ""})}},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := Detect(c.in)
			if ok != (c.kind != cluster.UnknownRuntime) || got.Kind != c.kind || got.Evidence != c.by {
				t.Errorf("Detect() = %+v, %v, want kind %d by %d", got, ok, c.kind, c.by)
			}
		})
	}
}

func TestDetect_optionsOfAJVM_laterOneCounts(t *testing.T) {
	jvm := func(words ...string) Container { return Container{Words: append([]string{"java"}, words...)} }
	with := func(c Container, pairs ...string) Container {
		c.Variables = variables(pairs...)
		return c
	}
	for name, c := range map[string]struct {
		in   Container
		want cluster.Runtime
	}{
		"none":             {jvm("-jar", "app.jar"), cluster.Runtime{VariableOpen: true}},
		"-Xmx":             {jvm("-Xmx512m"), cluster.Runtime{HeapBytes: 512 << 20, VariableOpen: true}},
		"-Xmx in bytes":    {jvm("-Xmx1073741824"), cluster.Runtime{HeapBytes: 1 << 30, VariableOpen: true}},
		"-Xmx twice":       {jvm("-Xmx1g", "-Xmx2G"), cluster.Runtime{HeapBytes: 2 << 30, VariableOpen: true}},
		"MaxHeapSize":      {jvm("-XX:MaxHeapSize=3t"), cluster.Runtime{HeapBytes: 3 << 40, VariableOpen: true}},
		"a script":         {Container{Words: []string{"sh", "-c", "java -Xmx64k '-XX:ActiveProcessorCount=2' -jar x;"}}, cluster.Runtime{HeapBytes: 64 << 10, CPUCountSet: true, VariableOpen: true}},
		"percent":          {jvm("-XX:MaxRAMPercentage=75.0"), cluster.Runtime{HeapPercent: 75, VariableOpen: true}},
		"no percent":       {jvm("-XX:MaxRAMPercentage=175"), cluster.Runtime{VariableOpen: true}},
		"not a number":     {jvm("-XX:MaxRAMPercentage=NaN", "-Xmxg", "-Xmx", "-Xmx-1g", "-Xmx9999999999g"), cluster.Runtime{VariableOpen: true}},
		"processors":       {jvm("-XX:ActiveProcessorCount=4"), cluster.Runtime{CPUCountSet: true, VariableOpen: true}},
		"automatic":        {jvm("-XX:ActiveProcessorCount=-1"), cluster.Runtime{VariableOpen: true}},
		"tool options":     {with(jvm(), "JAVA_TOOL_OPTIONS", "-Xmx1g"), cluster.Runtime{HeapBytes: 1 << 30}},
		"overridden":       {with(jvm("-Xmx2g"), "JAVA_TOOL_OPTIONS", "-Xmx1g", "JDK_JAVA_OPTIONS", "-Xmx3g"), cluster.Runtime{HeapBytes: 2 << 30}},
		"launcher options": {with(jvm(), "JDK_JAVA_OPTIONS", "-XX:ActiveProcessorCount=4"), cluster.Runtime{CPUCountSet: true, VariableOpen: true}},
		"last options":     {with(jvm("-Xmx2g"), "_JAVA_OPTIONS", "-Xmx1g"), cluster.Runtime{HeapBytes: 1 << 30, VariableOpen: true}},
		"set twice":        {with(jvm(), "JAVA_OPTS", "-Xmx2g", "JAVA_OPTS", "-Xmx1g"), cluster.Runtime{HeapBytes: 1 << 30, VariableOpen: true}},
		"from an object":   {with(jvm(), "JAVA_TOOL_OPTIONS", ""), cluster.Runtime{}},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.Kind, c.want.Evidence = cluster.JVM, cluster.ByCommand
			got, _ := Detect(c.in)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDetect_numberOfProcessors_isOpenOnlyIfNothingMaySetIt(t *testing.T) {
	for name, c := range map[string]struct {
		in        Container
		set, open bool
	}{
		"Go":                           {Container{Label: "go"}, false, true},
		"Go with GOMAXPROCS":           {Container{Label: "go", Variables: variables("GOMAXPROCS", "")}, true, false},
		"Go with envFrom":              {Container{Label: "go", Imported: true}, false, false},
		"Go with too many variables":   {Container{Label: "go", Variables: slices.Repeat(variables("A", "b"), MostVariables+1)}, false, false},
		"Node.js has no such variable": {Container{Label: "node"}, false, false},
		".NET":                         {Container{Label: "dotnet"}, false, true},
		".NET with the variable":       {Container{Label: "dotnet", Variables: variables("DOTNET_PROCESSOR_COUNT", "2")}, true, false},
		"JVM with envFrom":             {Container{Label: "jvm", Imported: true}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got, _ := Detect(c.in); got.CPUCountSet != c.set || got.VariableOpen != c.open {
				t.Errorf("Detect() = %+v, want set %t, open %t", got, c.set, c.open)
			}
		})
	}
}

func TestHeap_options_countInBytesOrOfTheLimit(t *testing.T) {
	for name, c := range map[string]struct {
		r     *cluster.Runtime
		limit int64
		want  int64
		known bool
	}{
		"unknown runtime":         {nil, 1 << 30, 0, false},
		"another runtime":         {&cluster.Runtime{Kind: cluster.NodeJS, HeapBytes: 1}, 0, 0, false},
		"-Xmx":                    {&cluster.Runtime{Kind: cluster.JVM, HeapBytes: 1 << 30, HeapPercent: 50}, 1 << 40, 1 << 30, true},
		"percent of the limit":    {&cluster.Runtime{Kind: cluster.JVM, HeapPercent: 50}, 1001, 501, true},
		"all of the limit":        {&cluster.Runtime{Kind: cluster.JVM, HeapPercent: 100}, 1<<62 + 1, 1<<62 + 1, true},
		"percent without a limit": {&cluster.Runtime{Kind: cluster.JVM, HeapPercent: 50}, 0, 0, false},
		"neither":                 {&cluster.Runtime{Kind: cluster.JVM}, 1 << 30, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got, known := Heap(c.r, c.limit); got != c.want || known != c.known {
				t.Errorf("Heap() = %d, %t, want %d, %t", got, known, c.want, c.known)
			}
		})
	}
}

// Hostile texts: no panic, a heap above zero, and bounded work. What follows the bounds does not change the result.
func TestDetect_hostileTexts_areBounded(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
		"java", "sh", "-c", "-Xmx1g", "-Xmx", "=", "-XX:MaxRAMPercentage=1e300", strings.Repeat("java ", 5000), strings.Repeat("-Xmx9g;", 5000), "\x00", "a/",
	}))
	rapid.Check(t, func(t *rapid.T) {
		c := Container{
			Label: text.Draw(t, "label"), Words: rapid.SliceOfN(text, 0, 2*MostWords).Draw(t, "words"), Image: text.Draw(t, "image"),
			Variables: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Variable {
				return Variable{rapid.SampledFrom([]string{"JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "GOGC", "A"}).Draw(t, "name"), text.Draw(t, "value")}
			}), 0, 8).Draw(t, "variables"),
		}
		got, ok := Detect(c)
		if ok != (got.Kind != cluster.UnknownRuntime) || got.HeapBytes < 0 || got.HeapPercent < 0 || got.HeapPercent > 100 {
			t.Fatalf("Detect(%+v) = %+v, %t", c, got, ok)
		}
		c.Words = append(slices.Clip(c.Words[:min(len(c.Words), MostWords)]), slices.Repeat([]string{"-x"}, MostWords-min(len(c.Words), MostWords))...)
		before, _ := Detect(c)
		c.Words = append(c.Words, "-Xmx7m")
		if after, _ := Detect(c); after != before {
			t.Fatalf("a word beyond the bound changed %+v to %+v", before, after)
		}
	})
}

func TestDetect_longTexts_allocateNothing(t *testing.T) {
	long := strings.Repeat("-Xmx1g -Dx=y ", 100_000)
	c := Container{Words: slices.Repeat([]string{"java", long}, 1000), Variables: slices.Repeat(variables("JAVA_TOOL_OPTIONS", long), 10_000), Image: long}
	if n := testing.AllocsPerRun(3, func() { Detect(c) }); n > 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func TestCPUCountValue_request_isWholeCores(t *testing.T) {
	for kind, want := range map[cluster.RuntimeKind]string{cluster.JVM: "-XX:ActiveProcessorCount=2", cluster.GoRuntime: "2", cluster.DotNet: "2"} {
		if got := CPUCountValue(kind, 1001); got != want {
			t.Errorf("CPUCountValue(%d) = %q, want %q", kind, got, want)
		}
	}
}

func ExampleDetect() {
	r, ok := Detect(Container{Words: []string{"java", "-Xmx1g", "-jar", "app.jar"}})
	fmt.Println(ok, r.Kind == cluster.JVM, r.HeapBytes>>20)
	// Output: true true 1024
}
