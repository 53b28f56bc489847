// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import "cmp"

// A RuntimeKind is the language runtime of a container.
type RuntimeKind uint8

// The runtimes that podfit knows.
const (
	UnknownRuntime RuntimeKind = iota
	JVM
	DotNet
	NodeJS
	GoRuntime
)

// A RuntimeEvidence is what the runtime of a container was detected by.
type RuntimeEvidence uint8

// The kinds of evidence, the strongest first.
const (
	NoEvidence    RuntimeEvidence = iota
	ByLabel                       // a label of the pod
	ByCommand                     // command and args
	ByEnvironment                 // a variable that only this runtime reads
	ByImage                       // the name of the image
)

// String returns what the runtime was detected by: "label", "command", "environment" or "image"; "" for NoEvidence.
func (e RuntimeEvidence) String() string {
	return [...]string{ByLabel: "label", ByCommand: "command", ByEnvironment: "environment", ByImage: "image"}[e]
}

// A Runtime is what is known about the language runtime of a regular container: from the pod alone, so settings in the image, in files and
// in ConfigMaps are not part of it.
type Runtime struct {
	HeapBytes   int64   // bytes: the heap that the options of a JVM set (-Xmx); 0 if they set none
	HeapPercent float32 // percent of the memory limit: the heap that the options of a JVM set (-XX:MaxRAMPercentage); 0 if they set none
	Container   uint8   // Container.Index
	Kind        RuntimeKind
	Evidence    RuntimeEvidence
	CPUCountSet bool // the number of processors is set: -XX:ActiveProcessorCount, GOMAXPROCS, DOTNET_PROCESSOR_COUNT

	// VariableOpen is true if podfit may add the variable of the runtime (runtimeguard.VariableOf): it is not set, and the environment is
	// completely known.
	VariableOpen bool
}

// Runtimes are the runtimes of the containers of a pod whose runtime is known.
type Runtimes struct{ List []Runtime }

// Runtime returns what is known about the runtime of a regular container, or nil.
func (p *Pod) Runtime(c *Container) *Runtime {
	if p.Runtimes == nil || c == nil || c.Role != Regular {
		return nil
	}
	return Find(p.Runtimes.List, func(r *Runtime) bool { return r.Container == c.Index })
}

// RuntimeGuards is what podfit does for containers whose runtime is known (annotations podfit.dev/runtime-guards and
// podfit.dev/inject-…, or a SizingProfile). The zero value is nothing, as in upstream.
type RuntimeGuards struct {
	CPU    bool // keep CPU requests out of the ranges that a JVM misreads
	Memory bool // keep memory requests at or above the heap of a JVM
	Set    bool // the autoscaler has the annotation podfit.dev/runtime-guards, so the guards of its profile do not apply

	// InjectCPUCount is true if the webhook adds the environment variable that sets the number of processors of the runtime.
	InjectCPUCount bool
	// InjectHeapPercent is the percentage of the memory limit that the webhook sets as the heap of JVMs; 0: none.
	InjectHeapPercent float64

	Problem string // the error in the annotations or the profile, "" if there is none
}

// Under returns the guards of an autoscaler whose profile has guards. The annotation podfit.dev/runtime-guards overrides the profile.
func (g RuntimeGuards) Under(profile RuntimeGuards) RuntimeGuards {
	if g.Set {
		return g
	}
	profile.InjectCPUCount = g.InjectCPUCount
	profile.InjectHeapPercent = g.InjectHeapPercent
	profile.Problem = cmp.Or(g.Problem, profile.Problem)
	return profile
}
