// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// MaxGroups is the largest number of groups of a workload that have a size of their own.
const MaxGroups = 8

// PodIndex is the label with the ordinal of a pod of a StatefulSet.
const PodIndex = "apps.kubernetes.io/pod-index"

// NodeName is the label with the node that a pod of a DaemonSet without a node will run on. No pod has it.
const NodeName = "podfit.dev/node-name"

// NodeSize is the label of the roles of pods that are sized by the size of their node. No pod has it.
const NodeSize = "podfit.dev/node-size"

// UsageLevel is the label of the roles of pods that are sized by how much CPU they use, compared with the other pods of their workload. No pod has it.
const UsageLevel = "podfit.dev/usage-level"

// The values of UsageLevel: what pods use, compared with the others.
const (
	Busy  = "busy"
	Quiet = "quiet"
)

// MaxListed is the largest number of pods of a workload that a group lists.
const MaxListed = 32

// A GroupSize is the recommendation for a group of the pods of a workload: those with one role (RoleOf). It has only resources of which these pods need
// less than others.
type GroupSize struct {
	Role   string
	Target Resources
	Pods   string // the UIDs of its pods, sorted and separated by commas, if no label has their role (UsageLevel); at most MaxListed
}

// Equal reports whether two recommendations are the same.
func (a Advice) Equal(b Advice) bool {
	return a.Container == b.Container && a.Estimate == b.Estimate && a.Uncapped == b.Uncapped && a.Learnt == b.Learnt && slices.Equal(a.Groups, b.Groups) &&
		a.Shared == b.Shared && a.MemoryLimit == b.MemoryLimit && a.MemoryPeak == b.MemoryPeak
}

// Role returns the value of a label of the pod, "" if that is not known. Labels are known of pods whose controller is a StatefulSet or not
// one of Kubernetes' own.
func (p *Pod) Role(label string) string {
	if label == PodIndex && p.Controller.Kind == "StatefulSet" {
		ordinal, _ := strings.CutPrefix(p.Name, p.Controller.Name+"-")
		return ordinal
	}
	if label == "" || p.Marks == nil {
		return ""
	}
	for pair := range strings.SplitSeq(p.Marks.Labels, ",") {
		if key, value, _ := strings.Cut(pair, "="); key == label {
			return value
		}
	}
	return ""
}

// RoleLabel returns the label whose values are the roles of the pods, "" if they have no roles: that of the annotation, or NodeSize for a DaemonSet.
// The size of the node says more of the usage of a pod than UsageLevel does.
func (a *Autoscaler) RoleLabel() string {
	switch label := a.Rules.RoleLabel; {
	case label == "none":
		return ""
	case (label == "" || label == UsageLevel) && a.Target.Kind == "DaemonSet":
		return NodeSize
	default:
		return label
	}
}

// SizesByNode reports whether the role of a pod is the size of its node. It stays the same if the pod is replaced.
func (a *Autoscaler) SizesByNode() bool {
	return a.Target.Kind == "DaemonSet" && a.RoleLabel() == NodeSize
}

// RoleOf returns the role of a pod, "" if that is not known.
func (a *Autoscaler) RoleOf(p *Pod) string {
	switch {
	case a.SizesByNode():
		return a.NodeSizes[cmp.Or(p.Node, p.Role(NodeName))]
	case a.SizesByUsage():
		return a.usageLevel(p)
	default:
		return p.Role(a.RoleLabel())
	}
}

// SizesByUsage reports whether the role of a pod is how much it uses. The recommender finds it, and the status of the VPA has it.
func (a *Autoscaler) SizesByUsage() bool {
	return a.RoleLabel() == UsageLevel
}

// usageLevel returns Quiet for a pod that a group of the status lists, and Busy for others if there are such groups. A new pod has no UID yet.
func (a *Autoscaler) usageLevel(p *Pod) string {
	level := ""
	for i := range a.Advice {
		for _, g := range a.Advice[i].Groups {
			switch {
			case g.Pods == "" || p.UID == "":
			case slices.Contains(strings.Split(g.Pods, ","), p.UID):
				return Quiet
			default:
				level = Busy
			}
		}
	}
	return level
}

// SizeClass returns the allocatable cores and GiB of a node, each rounded up to a power of two, such as 4cpu-16Gi; "" if they are not known.
func (n *Node) SizeClass() string {
	cores := (n.Allocatable.CPU + 999) / 1000
	gib := (n.Allocatable.Memory + 1<<30 - 1) >> 30
	if cores <= 0 || gib <= 0 {
		return ""
	}
	up := func(amount int64) int64 { return 1 << bits.Len64(uint64(amount-1)) }
	return fmt.Sprintf("%dcpu-%dGi", up(cores), up(gib))
}

// InGroup returns the key of the usage history of the pods of a workload that have a role. No workload has such a name.
func (w Workload) InGroup(role string) Workload {
	w.Name += "/" + role
	return w
}

// Ungrouped returns the workload of a group, and false if w is no group.
func (w Workload) Ungrouped() (Workload, bool) {
	name, _, isGroup := strings.Cut(w.Name, "/")
	w.Name = name
	return w, isGroup
}

// SizesByRole reports whether pods are sized by their role: they have one, and can be resized in place if it can move from pod to pod. Canaries and limits
// of steps compare pods of one size, HPAs and the memory for each core depend on all pods; beside these, roles have no effect.
func (a *Autoscaler) SizesByRole() bool {
	r := &a.Rules
	return a.RoleLabel() != "" && (a.Mode.Resizes() || a.SizesByNode()) && !a.Canary.On && len(a.Horizontal) == 0 &&
		r.MaxStep.Value == (MaxStep{}) && r.MemoryPerCPU.Value == (MemoryPerCPU{})
}

// HasGroups reports whether the role of a pod decides its size: it has a role, and a group has a size of its own.
func (a *Autoscaler) HasGroups(p *Pod) bool {
	return a.SizesByRole() && a.RoleOf(p) != "" && slices.ContainsFunc(a.Advice, func(v Advice) bool { return !a.apart(&v, p).Empty() })
}

// IsOfUnknownSize reports whether the size of the node of a pod decides about its size and is not known, for example without the right to read nodes.
func (a *Autoscaler) IsOfUnknownSize(p *Pod) bool {
	return p.Node != "" && a.SizesByNode() && a.SizesByRole() && a.RoleOf(p) == "" &&
		slices.ContainsFunc(a.Advice, func(v Advice) bool { return len(v.Groups) > 0 })
}

// For returns the autoscaler with the recommendation that applies to a pod: that of its group, the parts of what the pod needs as a whole, or else its
// own.
func (a *Autoscaler) For(p *Pod) *Autoscaler {
	if a.HasGroups(p) {
		return a.OfRole(p)
	}
	return a.sharing(p)
}

// OfRole returns the autoscaler with the recommendation of the group of a pod, or else its own. If groups have sizes of their own and roles can move, the
// bounds are close to the target, so that a pod whose role changes is resized at once.
func (a *Autoscaler) OfRole(p *Pod) *Autoscaler {
	if !a.HasGroups(p) {
		return a
	}
	role := a.RoleOf(p)
	out := *a
	out.Advice = slices.Clone(a.Advice)
	for i := range out.Advice {
		v := &out.Advice[i]
		apart := a.apart(v, p)
		var own Resources
		if size := v.SizeOf(role); size != nil {
			own = size.Target
		}
		for _, res := range All {
			if !apart.Has(res) {
				continue
			}
			v.Estimate = v.scaled(res, own.Amount(res))
			if !a.SizesByNode() {
				v.Estimate = v.close(res)
			}
		}
	}
	return &out
}

// OwnTarget returns the target of a container of a pod if its role has another one than the workload, else nothing.
func (a *Autoscaler) OwnTarget(p *Pod, container string) Resources {
	if a == nil || a.AdviceFor(container) == nil || len(a.AdviceFor(container).Groups) == 0 {
		return Resources{}
	}
	return a.For(p).AdviceFor(container).Target
}

// SizeOf returns the size of the pods with a role, nil if that is the target.
func (a *Advice) SizeOf(role string) *GroupSize {
	return Find(a.Groups, func(g *GroupSize) bool { return g.Role == role })
}

// apart returns the resources of a container of a pod that groups have sizes of their own for. If roles can move, it is without those whose resize
// restarts the container: a restart could move the role to another pod, and so on without end.
func (a *Autoscaler) apart(v *Advice, p *Pod) Set {
	c := p.Container(v.Container)
	if c == nil {
		return 0
	}
	var out Set
	for i := range v.Groups {
		out |= v.Groups[i].Target.Has
	}
	if a.SizesByNode() {
		return out
	}
	return out &^ c.Restart
}

// scaled returns the estimate with the target of a group for one resource and bounds in proportion, if that is lower.
func (e Estimate) scaled(res Resource, to int64) Estimate {
	target := e.Target.Amount(res)
	if to <= 0 || to >= target {
		return e
	}
	share := float64(to) / float64(target)
	e.Target = e.Target.Set(res, to)
	e.Lower = e.Lower.Set(res, int64(float64(e.Lower.Amount(res))*share))
	e.Upper = e.Upper.Set(res, int64(float64(e.Upper.Amount(res))*share))
	return e
}

// The bounds of pods with a role that can move, relative to their target.
const (
	lowerOfRole = 0.85
	upperOfRole = 1.2
)

// close returns the estimate with bounds that are close to the target of a resource.
func (e Estimate) close(res Resource) Estimate {
	target, set := e.Target.Get(res)
	if !set {
		return e
	}
	e.Lower = e.Lower.Set(res, max(e.Lower.Amount(res), int64(float64(target)*lowerOfRole)))
	e.Upper = e.Upper.Set(res, max(target, min(e.Upper.Amount(res), int64(float64(target)*upperOfRole))))
	return e
}

// Represents reports whether a pod shows the size of its workload better than another one, which may be nil: pods of a smaller group come last, and of
// the others the newest is first. The autoscaler may be nil.
func (a *Autoscaler) Represents(p, than *Pod) bool {
	switch {
	case than == nil:
		return true
	case a != nil && a.isSmall(p) != a.isSmall(than):
		return a.isSmall(than)
	}
	return p.Created.After(than.Created)
}

// isSmall reports whether the role of a pod has a size of its own.
func (a *Autoscaler) isSmall(p *Pod) bool {
	role := a.RoleOf(p)
	return a.HasGroups(p) && slices.ContainsFunc(a.Advice, func(v Advice) bool { return v.SizeOf(role) != nil })
}

// Larger returns the estimate with the larger target, for each resource.
func (e Estimate) Larger(o Estimate) Estimate {
	for _, res := range All {
		if o.Target.Amount(res) > e.Target.Amount(res) {
			e.Lower = e.Lower.Set(res, o.Lower.Amount(res))
			e.Target = e.Target.Set(res, o.Target.Amount(res))
			e.Upper = e.Upper.Set(res, o.Upper.Amount(res))
		}
	}
	return e
}
