// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package runtimeguard determines how a language runtime reads the CPU and memory of its container.
//
// The kubelet converts a CPU request into CPU shares, and the container runtime converts these into the CPU weight of cgroup v2. A JVM that
// derives its number of processors from them takes the default of the kernel for "no request was set", and uses all cores of the node. So
// there are small ranges of requests which such a JVM misreads. Band returns them.
//
// Detect finds the runtime of a container and its settings from the fields of its pod. Its work per container is bounded, whatever the pod
// contains. It does not see what the image, files or ConfigMaps set.
//
// The package changes nothing: package policy keeps requests out of the ranges, and the webhook adds variables.
package runtimeguard

import (
	"slices"
	"strings"

	"podfit.dev/podfit/internal/core/cluster"
)

// The labels of a pod that name the runtime of its containers: jvm, dotnet, node, go or none. The value none switches the detection off. The
// label of one container is the prefix and the name of the container. It overrides the label for all containers.
const (
	Label       = "podfit.dev/runtime"
	LabelPrefix = "runtime.podfit.dev/"
)

// Bounds of what Detect reads of a container. It ignores the rest. Variables that it ignores may be set, so podfit then adds none.
const (
	MostLabels    = 1024 // labels of a pod; if it has more, none is read
	MostVariables = 512  // variables of the environment
	MostWords     = 64   // elements of command and args together
	MostText      = 4096 // bytes of an element, of the value of a variable, and of the name of an image
	mostTokens    = 512  // options in one text
)

// A Variable is a variable of the environment of a container. Its value is "" if it comes from another object.
type Variable struct{ Name, Value string }

// A Container is what Detect reads of a container.
type Container struct {
	Label     string     // the value of the label that applies to the container; "" without one
	Words     []string   // command, then args
	Variables []Variable // in their order
	Imported  bool       // other objects set more variables (envFrom), or some were not read
	Image     string
}

// Detect returns what is known about the runtime of a container, and false if its runtime is not known. It does not set Container.
//
// The evidence counts in this order: a label, the command, a variable that only one runtime reads, the name of the image. The bounds above
// limit the work, whatever the container has.
func Detect(c Container) (cluster.Runtime, bool) {
	c.bound()
	kind, evidence := c.kind()
	if kind == cluster.UnknownRuntime {
		return cluster.Runtime{}, false
	}
	r := cluster.Runtime{Kind: kind, Evidence: evidence}
	variable := VariableOf(kind)
	taken := slices.ContainsFunc(c.Variables, func(v Variable) bool { return v.Name == variable })
	if kind == cluster.JVM {
		c.readOptions(&r)
	} else {
		r.CPUCountSet = variable != "" && taken
	}
	r.VariableOpen = variable != "" && !taken && !c.Imported
	return r, true
}

func (c *Container) bound() {
	if len(c.Variables) > MostVariables {
		c.Variables = c.Variables[:MostVariables]
		c.Imported = true
	}
	c.Words = c.Words[:min(len(c.Words), MostWords)]
}

func (c *Container) kind() (cluster.RuntimeKind, cluster.RuntimeEvidence) {
	if kind, ok := labelValues[c.Label]; ok {
		return kind, cluster.ByLabel
	}
	if kind := kindOfCommand(c.Words); kind != cluster.UnknownRuntime {
		return kind, cluster.ByCommand
	}
	for _, kind := range kinds {
		if slices.ContainsFunc(c.Variables, func(v Variable) bool { return kindOfVariable(v.Name) == kind }) {
			return kind, cluster.ByEnvironment
		}
	}
	return kindOfImage(cut(c.Image)), cluster.ByImage
}

// kinds are the runtimes in the order of precedence within one kind of evidence.
var kinds = [...]cluster.RuntimeKind{cluster.JVM, cluster.DotNet, cluster.NodeJS, cluster.GoRuntime}

var labelValues = map[string]cluster.RuntimeKind{
	"jvm": cluster.JVM, "dotnet": cluster.DotNet, "node": cluster.NodeJS, "go": cluster.GoRuntime, "none": cluster.UnknownRuntime,
}

var programs = map[string]cluster.RuntimeKind{"java": cluster.JVM, "dotnet": cluster.DotNet, "node": cluster.NodeJS, "nodejs": cluster.NodeJS}

// wrappers are programs that start the program that follows their options.
var wrappers = map[string]bool{
	"tini": true, "dumb-init": true, "catatonit": true, "env": true, "exec": true, "nice": true, "ionice": true, "numactl": true, "nohup": true,
	"gosu": true, "su-exec": true, "docker-entrypoint.sh": true, "time": true,
}

var shells = map[string]bool{"sh": true, "bash": true, "ash": true, "dash": true, "zsh": true, "ksh": true}

// kindOfCommand returns the runtime that a command starts, directly, by a wrapper, or by the script of a shell.
func kindOfCommand(words []string) cluster.RuntimeKind {
	for i, word := range words {
		word = cut(word)
		program := base(word)
		switch {
		case programs[program] != cluster.UnknownRuntime:
			return programs[program]
		case shells[program]:
			if script, ok := scriptOf(words[i+1:]); ok {
				return kindOfScript(script)
			}
			return cluster.UnknownRuntime
		case wrappers[program], strings.HasPrefix(word, "-"), isAssignment(word):
		default:
			return cluster.UnknownRuntime
		}
	}
	return cluster.UnknownRuntime
}

// scriptOf returns the script in the arguments of a shell: the one after -c, or after options that end with c such as -ec.
func scriptOf(words []string) (string, bool) {
	for i, word := range words {
		if !strings.HasPrefix(word, "-") {
			break
		}
		if strings.HasSuffix(cut(word), "c") && i+1 < len(words) {
			return cut(words[i+1]), true
		}
	}
	return "", false
}

// kindOfScript returns the runtime of the first command of a script that starts one.
func kindOfScript(script string) cluster.RuntimeKind {
	starts := true // a command may start here
	for token := range tokens(script) {
		bare := strings.Trim(token, `"'();`)
		if kind := programs[base(bare)]; starts && kind != cluster.UnknownRuntime {
			return kind
		}
		switch {
		case strings.HasSuffix(token, ";"), token == "&&", token == "||", token == "|", token == "then", token == "do", token == "else":
			starts = true
		case wrappers[base(bare)], isAssignment(bare), starts && strings.HasPrefix(bare, "-"):
		default:
			starts = false
		}
	}
	return cluster.UnknownRuntime
}

func isAssignment(word string) bool {
	name, _, ok := strings.Cut(word, "=")
	return ok && name != "" && !strings.ContainsAny(name, "/-")
}

// kindOfVariable returns the runtime that alone reads a variable.
func kindOfVariable(name string) cluster.RuntimeKind {
	switch {
	case strings.HasPrefix(name, "JAVA_"), name == "JDK_JAVA_OPTIONS", name == "_JAVA_OPTIONS", name == "CATALINA_OPTS":
		return cluster.JVM
	case strings.HasPrefix(name, "DOTNET_"), strings.HasPrefix(name, "ASPNETCORE_"), strings.HasPrefix(name, "COMPlus_"):
		return cluster.DotNet
	case name == "NODE_OPTIONS", name == "NODE_ENV":
		return cluster.NodeJS
	case name == "GOMAXPROCS", name == "GOMEMLIMIT", name == "GOGC", name == "GODEBUG":
		return cluster.GoRuntime
	}
	return cluster.UnknownRuntime
}

// IsRead reports whether Detect reads a variable. A decoder may drop all others.
func IsRead(name string) bool { return kindOfVariable(name) != cluster.UnknownRuntime }

var imageWords = map[string]cluster.RuntimeKind{
	"java": cluster.JVM, "openjdk": cluster.JVM, "jdk": cluster.JVM, "jre": cluster.JVM, "temurin": cluster.JVM, "corretto": cluster.JVM,
	"amazoncorretto": cluster.JVM, "zulu": cluster.JVM, "liberica": cluster.JVM, "tomcat": cluster.JVM, "jetty": cluster.JVM, "wildfly": cluster.JVM,
	"dotnet": cluster.DotNet, "aspnet": cluster.DotNet, "node": cluster.NodeJS, "nodejs": cluster.NodeJS, "golang": cluster.GoRuntime,
}

// kindOfImage returns the runtime that the last element of the name of an image names, such as temurin in example.com/eclipse-temurin:21-jre.
func kindOfImage(image string) cluster.RuntimeKind {
	image, _, _ = strings.Cut(image, "@")
	name, _, _ := strings.Cut(base(image), ":")
	for word := range strings.FieldsFuncSeq(name, func(r rune) bool { return r == '-' || r == '_' || r == '.' }) {
		if kind := imageWords[strings.TrimRight(word, "0123456789")]; kind != cluster.UnknownRuntime {
			return kind
		}
	}
	return cluster.UnknownRuntime
}

// VariableOf returns the variable that sets the number of processors of a runtime, or "" if there is none. For a JVM it contains options,
// also that of the heap.
func VariableOf(kind cluster.RuntimeKind) string { return processorVariables[kind] }

// processorVariables has no variable of Node.js, which runs JavaScript in one thread.
var processorVariables = map[cluster.RuntimeKind]string{
	cluster.JVM: variableToolOptions, cluster.DotNet: "DOTNET_PROCESSOR_COUNT", cluster.GoRuntime: "GOMAXPROCS",
}

func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

func cut(text string) string { return text[:min(len(text), MostText)] }
