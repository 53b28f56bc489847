// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"encoding/hex"
	"hash/fnv"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A Phase is a phase of the lifecycle of a pod.
type Phase uint8

// The phases of a pod, with their Kubernetes names.
const (
	UnknownPhase Phase = iota
	Pending
	Running
	Succeeded
	Failed
)

// A Pod contains the fields of a pod that podfit uses: a few hundred bytes instead of the whole object. The code that builds it
// interns strings that occur in many pods.
type Pod struct {
	Key
	UID          string
	Controller   Workload // its direct controller (for a pod of a Deployment the ReplicaSet); zero if it has none
	Top          Workload // the topmost controller; zero if it has none or if a controller in the chain is not known yet
	Node         string   // "" until scheduled
	Created      time.Time
	Started      time.Time // status.startTime; zero until the kubelet sets it
	ReadySince   time.Time // last transition time of the Ready condition
	Phase        Phase
	QoS          QoS
	Ready        bool
	Deleting     bool
	Sized        bool          // it has the annotation vpaUpdates: the admission controller set its resources, or recorded why not
	Fractions    bool          // some of its memory amounts are not whole bytes and are rounded
	LocalData    bool          // it has volumes whose data its replacement does not have: emptyDir on disk, hostPath, ephemeral volumes
	OwnVolume    bool          // one of these is not an emptyDir
	Tolerance    Tolerance     // which taints it tolerates
	Place        Place         // the nodes that it may run on
	Tied         bool          // whether another node would take it is not known: spread constraints, pod affinity, claims, devices or host ports
	Placeholder  bool          // it is a placeholder pod of podfit, see PlaceholderOf
	Overhead     bool          // its RuntimeClass adds an overhead that is not part of Containers
	Static       bool          // the kubelet runs it from a file; the API server has only a copy, whose change has no effect
	Priority     int32         // of its PriorityClass
	DeletionCost int32         // annotation controller.kubernetes.io/pod-deletion-cost
	Resize       *Resize       // nil if no resize is in progress
	Crash        *Crash        // nil unless it is not ready and a container's last termination was an OOM kill
	PodLevel     *PodResources // spec.resources; nil if absent, as in most pods
	Runtimes     *Runtimes     // of its regular containers; nil if none is known
	Marks        *Marks        // what its labels and annotations say; nil if that is nothing
	Containers   []Container
}

// Marks are what labels, annotations and gates of a pod say to podfit. Pods without annotations may share them.
type Marks struct {
	Observed    *string     // annotation vpaObservedContainers; nil if absent, or if it has all regular containers, as in most pods
	Criticality Criticality // zero if it has neither a label nor a PriorityClass
	Protection  string      // the annotation that forbids other programs to evict the pod, with its value; "" if it has none
	Evictable   bool        // an annotation allows the cluster autoscaler to evict the pod, whatever else it would ask
	Gated       bool        // it has scheduling gates (KEP-3521), so the scheduler gives it no node yet
	Labels      string      // "key=value", sorted, separated by commas; "" if not known (Role), or if there is none
}

// Criticality is what a pod says about how much its workload matters.
type Criticality struct {
	Labelled      bool   // it has the label podfit.dev/criticality
	Label         string // its value as written, which may be invalid
	PriorityClass string // spec.priorityClassName
}

// PodResources contains the pod-level requests and limits of a pod (KEP-2837). The sum of the requests of its containers must not
// exceed the pod-level request, and no limit of a container may exceed the pod-level limit.
type PodResources struct {
	Requests Resources `stored:"requests"`
	Limits   Resources `stored:"limits"`
	Fixed    bool      // not sized: they only grow, and only as far as the containers require
}

// A Place identifies the nodes that a pod may run on: an index into the list of all NodeSelectors. Most pods of a cluster share
// a few of them.
type Place uint16

// The predefined places.
const (
	Anywhere  Place = iota // any node without a taint
	Somewhere              // not known, for example because of an affinity that is not evaluated
	Selected               // the first selector of the list
)

// QoS is the quality-of-service class of a pod. A resize must not change it.
type QoS uint8

// The quality-of-service classes.
const (
	UnknownQoS QoS = iota
	Guaranteed
	Burstable
	BestEffort
)

// Live reports whether the pod runs or may still run.
func (p *Pod) Live() bool { return !p.Deleting && !p.HasFinished() }

// HasFinished reports whether all containers of the pod have ended for good.
func (p *Pod) HasFinished() bool { return p.Phase == Succeeded || p.Phase == Failed }

// Workload returns the topmost controller of the pod, because the direct controller of a Deployment's pods changes with each rollout. It is the
// direct controller while the topmost is unknown, and the pod itself if it has none.
func (p *Pod) Workload() Workload {
	switch {
	case !p.Top.IsZero():
		return p.Top
	case !p.Controller.IsZero():
		return p.Controller
	}
	return Workload{Kind: "Pod", Namespace: p.Namespace, Name: p.Name}
}

// ObservedContainers returns the annotation vpaObservedContainers, or "" if all regular containers count as observed.
func (p *Pod) ObservedContainers() string {
	if p.Marks == nil || p.Marks.Observed == nil {
		return ""
	}
	return *p.Marks.Observed
}

// IsProtected reports whether an annotation forbids to evict the pod.
func (p *Pod) IsProtected() bool { return p.Marks != nil && p.Marks.Protection != "" }

// Container returns the regular container or native sidecar with a name, or nil.
func (p *Pod) Container(name string) *Container {
	return Find(p.Containers, func(c *Container) bool { return c.Name == name })
}

// Find returns the first element of a slice for which a condition holds, or nil.
func Find[T any](all []T, holds func(*T) bool) *T {
	for i := range all {
		if holds(&all[i]) {
			return &all[i]
		}
	}
	return nil
}

// FindOrAdd returns the first element of a slice for which a condition holds, or another one that it appends.
func FindOrAdd[T any](all *[]T, holds func(*T) bool, other T) *T {
	if found := Find(*all, holds); found != nil {
		return found
	}
	*all = append(*all, other)
	return &(*all)[len(*all)-1]
}

// Each returns what a function without side effects makes of each element.
func Each[T, R any](all []T, of func(*T) R) []R {
	out := make([]R, 0, len(all))
	for i := range all {
		out = append(out, of(&all[i]))
	}
	return out
}

// SetOf returns the set of what a function without side effects makes of each element.
func SetOf[T any, K comparable](all []T, of func(T) K) map[K]bool {
	out := make(map[K]bool, len(all))
	for _, element := range all {
		out[of(element)] = true
	}
	return out
}

// Where returns the elements of a slice for which a condition holds.
func Where[T any](all []T, holds func(*T) bool) []*T {
	var out []*T
	for i := range all {
		if holds(&all[i]) {
			out = append(out, &all[i])
		}
	}
	return out
}

// GroupBy returns the elements by what a function without side effects makes of each, in their order.
func GroupBy[T any, K comparable](all []T, of func(T) K) map[K][]T {
	out := make(map[K][]T)
	for _, element := range all {
		out[of(element)] = append(out[of(element)], element)
	}
	return out
}

// Put sets the value of a key in a map, which it makes first if it is nil.
func Put[M ~map[K]V, K comparable, V any](in *M, key K, value V) {
	if *in == nil {
		*in = M{}
	}
	(*in)[key] = value
}

// Memo returns the value of a key in a map, which may be nil at first. A value that is not there yet is computed and kept.
func Memo[K comparable, V any](in *map[K]V, key K, compute func() V) V {
	v, known := (*in)[key]
	if !known {
		v = compute()
		Put(in, key, v)
	}
	return v
}

// StartOf returns when a container of the pod was started, after a restart the last time, in Unix seconds; 0 if it does not run, or if the
// time is not known.
func (p *Pod) StartOf(c *Container) int64 {
	switch {
	case c.Exit != nil:
		return c.Exit.Resumed
	case c.Delay > 0 && !p.Started.IsZero():
		return p.Started.Unix() + int64(c.Delay) - 1
	}
	return 0
}

// DelayOf returns Container.Delay of a container of the pod that was first started at a time, in Unix seconds. It is 0 for a start before that
// of the pod, or more than 18 hours after it.
func (p *Pod) DelayOf(started int64) uint16 {
	delay := started - p.Started.Unix() + 1
	if p.Started.IsZero() || delay < 1 || delay > math.MaxUint16 {
		return 0
	}
	return uint16(delay)
}

// A ContainerRole is the kind of a container: the list of the pod that contains it, and how it runs.
type ContainerRole uint8

// The roles of a container.
const (
	Regular      ContainerRole = iota
	Init                       // runs to its end before the regular containers start
	Sidecar                    // an init container that keeps running (restartPolicy Always)
	FixedSidecar               // a sidecar that podfit does not size (Pod.Fix)
)

// A Container is one container of a pod.
type Container struct {
	Name     string
	Role     ContainerRole
	Index    uint8     // its index in spec.containers, or in spec.initContainers for all roles but Regular
	Reported bool      // its status contains the resources that it runs with
	Restart  Set       // resources whose resize restarts the container (resizePolicy RestartContainer)
	Restarts uint16    // at most 65,535; placed here to keep the struct at 96 bytes
	Delay    uint16    // seconds from the start of the pod to its first start, plus 1; 0 if that is not known. See Pod.StartOf
	Requests Resources // wanted (spec)
	Limits   Resources // wanted (spec)
	Applied  *Applied  // actual resources (status); nil if they equal the spec or are not known
	Exit     *Exit     // its last termination; nil if there is none
	Boosted  *Applied  // its resources before the CPU startup boost (annotation vpaCpuStartupBoost/<name>); nil without a boost
}

// IsSized reports whether podfit measures the container and sets its size.
func (c *Container) IsSized() bool { return c.Role == Regular || c.Role == Sidecar }

// Fix makes the sidecars and the pod-level resources of the pod keep their sizes, as with upstream (--size-sidecars=false, --size-pod-level=false).
func (p *Pod) Fix(f Fixed) {
	if p.PodLevel != nil {
		p.PodLevel.Fixed = f.PodLevel
	}
	for i := range p.Containers {
		if c := &p.Containers[i]; c.Role == Sidecar && f.Sidecars {
			c.Role = FixedSidecar
		}
	}
}

// Fixed is what podfit sizes and upstream does not, and a flag leaves alone.
type Fixed struct{ Sidecars, PodLevel bool }

// Applied contains the actual resources of a running container.
type Applied struct{ Requests, Limits Resources }

// Running returns the requests and limits that the container runs with.
func (c *Container) Running() (requests, limits Resources) {
	if c.Applied != nil {
		return c.Applied.Requests, c.Applied.Limits
	}
	return c.Requests, c.Limits
}

// An Exit is the last termination of a container.
type Exit struct {
	OOM      bool  // OOM-killed: at the memory limit of the container or pod, or because the node was short of memory
	Kills    uint8 // consecutive OOM kills that the watch has delivered, at least 1 if OOM
	Started  time.Time
	Finished time.Time
	Resumed  int64 // Unix seconds of the start after it (status.state.running); 0 if it does not run
	Now      bool  // the container has not restarted since
}

// A Crash contains the fields of a pod that podfit uses only while the pod is not ready because of an OOM kill. Few pods have it.
type Crash struct {
	Version string   // metadata.resourceVersion
	Labels  []string // "key=value", sorted
}

// A ResizeState is the state of an in-place resize.
type ResizeState uint8

// The states of a resize, from the conditions PodResizePending and PodResizeInProgress of the pod.
const (
	NoResize         ResizeState = iota
	ResizeDeferred               // does not fit on the node now
	ResizeInfeasible             // can never fit on this node
	ResizeInProgress
	ResizeError
	ResizeUnknown // a reason that podfit does not know
)

// A ResizeProblem is the cause of a failed resize, for the causes that podfit treats in a special way.
type ResizeProblem uint8

// The problems of a resize, read from the message of the pod's condition.
const (
	OtherProblem ResizeProblem = iota // no failure, or a cause without special treatment
	MemoryInUse                       // the kubelet does not lower a memory limit below the current usage
)

// A Resize is an unfinished in-place resize.
type Resize struct {
	State   ResizeState
	Problem ResizeProblem
	Since   time.Time // the condition's lastTransitionTime
	Message string
}

// IsResizing reports whether the kubelet has a resize of the pod to do.
func (p *Pod) IsResizing() bool { return p.Resize != nil && p.Resize.State != NoResize }

// IsDeferred reports whether a resize of the pod waits for room on its node.
func (p *Pod) IsDeferred() bool { return p.Resize != nil && p.Resize.State == ResizeDeferred }

// IsAnyRunning reports whether at least one container runs. Older API servers refuse to resize other pods.
func (p *Pod) IsAnyRunning() bool {
	return slices.ContainsFunc(p.Containers, func(c Container) bool { return c.Role == Regular && (c.Exit == nil || !c.Exit.Now) })
}

// IsBoosted reports whether a container has a CPU startup boost.
func (p *Pod) IsBoosted() bool {
	return slices.ContainsFunc(p.Containers, func(c Container) bool { return c.Boosted != nil })
}

// Serves reports whether the pod is in service: started and ready (W-14 in docs/migrate.md).
func (p *Pod) Serves() bool { return p.Phase != Pending && p.Ready }

// podNames are the patterns of pod names, by the kind of the owner. Kubernetes generates the random parts from an alphabet without
// vowels.
var podNames = []struct {
	group, kind string
	form        *regexp.Regexp
}{
	{"batch", "CronJob", regexp.MustCompile(`^(.+)-[0-9]{8,11}-[bcdfghjklmnpqrstvwxz2456789]{5}$`)},
	{"apps", "Deployment", regexp.MustCompile(`^(.+)-[bcdfghjklmnpqrstvwxz2456789]{6,10}-[bcdfghjklmnpqrstvwxz2456789]{5}$`)},
	{"apps", "StatefulSet", regexp.MustCompile(`^(.+)-[0-9]+$`)},
	{"apps", "DaemonSet", regexp.MustCompile(`^(.+)-[bcdfghjklmnpqrstvwxz2456789]{5}$`)}, // or a Job
}

// OwnerByName guesses the workload of a pod from the pod's name, for pods that no longer exist. A pod whose name matches no pattern is its
// own workload.
func OwnerByName(pod Key) Workload {
	for _, n := range podNames {
		if m := n.form.FindStringSubmatch(pod.Name); m != nil {
			return Workload{Group: n.group, Kind: n.kind, Namespace: pod.Namespace, Name: m[1]}
		}
	}
	return Workload{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name}
}

// maxPodNames is the maximum length of the names of live pods in the result of PodNames, because it becomes part of a URL.
const maxPodNames = 2000

// PodNames returns a regular expression (RE2, not anchored) for the names of the pods of a workload: names that are generated as those of its
// kind or of its live pods, and the names of other live pods up to 2000 bytes. It is "" if no name is known.
func PodNames(w Workload, live []*Pod) string {
	var all []string
	kinds := map[string]bool{w.Kind: true}
	length := 0
	for _, p := range live {
		if by := OwnerByName(p.Key); by.Name == w.Name {
			kinds[by.Kind] = true
		} else if length += len(p.Name) + 1; length <= maxPodNames {
			all = append(all, regexp.QuoteMeta(p.Name))
		}
	}
	for _, n := range podNames {
		if kinds[n.kind] {
			all = append(all, strings.Trim(strings.Replace(n.form.String(), "(.+)", regexp.QuoteMeta(w.Name), 1), "^$"))
		}
	}
	if kinds["Pod"] {
		all = append(all, regexp.QuoteMeta(w.Name))
	}
	return strings.Join(all, "|")
}

// A CapacityRequest is an object in the cluster that asks for room for the replacement of a pod before the pod is evicted.
type CapacityRequest struct {
	Key
	UID     string
	Kind    RequestKind
	State   RequestState
	Created time.Time
	Size    Resources // what the replacement requests
	Node    string    // of a placeholder pod; "" if it has none
	Text    string    // why it failed; "" if it has not
}

// A RequestKind is the kind of a request for capacity.
type RequestKind uint8

// The kinds of requests for capacity.
const (
	PlaceholderPod      RequestKind = iota // a pod with the size of the replacement
	ProvisioningRequest                    // an object of the group autoscaling.x-k8s.io, for a cluster autoscaler
)

// String returns the Kubernetes name of the object.
func (k RequestKind) String() string {
	if k == ProvisioningRequest {
		return "ProvisioningRequest"
	}
	return "placeholder pod"
}

// A RequestState is the state of a request for capacity.
type RequestState uint8

// The states of a request for capacity.
const (
	RequestWaiting  RequestState = iota // neither accepted nor failed
	RequestAccepted                     // an autoscaler has accepted it
	RequestProvided                     // the capacity is there
	RequestFailed                       // the autoscaler cannot provide it, or has taken it back
)

// placeholderPrefix is the start of the name of every request for capacity.
const placeholderPrefix = "podfit-placeholder-"

// PlaceholderOf returns the key of the request for capacity for the replacement of a pod. The name follows from the UID of the pod, so a
// repeated request creates no second object, and the request for a pod is found without further data.
func PlaceholderOf(p *Pod) Key { return PlaceholderFor(p.Namespace, p.UID) }

// PlaceholderFor is PlaceholderOf for a pod of which only the namespace and the UID are known.
func PlaceholderFor(namespace, uid string) Key {
	h := fnv.New64a()
	_, _ = h.Write([]byte(uid)) // never fails
	return Key{Namespace: namespace, Name: placeholderPrefix + hex.EncodeToString(h.Sum(nil))}
}

// Latest returns the later of two times.
func Latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Earliest returns the earlier of two times. A zero time is not known, and does not count.
func Earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
