// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"podfit.dev/podfit/internal/core/cluster"
)

// A world is a cluster before the first pass, and everything that happens to it later. It is plain data: the same world runs
// under both updaters, and a failing one is shown as YAML.
type world struct {
	Minutes    int     // how long the simulation lasts
	Rate       float64 `json:",omitempty"` // --eviction-rate-limit, in evictions a minute; 0 is without limit
	Min        int     // --min-replicas
	Tolerance  float64 // --eviction-tolerance
	SkipBudget bool    `json:",omitempty"` // --in-place-skip-disruption-budget
	Lag        int     `json:",omitempty"` // minutes by which what updaters know of pods is behind
	Node       size    // allocatable amounts of each of the nodes
	Nodes      int     `json:",omitempty"` // how many nodes; 0 is one node of unlimited size
	Workloads  []workload
}

// A size is an amount of CPU in millicores and of memory in MiB.
type size struct{ CPU, Memory int64 }

func (s size) resources() cluster.Resources { return cluster.Amounts(s.CPU, s.Memory<<20) }

// A workload is a controller with its pods, its autoscaler and whatever guards the pods. Each has its own namespace.
type workload struct {
	StatefulSet bool `json:",omitempty"` // else a Deployment
	Replicas    int
	Mode        string
	MinReplicas int32  `json:",omitempty"` // of the autoscaler
	Template    size   // requests in the pod template
	Limits      string `json:",omitempty"` // "": none; "same": equal to the requests; "twice"
	Restart     bool   `json:",omitempty"` // a resize of memory restarts the container
	Advice      []advice
	Scales      []scaling `json:",omitempty"` // changes of the number of replicas
	Fine        []int     `json:",omitempty"` // replicas that have the target of the first advice from the beginning

	// What happens to new pods.
	Unsized    *window `json:",omitempty"` // new pods do not get their recommendation: the webhook is away, or another one resets it
	Delay      int     `json:",omitempty"` // minutes until the controller creates a missing pod
	Grace      int     `json:",omitempty"` // minutes that a deleted pod takes to go
	Start      int     `json:",omitempty"` // minutes from start to ready
	NeverReady []int   `json:",omitempty"` // replicas that never get ready

	// What may refuse a change.
	PDBs     []pdb       `json:",omitempty"`
	Faults   []fault     `json:",omitempty"`
	Quota    *int64      `json:",omitempty"` // millicores of CPU that the namespace may request beyond what it does at first
	MostMB   int64       `json:",omitempty"` // LimitRange: most memory of a container, in MiB
	Resizing resizing    `json:",omitzero"`
	OOM      outOfMemory `json:",omitzero"`
	Undo     int         `json:",omitempty"` // minutes after which somebody sets a resized pod back to its template
}

// An advice is what the autoscaler's status says from a minute on. Bounds are half and twice the target.
type advice struct {
	At     int // minute
	Target size
}

// A scaling is how many replicas the user wants from a minute on.
type scaling struct{ At, Replicas int }

// A window is a time, in minutes; To 0 is the end.
type window struct{ From, To int }

func (w *window) open(minute int) bool {
	return w != nil && minute >= w.From && (w.To == 0 || minute < w.To)
}

// A pdb is a PodDisruptionBudget over the workload's pods, or over its first replica only.
type pdb struct {
	MinAvailable   int  `json:",omitempty"`
	MaxUnavailable int  `json:",omitempty"` // used when MinAvailable is 0
	FirstOnly      bool `json:",omitempty"`
}

// What can go wrong with a request.
const (
	denied403  = "denied with 403"    // by a validating webhook that says so
	denied400  = "denied with 400"    // by a validating webhook that gives no code
	failed500  = "failed webhook"     // which cannot be called, and fails closed
	busy429    = "server overloaded"  // priority and fairness
	conflict   = "conflict"           // another writer was faster
	lostReply  = "reply lost"         // carried out, and the connection breaks
	noReply    = "connection refused" // not carried out
	slowReply  = "slow"               // carried out after five seconds
	nodeTooBig = "node capacity"      // resize: the node can never give as much (Kubernetes 1.36)
)

// A fault happens to requests of a kind for a time.
type fault struct {
	Verb  string // evict, resize
	What  string
	First bool `json:",omitempty"` // only to the first replica
	When  window
	Every int `json:",omitempty"` // every so many requests only, 0 is all
}

// A resizing is how the kubelet carries out a resize.
type resizing struct {
	How string `json:",omitempty"` // "": at once; deferred, infeasible, in progress, error, memory in use, silent
	For int    `json:",omitempty"` // minutes until it is done after all; 0 is never
}

// An outOfMemory is a container that is killed for memory again and again while it has less than it needs.
type outOfMemory struct {
	NeedMB int64 `json:",omitempty"`
	Every  int   `json:",omitempty"` // minutes that a container lives
}
