// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// Why names the reason of a decision. Its text is a stable name for metrics and logs; Reason.String is for people.
type Why uint8

// The reasons for a pod to change.
const (
	Fits           Why = iota // none: the pod is as it should be
	BelowRange                // a request is below the lower bound
	AboveRange                // a request is above the upper bound
	MissingRequest            // a recommended resource is not requested at all
	OutOfMemory               // killed for memory soon after its start
	Drifted                   // within range, but old enough and far enough from the target
	BoostOver                 // the CPU startup boost has served
	TooBigToPlace             // cannot be scheduled, and is recommended to be smaller
)

// The reasons to leave a pod alone.
const (
	ModeOff               Why = iota + 32 // the autoscaler's mode changes no running pods
	GateOff                               // the mode needs a feature gate that is off
	NoAdvice                              // nothing is recommended for any of its containers
	Young                                 // within range, and not old enough for less
	SmallChange                           // within range, and close to the target
	SameSize                              // a replacement would get what the pod has
	Boosted                               // its startup boost lasts
	Unowned                               // no controller would replace it
	Starting                              // Pending: a resize must wait until it runs
	Unscheduled                           // waits for a node
	TooFewReplicas                        // its group has fewer pods than the minimum
	ReplicasUnknown                       // its controller wants none, or it cannot be said how many
	BudgetSpent                           // as many pods as may be missing are missing after this pass
	NotReady                              // as many pods as may be missing are not ready yet
	RequirementsUnmet                     // the user's eviction requirements do not hold
	QoSChange                             // a resize may not change the quality-of-service class
	BackingOff                            // changes made before did not help
	Unplaceable                           // a replacement of the new size would fit no node
	ResizeWaiting                         // the kubelet waits for room on the node
	ResizeRunning                         // the kubelet is at it
	ResizeFailed                          // the kubelet reports an error
	ResizeImpossible                      // the node can never give it
	ResizeUnclear                         // the kubelet reports something this version does not know
	MemoryInUse                           // the kubelet does not lower a memory limit below what is used
	NotSmallerThanRefused                 // the node refused this much before
)

var whyNames = map[Why]string{
	Fits: "Fits", BelowRange: "BelowRange", AboveRange: "AboveRange", MissingRequest: "MissingRequest",
	OutOfMemory: "OutOfMemory", Drifted: "Drifted", BoostOver: "BoostOver", TooBigToPlace: "TooBigToPlace",
	ModeOff: "ModeOff", GateOff: "GateOff", NoAdvice: "NoAdvice", Young: "Young", SmallChange: "SmallChange",
	SameSize: "SameSize", Boosted: "Boosted", Unowned: "Unowned", Starting: "Starting", Unscheduled: "Unscheduled",
	TooFewReplicas: "TooFewReplicas", ReplicasUnknown: "ReplicasUnknown", BudgetSpent: "BudgetSpent",
	NotReady: "NotReady", RequirementsUnmet: "RequirementsUnmet", QoSChange: "QoSChange", BackingOff: "BackingOff",
	Unplaceable: "Unplaceable", ResizeWaiting: "ResizeWaiting", ResizeRunning: "ResizeRunning",
	ResizeFailed: "ResizeFailed", ResizeImpossible: "ResizeImpossible", ResizeUnclear: "ResizeUnclear",
	MemoryInUse: "MemoryInUse", NotSmallerThanRefused: "NotSmallerThanRefused",
}

// String returns the name of the reason.
func (w Why) String() string {
	if n, ok := whyNames[w]; ok {
		return n
	}
	return fmt.Sprintf("Why(%d)", uint8(w))
}

// A Reason says why a decision was taken. Which fields mean something depends on Why; the text is made when asked for,
// so that a pass over many pods makes none.
type Reason struct {
	Why       Why
	Container string // "" when the pod has only one
	Resource  cluster.Resource
	From, To  int64 // the request and what it should be; zero resource: not about one
	Have      int   // how many there are of what Want counts
	Want      int
	For       time.Duration
	Until     time.Time
	Text      string // what the kubelet said, or a mode
	Because   Why    // why the obvious act was not the one chosen: evicting because a resize failed
}
