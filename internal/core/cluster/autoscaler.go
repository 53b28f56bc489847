// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"slices"
	"time"
)

// A Mode is the way in which an autoscaler applies its recommendation (spec.updatePolicy.updateMode).
type Mode uint8

// The update modes. As in upstream, the default is Recreate.
const (
	Recreate          Mode = iota // at admission, and by eviction
	Off                           // status only
	Initial                       // at admission only
	Auto                          // means Recreate; deprecated
	InPlaceOrRecreate             // at admission, by resize, and by eviction if a resize is not possible
	InPlace                       // at admission and by resize, never by eviction
)

var modeNames = [...]string{"Recreate", "Off", "Initial", "Auto", "InPlaceOrRecreate", "InPlace"}

// String returns the name of the mode in the API.
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return "Unknown"
}

// ParseMode returns the mode with a name in the API; "" is Recreate.
func ParseMode(name string) (Mode, bool) {
	i := slices.Index(modeNames[:], cmp.Or(name, Recreate.String()))
	return Mode(max(i, 0)), i >= 0
}

// Modes returns all modes, in the order of how much they change.
func Modes() []Mode { return []Mode{Off, Initial, Recreate, InPlaceOrRecreate, InPlace, Auto} }

// Applies reports whether any pod gets the recommendation in this mode.
func (m Mode) Applies() bool { return m != Off }

// OnlyNewPods reports whether the recommendation is applied at admission only.
func (m Mode) OnlyNewPods() bool { return m == Initial }

// Updates reports whether running pods are changed in this mode.
func (m Mode) Updates() bool { return m.Applies() && !m.OnlyNewPods() }

// Evicts reports whether pods may be evicted in this mode.
func (m Mode) Evicts() bool { return m == Recreate || m == Auto || m == InPlaceOrRecreate }

// Resizes reports whether pods are resized in place in this mode.
func (m Mode) Resizes() bool { return m == InPlaceOrRecreate || m == InPlace }

// OnlyInPlace reports whether running pods are changed by resizes in place only.
func (m Mode) OnlyInPlace() bool { return m.Resizes() && !m.Evicts() }

// An Autoscaler is a VerticalPodAutoscaler. It is parsed once, when the watch delivers it.
type Autoscaler struct {
	Key
	UID           string
	Created       time.Time
	Generation    int64
	Target        Workload // spec.targetRef without the API version
	APIVersion    string   // spec.targetRef.apiVersion as written, for messages
	Recommender   string   // spec.recommenders[0].name, "" if not set
	Mode          Mode
	MinReplicas   int32 // 0: not set
	Policies      []ContainerPolicy
	Requirements  []EvictionRequirement
	EvictAfterOOM time.Duration // 0: not set
	Boost         *Boost        // spec.startupBoost
	Advice        []Advice      // status.recommendation, sorted by container
	IntegerCPU    []string      // containers whose CPU is rounded up to whole cores (annotation), sorted
	Rules         ChangeRules   // the user's rules for changes of running pods (annotations)
	Canary        Canary        // how changes are rolled out (annotations)
	Guards        RuntimeGuards // what is done for containers whose language runtime is known (annotations)
	CPULimits     LimitRule     // what is done with the CPU limits of new pods (annotation)
	MemoryLimits  LimitRule     // how memory limits follow (annotation)
	Learning      BoostLearning // whether startup boosts are learnt (annotation)
	AdvisedSince  time.Time     // when the condition RecommendationProvided became True; without it, Created

	// PreserveScalePoint is true if the annotation podfit.dev/hpa allows podfit to change a request by which an HPA scales, together
	// with the target of the HPA.
	PreserveScalePoint bool

	// Horizontal are the HPAs of the target that depend on requests, sorted. They are not part of the object: see WithHorizontal.
	Horizontal []*HorizontalAutoscaler

	// NodeSizes are the size classes of the nodes by name, if pods are sized by them (SizesByNode). They are not part of the object.
	NodeSizes map[string]string

	// OptedIn is true if podfit maintains the autoscaler for its namespace (label podfit.dev/namespace), OptInEnded when that has ended.
	OptedIn    bool
	OptInEnded time.Time

	// MakeRoom is the annotation podfit.dev/make-room as written: what may be done to make room for resizes of its pods. "" means that
	// the flag --make-room applies.
	MakeRoom string

	// Mover is the annotation podfit.dev/mover as written: how its pods are replaced. "" means that the flag --mover applies.
	Mover string

	// ProfileProblem is the reason of the condition SizingProfileUsable while that is False, "" otherwise.
	ProfileProblem string

	// StatusOutdated is true if the status was written for an earlier generation of the spec. It is false if the API server stores no
	// status.observedGeneration.
	StatusOutdated bool

	// Remarked is true if the status has a condition that only podfit sets. podfit removes these when another recommender serves the
	// autoscaler.
	Remarked bool

	// Frozen is true if the updater reports that pods wait because a person has stopped all changes.
	Frozen bool

	// FetchingHistory is true while a condition in the status reports that the history is still being read. No checkpoint of its
	// workload is written in the meantime.
	FetchingHistory bool
}

// Former returns the workload whose usage history the target continues (Settings.Continues), zero if there is none.
func (a *Autoscaler) Former() Workload {
	if a.Rules.Continues == "" || a.Rules.Continues == a.Target.Name || a.Target.IsZero() {
		return Workload{}
	}
	w := a.Target
	w.Name = a.Rules.Continues
	return w
}

// Policy returns the policy for a container: the first with its name, else the first for "*", else nil.
func (a *Autoscaler) Policy(container string) *ContainerPolicy {
	of := func(name string) *ContainerPolicy {
		return Find(a.Policies, func(p *ContainerPolicy) bool { return p.Container == name })
	}
	return cmp.Or(of(container), of("*"))
}

// KeysOf returns the keys of autoscalers.
func KeysOf(autoscalers []*Autoscaler) map[Key]bool {
	return SetOf(autoscalers, func(a *Autoscaler) Key { return a.Key })
}

// AdviceFor returns the recommendation for a container, or nil.
func (a *Autoscaler) AdviceFor(container string) *Advice {
	return Find(a.Advice, func(v *Advice) bool { return v.Container == container })
}

// A ContainerPolicy contains the user's settings for one container (spec.resourcePolicy.containerPolicies[]).
type ContainerPolicy struct {
	Container    string // "*" applies to all containers without their own policy
	Off          bool   // mode Off: the container is not changed
	MinAllowed   Resources
	MaxAllowed   Resources
	Controlled   Set  // valid if ControlsSet; else both
	ControlsSet  bool // controlledResources is set, possibly empty
	RequestsOnly bool // controlledValues RequestsOnly: limits are not changed

	OOMBumpRatio   float64 // 0: not set
	OOMMinBump     int64   // bytes; valid if OOMMinBumpSet
	OOMMinBumpSet  bool
	MemoryInterval time.Duration // 0: not set
	MemoryCount    int64         // 0: not set
	Boost          *Boost
}

// Controls returns the resources that podfit may set under the policy. A nil policy allows both.
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
	Factor     int32 // used if Quantity is not set
	Quantity   int64 // millicores, valid if ByQuantity
	ByQuantity bool
	Duration   time.Duration // time from Ready to the end of the boost
	Percent    int32         // of a learnt boost: the factor in percent, used instead of Factor; 0 for other boosts
}

// An EvictionRequirement must hold before a pod is evicted (spec.updatePolicy.evictionRequirements[]).
type EvictionRequirement struct {
	Resources Set
	Higher    bool // TargetHigherThanRequests; else TargetLowerThanRequests
}

// An Estimate is the recommended size of a container: a target, and the range within which a running pod is not changed.
type Estimate struct{ Lower, Target, Upper Resources }

// Advice is the recommendation for one container in the status of an autoscaler.
type Advice struct {
	Container string
	Estimate
	Uncapped Resources   // the target before policy and caps
	Learnt   LearntBoost // what the starts of the container needed
	Groups   []GroupSize // sizes of pods that need less, by role; sorted, at most MaxGroups
	Shared   Resources   // its part of what a pod needs as a whole, lower than the target (shared.go)

	// MemoryLimit is the memory limit by the highest usage, and MemoryPeak that usage, in bytes, if LimitRule.Peaks applies; 0 if it is not known.
	MemoryLimit, MemoryPeak int64
}
