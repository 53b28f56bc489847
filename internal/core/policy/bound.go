// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/cluster"
)

// A Bound is a bound that a target was compared with, and what it changed. Amounts are in millicores or bytes.
type Bound struct {
	Resource      cluster.Resource
	Kind          BoundKind
	Amount        int64 // the bound as the target was compared with it; 0: not set, or not a single amount
	Before, After int64 // the target
}

// Changed reports whether the bound changed the target.
func (b Bound) Changed() bool { return b.Before != b.After }

// BoundKind is where a bound comes from. Machines read it.
type BoundKind string

// The kinds, in the order in which they are applied.
const (
	WholeCores     BoundKind = "whole-cores"     // Cap: an annotation rounds CPU up
	MemoryPerCPU   BoundKind = "memory-per-cpu"  // Cap: an annotation bounds the memory for each core
	NodeShare      BoundKind = "node-share"      // Cap: the share of the smallest node that the profile allows a pod; Amount is of the pod
	MinAllowed     BoundKind = "min-allowed"     // Cap and Fit: the container policy
	MaxAllowed     BoundKind = "max-allowed"     // Cap and Fit: the container policy
	GlobalMax      BoundKind = "global-max"      // Cap: flags of the recommender, where the policy has no maxAllowed
	MaxStep        BoundKind = "max-step"        // Step: an annotation bounds the difference from running pods
	PodRange       BoundKind = "pod-limit-range" // Fit: the sum over the containers
	LimitOfPeak    BoundKind = "highest-usage"   // Fit: a memory limit that should follow the highest usage and cannot is not below it
	RangeMin       BoundKind = "limit-range-min" // Fit: the container LimitRange, in terms of the request
	RangeMax       BoundKind = "limit-range-max" // Fit
	ContainerLimit BoundKind = "container-limit" // Fit: the limit of the container, if the policy keeps limits
	ScalePoint     BoundKind = "hpa-scale-point" // Fit: the range within which the target of an HPA can follow
	JVMHeap        BoundKind = "jvm-heap"        // Fit: the heap that the options of a JVM set
	JVMShare       BoundKind = "jvm-cpu-request" // Fit: a range of CPU requests that a JVM may read as all cores of the node
	APIServer      BoundKind = "api-server"      // Fit: the API server would refuse the pod otherwise
	Node           BoundKind = "node"            // Fit: the largest node for the pod
	Quota          BoundKind = "resource-quota"  // Fit: what the quotas allow if no other pod uses them
)

// CapBounds is Cap, and returns for each result the bounds that were looked at, in their order.
func CapBounds(autoscaler *cluster.Autoscaler, raw []cluster.Advice, global cluster.Resources, node cluster.NodeShare) ([]cluster.Advice, [][]Bound) {
	looked := lookedAt{bounds: make([][]Bound, len(raw))}
	return capped(autoscaler, raw, global, node, &looked), looked.bounds
}

// FitBounds is Fit, and returns for each result the bounds that were looked at, in their order.
func FitBounds(a *cluster.Autoscaler, l Limits, p *cluster.Pod) ([]Fitted, [][]Bound) {
	var looked lookedAt
	fits := fitting{a: a, l: l, p: p, looked: &looked}.sized()
	return fits, looked.bounds
}

// lookedAt collects the bounds of each container while a pod is fitted. A nil one collects nothing.
type lookedAt struct {
	bounds [][]Bound
	before []cluster.Resources // targets before the present step
}

func (x *lookedAt) begin(fits []Fitted) {
	if x != nil {
		x.bounds = make([][]Bound, len(fits))
		x.proceed(fits)
	}
}

// of returns where the bounds of a container are collected.
func (x *lookedAt) of(i int) *[]Bound {
	if x == nil {
		return nil
	}
	return &x.bounds[i]
}

// after adds a bound for the step that has just changed the targets. The bound of a resource is added only if it was set or has changed a
// target.
func (x *lookedAt) after(fits []Fitted, kind BoundKind, amounts cluster.Resources) {
	if x == nil || len(x.before) != len(fits) {
		return
	}
	for i := range fits {
		for _, res := range cluster.All {
			before, ok := x.before[i].Get(res)
			now := fits[i].Estimate.Target.Amount(res)
			if bound, isSet := amounts.Get(res); ok && (isSet || before != now) {
				x.bounds[i] = append(x.bounds[i], Bound{Resource: res, Kind: kind, Amount: bound, Before: before, After: now})
			}
		}
	}
	x.proceed(fits)
}

// proceed records the present targets as those before the next step.
func (x *lookedAt) proceed(fits []Fitted) {
	if x == nil {
		return
	}
	x.before = x.before[:0]
	for i := range fits {
		x.before = append(x.before, fits[i].Estimate.Target)
	}
}

// scaledToNode adds the bounds of nodes and quotas.
func (x *lookedAt) scaledToNode(l Limits, fits []Fitted) {
	if x == nil || l.Nodes == nil || len(x.before) != len(fits) {
		return
	}
	var nodes cluster.Resources
	for _, size := range l.Nodes.Largest {
		for _, res := range cluster.All {
			nodes = nodes.Set(res, max(nodes.Amount(res), size.Amount(res)))
		}
	}
	quota := hardQuota(l.Quotas).Requests
	for i := range fits {
		for _, res := range cluster.All {
			before, ok := x.before[i].Get(res)
			if !ok {
				continue
			}
			now := fits[i].Estimate.Target.Amount(res)
			byQuota := slices.Contains(fits[i].Notes, Note{Resource: res, Kind: admissible.HeldToQuota})
			afterNode := now
			if byQuota {
				afterNode = before
			}
			if size, isSet := nodes.Get(res); isSet || before != afterNode {
				x.bounds[i] = append(x.bounds[i], Bound{Resource: res, Kind: Node, Amount: size, Before: before, After: afterNode})
			}
			if hard, isSet := quota.Get(res); isSet || byQuota {
				x.bounds[i] = append(x.bounds[i], Bound{Resource: res, Kind: Quota, Amount: hard, Before: afterNode, After: now})
			}
		}
	}
}

// look adds a bound to a list, unless the list is nil.
func look(to *[]Bound, b Bound) {
	if to != nil {
		*to = append(*to, b)
	}
}

// bounds are the bounds of the requests of a container, in the order in which they apply.
type bounds [4]allowed

// apply applies the bounds to amounts. It appends its changes to notes, and the bounds to looked, unless these are nil.
func (b *bounds) apply(amounts cluster.Resources, notes *[]Note, looked *[]Bound) cluster.Resources {
	for i := range b {
		amounts = b[i].apply(amounts, notes, looked)
	}
	return amounts
}

func (b *bounds) amount(res cluster.Resource, v int64) int64 {
	return b.apply(cluster.Resources{}.Set(res, v), nil, nil).Amount(res)
}

// An allowed is a range of amounts. An end that is absent or zero has no effect.
type allowed struct {
	low, high       cluster.Resources
	raised, lowered admissible.NoteKind // the note for a change
	least, most     BoundKind           // where the ends come from; least is "" if there is no lower end
	global          cluster.Set         // resources whose upper end comes from GlobalMax
}

// apply raises amounts to the lower end, then lowers them to the upper end, so that the upper end wins a conflict. Absent amounts stay
// absent. It appends its changes to notes, and the bounds to looked, unless these are nil.
func (r *allowed) apply(amounts cluster.Resources, notes *[]Note, looked *[]Bound) cluster.Resources {
	for _, res := range cluster.All {
		amount, ok := amounts.Get(res)
		if !ok {
			continue
		}
		before := amount
		low := r.low.Amount(res)
		if low > 0 && amount < low {
			amount = low
			note(notes, res, r.raised)
		}
		if r.least != "" {
			look(looked, Bound{Resource: res, Kind: r.least, Amount: low, Before: before, After: amount})
		}
		before = amount
		high := r.high.Amount(res)
		if high > 0 && amount > high {
			amount = high
			note(notes, res, r.lowered)
		}
		kind := r.most
		if r.global.Has(res) {
			kind = GlobalMax
		}
		look(looked, Bound{Resource: res, Kind: kind, Amount: high, Before: before, After: amount})
		amounts = amounts.Set(res, amount)
	}
	return amounts
}
