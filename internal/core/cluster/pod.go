// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import "time"

// A Phase is where a pod stands in its life.
type Phase uint8

// The phases of a pod, as Kubernetes names them.
const (
	UnknownPhase Phase = iota
	Pending
	Running
	Succeeded
	Failed
)

// A Pod is what podfit keeps of a pod: a few hundred bytes instead of a whole object.
// Strings that repeat across pods are interned by whoever builds it.
type Pod struct {
	Key
	UID           string
	Controller    Workload // its direct controller (for a Deployment's pod the ReplicaSet); zero when it has none
	Top           Workload // the topmost controller; zero when it has none or the chain cannot be followed yet
	Node          string   // "" until scheduled
	Created       time.Time
	Started       time.Time // zero until the kubelet has seen it
	ReadySince    time.Time // when the Ready condition last changed to what it is
	Phase         Phase
	QoS           QoS
	Ready         bool
	Deleting      bool
	Unschedulable bool          // the scheduler has found no node for it
	Sized         bool          // the admission controller has set its resources, or said why not (annotation vpaUpdates)
	Fractions     bool          // some of its memory amounts are not whole bytes and have been rounded
	Tolerance     Tolerance     // which taints it tolerates
	Place         Place         // which nodes may take it
	Resize        *Resize       // nil when no resize is under way
	Observed      string        // annotation vpaObservedContainers, verbatim; "" when absent
	PodLevel      *PodResources // spec.resources; nil when absent, as in most pods
	Containers    []Container
}

// PodResources is what a pod requests, and is limited to, as a whole (KEP-2837). Its containers' requests may not add up
// to more than the request, and none of their limits may be above the limit.
type PodResources struct{ Requests, Limits Resources }

// A Place says which nodes may take a pod: it names a node selector, by its place in the list of all there are. The pods
// that most clusters have many of have one of a few.
type Place uint16

// The places that are always there.
const (
	Anywhere  Place = iota // any node without a taint
	Somewhere              // it is not simple to tell: by an affinity, say
	Selected               // the first selector of the list
)

// QoS is a pod's quality-of-service class. It may not change by a resize.
type QoS uint8

// The quality-of-service classes.
const (
	UnknownQoS QoS = iota
	Guaranteed
	Burstable
	BestEffort
)

// Live reports whether the pod runs or may still run.
func (p *Pod) Live() bool { return !p.Deleting && p.Phase != Succeeded && p.Phase != Failed }

// Container returns the regular container or native sidecar with a name, or nil.
func (p *Pod) Container(name string) *Container {
	for i := range p.Containers {
		if p.Containers[i].Name == name {
			return &p.Containers[i]
		}
	}
	return nil
}

// A ContainerRole says in which list of the pod a container stands and how it runs.
type ContainerRole uint8

// The roles of a container.
const (
	Regular ContainerRole = iota
	Init                  // runs to its end before the regular containers start
	Sidecar               // an init container that keeps running (restartPolicy Always)
)

// A Container is one container of a pod.
type Container struct {
	Name     string
	Role     ContainerRole
	Index    uint8     // its place in spec.containers, or in spec.initContainers for Init and Sidecar
	Reported bool      // its status says what it runs with, be it what the spec wants
	Restart  Set       // resources whose resize restarts the container (resizePolicy RestartContainer)
	Restarts int32     // stands here, like those above, so that a container takes no more than 96 bytes
	Requests Resources // wanted (spec)
	Limits   Resources // wanted (spec)
	Applied  *Applied  // what runs (status), nil when it is what the spec wants or is not known
	Exit     *Exit     // how it last terminated, nil when it never did
	Boosted  *Applied  // what it had before its CPU startup boost (annotation vpaCpuStartupBoost/<name>), nil when not boosted
}

// Applied is what a container actually runs with while its spec wants something else.
type Applied struct{ Requests, Limits Resources }

// Running returns the requests and limits the container runs with.
func (c *Container) Running() (requests, limits Resources) {
	if c.Applied != nil {
		return c.Applied.Requests, c.Applied.Limits
	}
	return c.Requests, c.Limits
}

// An Exit is how a container last terminated.
type Exit struct {
	OOM      bool // killed for using more memory than its limit
	Code     int32
	Started  time.Time
	Finished time.Time
	Now      bool // it has not been started again since: the container's current state is this exit
}

// A ResizeState says where an in-place resize stands.
type ResizeState uint8

// The states of a resize, from the pod's conditions PodResizePending and PodResizeInProgress.
const (
	NoResize         ResizeState = iota
	ResizeDeferred               // does not fit on the node now, may later
	ResizeInfeasible             // can never fit on this node
	ResizeInProgress
	ResizeError
	ResizeUnknown // a reason this version does not know
)

// A ResizeProblem is the cause of a failed resize, for the causes that podfit treats in a special way.
type ResizeProblem uint8

// The problems of a resize, read from the message of the pod's condition.
const (
	OtherProblem ResizeProblem = iota // no failure, or a cause without special treatment
	MemoryInUse                       // the kubelet does not lower a memory limit below the current usage
)

// A Resize is an in-place resize that has not finished.
type Resize struct {
	State   ResizeState
	Problem ResizeProblem
	Since   time.Time // the condition's lastTransitionTime
	Message string
}
