// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import "time"

// A Mode says how an autoscaler applies its recommendation (spec.updatePolicy.updateMode).
type Mode uint8

// The update modes. An autoscaler without a mode is Recreate, as upstream has it.
const (
	Recreate          Mode = iota // at admission, and by eviction
	Off                           // status only
	Initial                       // at admission only
	Auto                          // means Recreate; deprecated
	InPlaceOrRecreate             // at admission, by resize, and by eviction where a resize cannot
	InPlace                       // at admission and by resize, never by eviction
)

var modeNames = [...]string{"Recreate", "Off", "Initial", "Auto", "InPlaceOrRecreate", "InPlace"}

// String returns the API's name of the mode.
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return "Unknown"
}

// ParseMode returns the mode with an API name; "" is Recreate.
func ParseMode(name string) (Mode, bool) {
	if name == "" {
		return Recreate, true
	}
	for i, n := range modeNames {
		if n == name {
			return Mode(i), true
		}
	}
	return Recreate, false
}

// Updates reports whether running pods are changed in this mode.
func (m Mode) Updates() bool { return m != Off && m != Initial }

// Evicts reports whether pods may be evicted in this mode.
func (m Mode) Evicts() bool { return m == Recreate || m == Auto || m == InPlaceOrRecreate }

// Resizes reports whether pods are resized in place in this mode.
func (m Mode) Resizes() bool { return m == InPlaceOrRecreate || m == InPlace }

// An Autoscaler is a VerticalPodAutoscaler, parsed once when it arrives.
type Autoscaler struct {
	Key
	UID           string
	Created       time.Time
	Generation    int64
	Target        Workload // spec.targetRef with the API version dropped
	APIVersion    string   // spec.targetRef.apiVersion as written, for messages
	Recommender   string   // spec.recommenders[0].name, "" when none is named
	Mode          Mode
	MinReplicas   int32 // 0: not set
	Policies      []ContainerPolicy
	Requirements  []EvictionRequirement
	EvictAfterOOM time.Duration // 0: not set
	Boost         *Boost        // spec.startupBoost
	Advice        []Advice      // status.recommendation, sorted by container
	IntegerCPU    []string      // containers whose CPU is rounded up to whole cores (annotation), sorted

	// ProfileProblem is the reason of the condition SizingProfileUsable while that is False, "" otherwise.
	ProfileProblem string

	// StatusOutdated is whether the status was written for an earlier generation of the spec. It is false where the API server stores
	// no status.observedGeneration.
	StatusOutdated bool

	// Remarked is whether its status has any of podfit's own conditions, which go when another recommender serves it.
	Remarked bool

	// FetchingHistory is whether somebody says in its status that its history is still being read: nothing of it is stored
	// meanwhile.
	FetchingHistory bool
}

// Policy returns the policy for a container: the first with its name, else the first for "*", else nil.
func (a *Autoscaler) Policy(container string) *ContainerPolicy {
	var wildcard *ContainerPolicy
	for i := range a.Policies {
		switch p := &a.Policies[i]; p.Container {
		case container:
			return p
		case "*":
			if wildcard == nil {
				wildcard = p
			}
		}
	}
	return wildcard
}

// AdviceFor returns the recommendation for a container, or nil.
func (a *Autoscaler) AdviceFor(container string) *Advice {
	for i := range a.Advice {
		if a.Advice[i].Container == container {
			return &a.Advice[i]
		}
	}
	return nil
}

// A ContainerPolicy is what the user allows for one container (spec.resourcePolicy.containerPolicies[]).
type ContainerPolicy struct {
	Container    string // "*" is for every container without a policy of its own
	Off          bool   // mode Off: leave the container alone
	MinAllowed   Resources
	MaxAllowed   Resources
	Controlled   Set  // meaningful when ControlsSet; else both
	ControlsSet  bool // controlledResources was given, possibly empty
	RequestsOnly bool // controlledValues RequestsOnly: leave limits alone

	OOMBumpRatio   float64 // 0: not set
	OOMMinBump     int64   // bytes; meaningful when OOMMinBumpSet
	OOMMinBumpSet  bool
	MemoryInterval time.Duration // 0: not set
	MemoryCount    int64         // 0: not set
	Boost          *Boost
}

// Controls returns the resources the policy lets podfit size. A nil policy allows both.
func (p *ContainerPolicy) Controls() Set {
	switch {
	case p == nil:
		return Both
	case p.Off:
		return 0
	case p.ControlsSet:
		return p.Controlled
	}
	return Both
}

// A Boost is extra CPU while a container starts.
type Boost struct {
	Factor     int32 // used when Quantity is not set
	Quantity   int64 // millicores, meaningful when ByQuantity
	ByQuantity bool
	Duration   time.Duration // how long after Ready the boost stays
}

// An EvictionRequirement must hold before a pod is evicted (spec.updatePolicy.evictionRequirements[]).
type EvictionRequirement struct {
	Resources Set
	Higher    bool // TargetHigherThanRequests; else TargetLowerThanRequests
}

// An Estimate is what a container should be given: a target, and the range in which a running pod is left alone.
type Estimate struct{ Lower, Target, Upper Resources }

// Advice is the recommendation for one container, as it stands in an autoscaler's status.
type Advice struct {
	Container string
	Estimate
	Uncapped Resources // the target before policy and caps
}
