// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package projection converts Kubernetes objects to the values of package cluster, which keep only the fields that podfit
// reads. Every field of a watched object that podfit reads is named here, and only here.
//
// A projection never fails: a field that is missing or cannot be interpreted gets its default. A projection shares no memory
// with the object but single strings, so that the object itself can be garbage collected. The package reads nothing from the
// API server and makes no decisions.
package projection

import (
	"cmp"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/criticality"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
)

// Pod returns the projection of a pod. It shares no memory with p except single strings. It never fails: missing and invalid fields
// are left empty. Top is empty, because the pod alone does not contain its topmost controller.
func Pod(p *corev1.Pod, in *Interner) *cluster.Pod {
	name, uid := joined(p.Name, string(p.UID))
	out := &cluster.Pod{
		Key:         cluster.Key{Namespace: in.String(p.Namespace), Name: name},
		UID:         uid,
		Controller:  ControllerOf(p.OwnerReferences, p.Namespace, in),
		Node:        in.String(p.Spec.NodeName),
		Place:       in.place(p),
		Tolerance:   in.tolerance(p),
		Tied:        isTied(&p.Spec),
		Placeholder: IsPlaceholder(p),
		Overhead:    len(p.Spec.Overhead) > 0,
		Static:      p.Annotations[corev1.MirrorPodAnnotationKey] != "",
		Created:     p.CreationTimestamp.UTC(),
		Phase:       phases[p.Status.Phase],
		QoS:         classes[p.Status.QOSClass],
		Deleting:    p.DeletionTimestamp != nil,
		Resize:      resizeOf(p.Status.Conditions),
		Sized:       p.Annotations[v1.AnnotationUpdates] != "",
	}
	if p.Status.StartTime != nil {
		out.Started = p.Status.StartTime.UTC()
	}
	in.avoid(p)
	out.Containers = containers(p, out, in)
	out.LocalData, out.OwnVolume = localData(p.Spec.Volumes)
	out.Runtimes = runtimes(p)
	out.Marks = in.marks(cluster.Marks{
		Observed: observed(p, out, in), Criticality: criticalityOf(p, in), Protection: protection(p.Annotations), Labels: labelsOf(p, out, in),
		Evictable: p.Annotations[safeToEvict] == "true", Gated: len(p.Spec.SchedulingGates) > 0,
	})
	if r := p.Spec.Resources; r != nil {
		out.PodLevel = new(cluster.PodResources)
		out.PodLevel.Requests, out.PodLevel.Limits = kube.SizeOf(r)
		out.Fractions = kube.HasFraction(r.Requests, r.Limits)
	}
	for _, all := range [...][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range all {
			out.Fractions = out.Fractions || kube.HasFraction(all[i].Resources.Requests, all[i].Resources.Limits)
		}
	}
	out.Priority = ptr.Deref(p.Spec.Priority, 0)
	if cost, err := strconv.ParseInt(p.Annotations[corev1.PodDeletionCost], 10, 32); err == nil {
		out.DeletionCost = int32(cost)
	}
	if c := cluster.Find(p.Status.Conditions, func(c *corev1.PodCondition) bool { return c.Type == corev1.PodReady }); c != nil {
		out.Ready = c.Status == corev1.ConditionTrue
		out.ReadySince = c.LastTransitionTime.UTC()
	}
	isKilled := func(c *cluster.Container) bool { return c.IsSized() && c.Exit != nil && c.Exit.OOM }
	if !out.Ready && cluster.Find(out.Containers, isKilled) != nil {
		out.Crash = &cluster.Crash{Version: strings.Clone(p.ResourceVersion), Labels: Pairs(p.Labels, in)}
	}
	return out
}

const safeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict"

// protection returns the annotation of a pod that forbids to evict it, with its value; "" if it has none.
func protection(annotations map[string]string) string {
	for _, a := range [...][2]string{{safeToEvict, "false"}, {"karpenter.sh/do-not-disrupt", "true"}} {
		if annotations[a[0]] == a[1] {
			return a[0] + ": " + a[1]
		}
	}
	return ""
}

// criticalityOf returns what a pod says about its criticality. A label that is longer than Kubernetes allows is cut.
func criticalityOf(p *corev1.Pod, in *Interner) cluster.Criticality {
	const maxLabel = 64 // bounds the stored value of a label; Kubernetes allows less, so a value that is cut is invalid (criticality.Parse)
	label, labelled := p.Labels[criticality.Label]
	return cluster.Criticality{
		Labelled: labelled, Label: in.String(label[:min(len(label), maxLabel)]), PriorityClass: in.String(p.Spec.PriorityClassName),
	}
}

// observed returns the annotation with the containers that the webhook processed, or nil if all count as observed. An
// annotation that is longer than the names of all containers can be was not set by the webhook: it counts as absent, so that the size of a
// stored pod is bounded.
func observed(p *corev1.Pod, projected *cluster.Pod, in *Interner) *string {
	text := p.Annotations[v1.AnnotationObservedContainers]
	const longestName = 63 + len(", ")
	if text == "" || len(text) > 1024+longestName*(len(p.Spec.Containers)+len(p.Spec.InitContainers)) || text == policy.ObservedContainers(projected) {
		return nil
	}
	return new(in.String(text))
}

// joined returns copies of two strings in one allocation, for strings that are freed together.
func joined(a, b string) (string, string) {
	both := a + b
	return both[:len(a)], both[len(a):]
}

var phases = map[corev1.PodPhase]cluster.Phase{
	corev1.PodPending: cluster.Pending, corev1.PodRunning: cluster.Running, corev1.PodSucceeded: cluster.Succeeded, corev1.PodFailed: cluster.Failed,
}

var classes = map[corev1.PodQOSClass]cluster.QoS{
	corev1.PodQOSGuaranteed: cluster.Guaranteed, corev1.PodQOSBurstable: cluster.Burstable, corev1.PodQOSBestEffort: cluster.BestEffort,
}

// resizeOf returns the state of a resize. A pending condition is about the newest resize and has priority over one in progress.
func resizeOf(conditions []corev1.PodCondition) *cluster.Resize {
	active := func(name corev1.PodConditionType) *corev1.PodCondition {
		return cluster.Find(conditions, func(c *corev1.PodCondition) bool { return c.Type == name && c.Status == corev1.ConditionTrue })
	}
	pending := active(corev1.PodResizePending)
	progress := active(corev1.PodResizeInProgress)
	switch {
	case pending != nil:
		return &cluster.Resize{State: cmp.Or(pendingStates[pending.Reason], cluster.ResizeUnknown), Since: pending.LastTransitionTime.UTC(), Message: pending.Message}
	case progress != nil:
		return &cluster.Resize{State: progressState(progress), Problem: problemOf(progress), Since: progress.LastTransitionTime.UTC(), Message: progress.Message}
	}
	return nil
}

// pendingStates are the known reasons for which a resize waits.
var pendingStates = map[string]cluster.ResizeState{
	corev1.PodReasonDeferred: cluster.ResizeDeferred, corev1.PodReasonInfeasible: cluster.ResizeInfeasible,
}

func progressState(c *corev1.PodCondition) cluster.ResizeState {
	switch {
	case c.Reason == "" && c.Message == "":
		return cluster.ResizeInProgress
	case c.Reason == corev1.PodReasonError:
		return cluster.ResizeError
	}
	return cluster.ResizeUnknown
}

// problemOf reads the cause of a failed resize from the kubelet's message. The kubelet publishes no other sign of it.
func problemOf(c *corev1.PodCondition) cluster.ResizeProblem {
	if strings.Contains(c.Message, "decrease memory limits") || strings.Contains(c.Message, "below current usage") {
		return cluster.MemoryInUse
	}
	return cluster.OtherProblem
}

// containers returns the projections of the containers of a pod. projected is the projection of the pod, with the time of its start.
func containers(p *corev1.Pod, projected *cluster.Pod, in *Interner) []cluster.Container {
	out := make([]cluster.Container, 0, len(p.Spec.Containers)+len(p.Spec.InitContainers))
	add := func(specs []corev1.Container, statuses []corev1.ContainerStatus, role cluster.ContainerRole) {
		for i := range specs {
			if i > math.MaxUint8 {
				return // does not fit in Container.Index; no real pod has as many containers
			}
			status := cluster.Find(statuses, func(s *corev1.ContainerStatus) bool { return s.Name == specs[i].Name })
			of := role
			if role == cluster.Init && kube.IsSidecar(&specs[i]) {
				of = cluster.Sidecar
			}
			c := container(&specs[i], of, p.Spec.Resources != nil, in)
			if status != nil {
				noteStatus(&c, status, projected)
			}
			c.Index = uint8(i)
			c.Boosted = boosted(p.Annotations, c.Name)
			out = append(out, c)
		}
	}
	add(p.Spec.Containers, p.Status.ContainerStatuses, cluster.Regular)
	add(p.Spec.InitContainers, p.Status.InitContainerStatuses, cluster.Init)
	return out
}

func container(spec *corev1.Container, role cluster.ContainerRole, podLevel bool, in *Interner) cluster.Container {
	c := cluster.Container{Name: in.String(spec.Name), Role: role}
	c.Requests, c.Limits = kube.SizeOf(&spec.Resources)
	if role == cluster.Init || podLevel { // its request is part of a sum that must not be too low
		c.Requests = kube.Amounts(spec.Resources.Requests)
	}
	if role == cluster.Init { // podfit does not size it, so no new request is bounded by its limit
		c.Limits = kube.Amounts(spec.Resources.Limits)
	}
	for _, p := range spec.ResizePolicy {
		if r, ok := cluster.ParseResource(string(p.ResourceName)); ok && p.RestartPolicy == corev1.RestartContainer {
			c.Restart = c.Restart.With(r)
		}
	}
	return c
}

// noteStatus sets what the status of a container of a pod says.
func noteStatus(c *cluster.Container, status *corev1.ContainerStatus, of *cluster.Pod) {
	c.Restarts = uint16(max(min(status.RestartCount, math.MaxUint16), 0))
	c.Exit = exitOf(status)
	if running := status.State.Running; running != nil && !running.StartedAt.IsZero() {
		if c.Exit != nil {
			c.Exit.Resumed = max(running.StartedAt.Unix(), 0)
		} else {
			c.Delay = of.DelayOf(running.StartedAt.Unix())
		}
	}
	c.Reported = status.Resources != nil
	if r := status.Resources; r != nil && len(r.Requests)+len(r.Limits) > 0 {
		var applied cluster.Applied
		applied.Requests, applied.Limits = kube.SizeOf(r)
		if applied.Requests != c.Requests || applied.Limits != c.Limits {
			c.Applied = &applied
		}
	}
}

// exitOf returns the last termination of a container: its current state if it is terminated, else its previous state.
func exitOf(s *corev1.ContainerStatus) *cluster.Exit {
	t := s.State.Terminated
	now := t != nil
	t = cmp.Or(t, s.LastTerminationState.Terminated)
	if t == nil {
		return nil
	}
	return &cluster.Exit{
		OOM:      t.Reason == "OOMKilled",
		Started:  t.StartedAt.UTC(),
		Finished: t.FinishedAt.UTC(),
		Now:      now,
	}
}

// boosted returns the resources of a container before its start-up boost, from an annotation of the webhook.
func boosted(annotations map[string]string, container string) *cluster.Applied {
	if len(annotations) == 0 {
		return nil
	}
	text, ok := annotations[v1.AnnotationStartupBoostPrefix+container]
	if !ok {
		return nil
	}
	var before corev1.ResourceRequirements
	var out cluster.Applied // empty if the annotation is invalid: boosted, from unknown resources
	if json.Unmarshal([]byte(text), &before) == nil {
		out.Requests, out.Limits = kube.SizeOf(&before)
	}
	return &out
}

// The marks of a placeholder pod. All of them are required, so that no other pod is taken for one. A ProvisioningRequest and its
// PodTemplate have the label and the annotations.
const (
	PlaceholderClass = "podfit-placeholder"             // its PriorityClass
	PlaceholderLabel = "podfit.dev/placeholder"         // label with the value true
	PlaceholderUID   = "podfit.dev/placeholder-for-uid" // annotation: the UID of the pod that is going to be evicted
	PlaceholderPod   = "podfit.dev/placeholder-for"     // annotation: its name
)

// IsPlaceholder reports whether a pod is a placeholder pod of podfit.
func IsPlaceholder(p *corev1.Pod) bool {
	return p.Labels[PlaceholderLabel] == "true" && p.Spec.PriorityClassName == PlaceholderClass
}

// CountKills sets the number of consecutive OOM kills of each container of a pod. before is the state of the same pod that the watch
// delivered before, or nil. A kill that the watch did not deliver is not counted.
func CountKills(before, now *cluster.Pod) {
	for i := range now.Containers {
		c := &now.Containers[i]
		if c.Exit == nil || !c.Exit.OOM {
			continue
		}
		c.Exit.Kills = 1
		if before == nil || i >= len(before.Containers) || before.Containers[i].Name != c.Name {
			continue
		}
		last := before.Containers[i].Exit
		if last == nil || !last.OOM {
			continue
		}
		c.Exit.Kills = last.Kills
		if !last.Finished.Equal(c.Exit.Finished) && last.Kills < math.MaxUint8 {
			c.Exit.Kills++
		}
	}
}

// MemoryEvictions returns the containers whose memory usage made the kubelet evict a pod. The kubelet's event lists the
// containers that used more than their request, the amount, and the resource.
func MemoryEvictions(e *corev1.Event) []usage.OOM {
	if e.Reason != "Evicted" || e.InvolvedObject.Kind != "Pod" {
		return nil
	}
	containers := listAnnotation(e, v1.AnnotationOffendingContainers)
	usages := listAnnotation(e, v1.AnnotationOffendingContainersUsage)
	resources := listAnnotation(e, v1.AnnotationStarvedResource)
	if len(containers) != len(usages) || len(containers) != len(resources) {
		return nil
	}
	var out []usage.OOM
	for i, name := range containers {
		if resources[i] != string(corev1.ResourceMemory) {
			continue
		}
		used, err := kube.ParseQuantity(usages[i])
		if err != nil {
			continue
		}
		out = append(out, usage.OOM{
			Pod:       cluster.Key{Namespace: e.InvolvedObject.Namespace, Name: e.InvolvedObject.Name},
			Container: name,
			At:        e.CreationTimestamp.UTC(),
			Memory:    kube.Amount(cluster.Memory, used),
		})
	}
	return out
}

func listAnnotation(e *corev1.Event, annotation string) []string {
	text, ok := e.Annotations[annotation]
	if !ok {
		return nil
	}
	return strings.Split(text, ",")
}
