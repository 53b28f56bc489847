// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/integer"
)

// A Subject is one container of one workload, with everything that is known about it.
type Subject struct {
	Workload  cluster.Workload
	Container string
	VPA       string // name of the VPA that governs the workload; "" if there is none

	// Places are the live pods that have the container. Empty if only usage is known, as from a trace.
	Places   []Place
	Replicas int // number of pods, if Places is empty

	// Requests and Limits are those of the newest live pod.
	Requests, Limits cluster.Resources

	// Template has the requests and limits of the pod template of the workload, nil if it is not known. Pods have others if they were resized,
	// or if a webhook or a LimitRange changed them.
	Template *Size
	Injected bool // the template is known and does not have the container, for example because a webhook adds it to pods
	Sidecar  bool // in the list of init containers of the template
	JVM      bool // the newest live pod runs a JVM in it, as IsJVM reports

	PodLevel cluster.Set // the resources that the newest live pod requests for all of its containers together (spec.resources)

	// Targets are the recommendations, one for each profile of the Report, in the same order. The first one is what the row is about.
	Targets []Target

	// Packs is whether the first profile sizes for full nodes, and Unpacked why it sizes this container as balanced does; "" if it does not.
	Packs    bool
	Unpacked string

	Kept     [len(cluster.All)]Kept // by resource, in the order of cluster.All: why a request is not changed
	Evidence *Evidence              // may be shared; nil: nothing is known
}

// A Size is the requests and limits of a container.
type Size struct{ Requests, Limits cluster.Resources }

// A Place is one live pod of a subject.
type Place struct {
	Pod      string            // name
	Node     string            // "" if the pod is not on a node
	Requests cluster.Resources // of the container in this pod
	Own      cluster.Resources // the recommendation for this pod, if its role has one of its own; without it that of the first profile
}

// A Target is the recommendation of one profile, as the recommender would write it to the status of a VPA.
type Target struct {
	Profile string
	Amount  cluster.Resources
}

// Kept describes a request that is not changed.
type Kept struct {
	By      string // the HPA
	Percent int32  // the target utilization of the HPA: of the present request, or with FollowsHPA of the recommended one
	Reason  KeptReason
}

// A KeptReason is why a request is not changed, or what must be changed with it: its name in data formats.
type KeptReason string

// The reasons.
const (
	NotKept        KeptReason = ""
	ScaledByHPA    KeptReason = "ScaledByHPA"         // an HPA scales by the request, so the number of replicas would change with it
	SeveralMetrics KeptReason = "SeveralMetricsOfHPA" // as ScaledByHPA, and several metrics depend on the request, so the scale point cannot be preserved
	FollowsHPA     KeptReason = "FollowsHPA"          // the request is changed, and the target of the HPA must be changed with it
	NotControlled  KeptReason = "NotControlledByVPA"  // the VPA does not control the resource
	Provisional    KeptReason = "Provisional"         // usage was measured for too short a time to lower the request
)

// IsKept reports whether the request is not changed.
func (k Kept) IsKept() bool { return k.Reason != NotKept && k.Reason != FollowsHPA }

// A LimitRule determines the limits that go with changed requests.
type LimitRule string

// The rules. A limit is never below its request. If it would be, it rises in proportion to the request, so that the container can still use more
// than it requests.
const (
	KeepLimits         LimitRule = "keep"         // limits stay; "" means the same
	ProportionalLimits LimitRule = "proportional" // limits change in proportion to requests, as a VPA with RequestsAndLimits does
	NoLimits           LimitRule = "none"         // limits are removed
	MemoryOnlyLimits   LimitRule = "memory-only"  // CPU limits are removed, memory limits stay
)

// LimitRules returns the names of the rules.
func LimitRules() []string {
	return []string{string(KeepLimits), string(ProportionalLimits), string(NoLimits), string(MemoryOnlyLimits)}
}

// apply returns the limits for new requests.
func (r LimitRule) apply(limits, before, after cluster.Resources) cluster.Resources {
	for _, res := range cluster.All {
		limit, ok := limits.Get(res)
		if !ok {
			continue
		}
		request, requested := after.Get(res)
		switch {
		case r == NoLimits || r == MemoryOnlyLimits && res == cluster.CPU:
			limits = limits.Unset(res)
			continue
		case requested && before.Amount(res) > 0 && (limit < request || r == ProportionalLimits && request != before.Amount(res)):
			if scaled, capped := integer.ScaledUp(limit, request, before.Amount(res)); !capped {
				limit = scaled
			}
			limit = Rounded(res, limit)
		}
		if requested {
			limit = max(limit, request)
		}
		limits = limits.Set(res, limit)
	}
	return limits
}

// Rounded returns the request for a recommended amount: memory is rounded up to whole MiB, which people can read. CPU has whole millicores
// already.
func Rounded(res cluster.Resource, amount int64) int64 {
	const mib = 1 << 20
	if res == cluster.CPU || amount > 1<<62 {
		return amount
	}
	return (amount + mib - 1) / mib * mib
}
