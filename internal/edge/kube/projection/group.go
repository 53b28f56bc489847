// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
)

// WithGroups adds the sizes of groups of pods to a list of amounts of the status, which may be nil.
func WithGroups(list corev1.ResourceList, groups []cluster.GroupSize) corev1.ResourceList {
	for _, g := range groups {
		if g.Pods != "" {
			for uid := range strings.SplitSeq(g.Pods, ",") {
				list = with(list, listed+v1alpha1.GroupSizeSuffix+uid, *resource.NewQuantity(1, resource.DecimalSI))
			}
		}
		for _, res := range cluster.All {
			if amount, set := g.Target.Get(res); set {
				list = with(list, res.String()+v1alpha1.GroupSizeSuffix+g.Role, kube.Quantity(res, amount))
			}
		}
	}
	return list
}

// listed is the name of the amounts that list the pods of the group cluster.Quiet.
const listed = "pod"

func with(list corev1.ResourceList, name string, amount resource.Quantity) corev1.ResourceList {
	cluster.Put(&list, corev1.ResourceName(name), amount)
	return list
}

// WithShared adds the part of a container of what a pod needs as a whole to a list of amounts of the status, which may be nil.
func WithShared(list corev1.ResourceList, shared cluster.Resources) corev1.ResourceList {
	for _, res := range cluster.All {
		if amount, set := shared.Get(res); set {
			list = with(list, v1alpha1.SharedPrefix+res.String(), kube.Quantity(res, amount))
		}
	}
	return list
}

// WithMemory adds an amount of memory with a name to a list of amounts of the status, which may be nil; 0 is none.
func WithMemory(list corev1.ResourceList, name string, amount int64) corev1.ResourceList {
	if amount <= 0 {
		return list
	}
	return with(list, name, kube.Quantity(cluster.Memory, amount))
}

// memoryOf returns the amount of memory with a name in a list of amounts of the status, 0 if there is none.
func memoryOf(list corev1.ResourceList, name corev1.ResourceName) int64 {
	return max(kube.Amount(cluster.Memory, list[name]), 0)
}

// shared returns the part of a container of what a pod needs as a whole. Amounts that are not positive are left out.
func shared(list corev1.ResourceList) cluster.Resources {
	var out cluster.Resources
	for _, res := range cluster.All {
		if quantity, set := list[corev1.ResourceName(v1alpha1.SharedPrefix+res.String())]; set && kube.Amount(res, quantity) > 0 {
			out = out.Set(res, kube.Amount(res, quantity))
		}
	}
	return out
}

// groups returns the sizes of groups of pods in a list of amounts of the status, sorted, at most cluster.MaxGroups. Others can change the status:
// amounts that are not positive are left out.
func groups(list corev1.ResourceList) []cluster.GroupSize {
	var out []cluster.GroupSize
	var pods []string
	for key, quantity := range list {
		name, role, _ := strings.Cut(string(key), v1alpha1.GroupSizeSuffix)
		if name == listed && role != "" && !strings.Contains(role, ",") {
			pods = append(pods, role)
		}
		res, known := cluster.ParseResource(name)
		amount := int64(0)
		if known && role != "" {
			amount = kube.Amount(res, quantity)
		}
		if amount <= 0 {
			continue
		}
		i, found := slices.BinarySearchFunc(out, role, func(g cluster.GroupSize, role string) int { return strings.Compare(g.Role, role) })
		if !found {
			out = slices.Insert(out, i, cluster.GroupSize{Role: strings.Clone(role)})
		}
		out[i].Target = out[i].Target.Set(res, amount)
		out = out[:min(len(out), cluster.MaxGroups)]
	}
	slices.Sort(pods)
	if i := slices.IndexFunc(out, func(g cluster.GroupSize) bool { return g.Role == cluster.Quiet }); i >= 0 {
		out[i].Pods = strings.Join(pods[:min(len(pods), cluster.MaxListed)], ",")
	}
	return out
}

// labelsOf returns the labels by which pods of one controller may differ, sorted. Pods of controllers of Kubernetes other than a StatefulSet are
// alike, so their labels are not kept, except the node that a pod of a DaemonSet waits for. Labels that differ from pod to pod are left out.
func labelsOf(p *corev1.Pod, projected *cluster.Pod, in *Interner) string {
	if in != nil && in.Avoided != nil {
		return in.String(strings.Join(Pairs(p.Labels, nil), ","))
	}
	switch projected.Controller.Kind {
	case "", "ReplicaSet", "Job", "ReplicationController":
		return ""
	case "DaemonSet":
		if p.Spec.NodeName == "" {
			selector, _ := NodeSelector(&p.Spec, in)
			if node := selector.OnlyNode(); node != "" {
				return cluster.NodeName + "=" + node
			}
		}
		return ""
	}
	labels := maps.Clone(p.Labels)
	maps.DeleteFunc(labels, func(key, _ string) bool {
		return key == appsv1.StatefulSetPodNameLabel || key == cluster.PodIndex || key == appsv1.ControllerRevisionHashLabelKey
	})
	const maxLabels = 2048 // bounds the stored labels of a pod, in bytes
	if lengthOf(labels) > maxLabels {
		return ""
	}
	return in.String(strings.Join(Pairs(labels, nil), ","))
}
