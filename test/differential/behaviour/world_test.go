// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"podfit.dev/podfit/internal/core/cluster"
)

// A world is the initial state of a cluster and the events of the simulation. It is plain data: both updaters run in the same
// world, and a failing world is shown as YAML.
type world struct {
	Minutes    int     // duration of the simulation
	Rate       float64 `json:",omitempty"` // --eviction-rate-limit, in evictions per minute; 0 means no limit
	Min        int     // --min-replicas
	Tolerance  float64 // --eviction-tolerance
	SkipBudget bool    `json:",omitempty"` // --in-place-skip-disruption-budget
	Quotas     bool    `json:",omitempty"` // podfit may read ResourceQuotas, as with its own chart; upstream cannot
	Rescue     bool    `json:",omitempty"` // podfit has its default --oom-rescue=delete, and may read PodDisruptionBudgets; otherwise --oom-rescue=off
	Lag        int     `json:",omitempty"` // minutes by which the watches of updaters are behind
	Defaults   bool    `json:",omitempty"` // all flags of podfit have their defaults, see newPodfit, and the cluster changes every few seconds
	Unsized    *window `json:",omitempty"` // new pods of all workloads do not get the recommended size: the webhook is not called
	Node       size    // allocatable resources of each node
	Nodes      int     `json:",omitempty"` // number of nodes; 0 means one node of unlimited size
	Workloads  []workload
}

// A size is CPU in millicores and memory in MiB.
type size struct{ CPU, Memory int64 }

func (s size) resources() cluster.Resources { return cluster.Amounts(s.CPU, s.Memory<<20) }

// A workload is a controller with its pods, autoscaler, disruption budgets and quotas. Each workload has its own namespace.
type workload struct {
	StatefulSet bool `json:",omitempty"` // otherwise a Deployment
	Replicas    int
	Mode        string
	MinReplicas int32  `json:",omitempty"` // of the autoscaler
	AfterOOM    int32  `json:",omitempty"` // evictAfterOOMSeconds of the autoscaler, which needs the feature gate PerVPAConfig
	Template    size   // requests in the pod template
	Limits      string `json:",omitempty"` // "": none; "same": equal to the requests; "twice"
	Second      bool   `json:",omitempty"` // pods have a second container with the same template and recommendation
	Restart     bool   `json:",omitempty"` // a resize of memory restarts the container
	Advice      []advice
	Scales      []scaling      `json:",omitempty"` // changes of the number of replicas
	Fine        []int          `json:",omitempty"` // replicas that initially have the size of the first recommendation
	Followers   *size          `json:",omitempty"` // the first replica is the leader, and others need only this part of the recommendation, in percent
	Leads       []leaderChange `json:",omitempty"` // changes of the leader

	// New pods.
	Unsized    *window `json:",omitempty"` // new pods do not get the recommended size: the webhook is not called
	Reset      *window `json:",omitempty"` // likewise: another webhook resets the requests of new pods
	Delay      int     `json:",omitempty"` // minutes until the controller creates a missing pod
	Grace      int     `json:",omitempty"` // minutes until a deleted pod is removed
	Start      int     `json:",omitempty"` // minutes from start to ready
	NeverReady []int   `json:",omitempty"` // replicas that never become ready

	// Refusals, faults and undone changes.
	PDBs     []pdb       `json:",omitempty"`
	Faults   []fault     `json:",omitempty"`
	Quota    *int64      `json:",omitempty"` // millicores of CPU that the namespace may request in addition to its initial requests
	MostMB   int64       `json:",omitempty"` // maximum memory of a container in the LimitRange, in MiB
	Resizing resizing    `json:",omitzero"`
	OOM      outOfMemory `json:",omitzero"`
	Undo     int         `json:",omitempty"` // minutes after which a resized pod is reset to its template
}

// An advice is the recommendation from a minute on. Its bounds are half and twice the target.
type advice struct {
	At     int // minute
	Target size
}

// A scaling is a change of the number of replicas in a minute.
type scaling struct{ At, Replicas int }

// A leaderChange makes a replica the leader from a minute on.
type leaderChange struct{ At, Leader int }

// A window is a range of minutes without its end; To 0 means the end of the simulation.
type window struct{ From, To int }

func (w *window) open(minute int) bool {
	return w != nil && minute >= w.From && (w.To == 0 || minute < w.To)
}

// A pdb is a PodDisruptionBudget for all pods of the workload, or for its first replica only.
type pdb struct {
	MinAvailable   int  `json:",omitempty"`
	MaxUnavailable int  `json:",omitempty"` // used if MinAvailable is 0
	FirstOnly      bool `json:",omitempty"`
}

// The faults of requests.
const (
	denied403  = "denied with 403"    // by a validating webhook with that code
	denied400  = "denied with 400"    // by a validating webhook without a code
	failed500  = "failed webhook"     // a webhook with failurePolicy Fail cannot be called
	busy429    = "server overloaded"  // by API priority and fairness
	conflict   = "conflict"           // the object was changed concurrently
	lostReply  = "reply lost"         // carried out, but the connection is closed without a response
	noReply    = "no reply"           // not carried out, and the connection is closed without a response
	notSent    = "connection refused" // not carried out: no connection can be opened
	slowReply  = "slow"               // carried out after five seconds
	nodeTooBig = "node capacity"      // resize only: the node is too small (Kubernetes 1.36)
)

// A fault affects requests with a verb in a window.
type fault struct {
	Verb  string // evict, resize
	What  string
	First bool `json:",omitempty"` // only requests for the first replica
	When  window
	Every int `json:",omitempty"` // affects only every n-th of these requests; 0 means all
}

// A resizing is the behaviour of the kubelet for resizes.
type resizing struct {
	How string `json:",omitempty"` // "": immediate; deferred, infeasible, in progress, error, memory in use, silent
	For int    `json:",omitempty"` // minutes until the resize succeeds; 0 means never
}

// An outOfMemory is a container that is repeatedly OOM-killed while it has less memory than it needs.
type outOfMemory struct {
	NeedMB  int64 `json:",omitempty"`
	Every   int   `json:",omitempty"` // minutes from start to OOM kill, and from there to the restart
	Seconds int   `json:",omitempty"` // seconds from start to OOM kill, instead of Every; the kubelet restarts the container after its back-off
}
