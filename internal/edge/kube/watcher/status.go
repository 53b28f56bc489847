// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/projection"
)

// A Status is the status of a condition.
type Status = corev1.ConditionStatus

// The statuses of a condition. Removed removes the condition.
const (
	True    = "True"
	False   = "False"
	Unknown = "Unknown"
	Removed = ""
)

// A Condition is a change of one condition in the status of an autoscaler, without the time.
type Condition = v1.VerticalPodAutoscalerCondition

// WriteStatus writes the recommendation and the conditions of an autoscaler if they differ from the stored status. It reports
// whether it wrote. Conditions that are not listed are kept.
//
// The write requires the stored version of the object: if the object has changed in the meantime, nothing is written, and the
// error is ErrConflict. In a dry run no request is sent; the World stores the status until the object changes.
func (w *autoscalerSet) WriteStatus(ctx context.Context, a *cluster.Autoscaler, advice []cluster.Advice, now time.Time, say ...Condition) (bool, error) {
	e := w.entry(a.Key)
	if e == nil || e.UID != a.UID {
		return false, fmt.Errorf("write status of autoscaler %s: %w", a.Key, kube.ErrNotFound)
	}
	next := nextStatus(&e.status, a.Generation, advice, now, say)
	next.Conditions = w.visible(next.Conditions)
	return w.patchStatus(ctx, e, next, kube.PatchOp{Op: "add", Path: "/status", Value: next})
}

// WriteConditions writes conditions of an autoscaler like WriteStatus. Other fields of the status, also those that podfit does not know, are
// kept: the recommender may be another program.
func (w *autoscalerSet) WriteConditions(ctx context.Context, a *cluster.Autoscaler, now time.Time, say ...Condition) (bool, error) {
	e := w.entry(a.Key)
	if e == nil || e.UID != a.UID {
		return false, fmt.Errorf("write conditions of autoscaler %s: %w", a.Key, kube.ErrNotFound)
	}
	status := e.status
	status.Conditions = w.visible(nextConditions(e.status.Conditions, now, say))
	change := kube.PatchOp{Op: "add", Path: "/status/conditions", Value: status.Conditions} // never null
	if equality.Semantic.DeepEqual(e.status, v1.VerticalPodAutoscalerStatus{}) {            // the object may have no status yet
		change = kube.PatchOp{Op: "add", Path: "/status", Value: status}
	}
	return w.patchStatus(ctx, e, status, change)
}

// patchStatus changes the status of an autoscaler to the given one if it differs from the stored one. change is the change of the object.
func (w *autoscalerSet) patchStatus(ctx context.Context, e *autoscalerEntry, status v1.VerticalPodAutoscalerStatus, change kube.PatchOp) (bool, error) {
	a := e.Autoscaler
	seen := e.status
	if w.generationPruned.Load() {
		seen.ObservedGeneration = status.ObservedGeneration
	}
	if equality.Semantic.DeepEqual(seen, status) {
		return false, nil
	}
	if w.o.DryRun {
		w.wrote(e, e.withStatus(&status))
		return true, nil
	}
	patch, err := json.Marshal([]kube.PatchOp{{Op: "replace", Path: "/metadata/resourceVersion", Value: e.version}, change})
	if err != nil {
		return false, fmt.Errorf("write status of autoscaler %s: %w", a.Key, err)
	}
	written := new(kube.AutoscalerObject)
	ctx, classify := w.throttle.Request(ctx)
	err = w.clients.Autoscalers.Patch(types.JSONPatchType).Namespace(a.Namespace).Resource(v1.ResourceAutoscalers).
		Name(a.Name).SubResource("status").Body(patch).Do(ctx).Into(written)
	if err = classify(err); err != nil {
		return false, fmt.Errorf("write status of autoscaler %s: %w", a.Key, kube.Refused(err))
	}
	after := projectAutoscaler(written)
	after.ours = true
	w.wrote(e, after)
	if status.ObservedGeneration != nil {
		w.generationPruned.Store(written.Status.ObservedGeneration == nil)
	}
	return true, nil
}

func (e *autoscalerEntry) withStatus(status *v1.VerticalPodAutoscalerStatus) *autoscalerEntry {
	parsed := projection.Autoscaler(&v1.VerticalPodAutoscaler{Status: *status})
	a := *e.Autoscaler
	a.Advice = parsed.Advice
	a.ProfileProblem = parsed.ProfileProblem
	a.Remarked = parsed.Remarked
	a.Frozen = parsed.Frozen
	a.FetchingHistory = parsed.FetchingHistory
	a.StatusOutdated = status.ObservedGeneration != nil && *status.ObservedGeneration != a.Generation
	next := *e
	next.Autoscaler = &a
	next.status = *status
	return &next
}

// wrote stores the response to a write, so that the next write need not wait for the watch. If the watch has already delivered
// this or a newer version, nothing is stored.
func (w *autoscalerSet) wrote(before, after *autoscalerEntry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now, ok := w.autoscalers.get(before.Key); ok && now.UID == after.UID && (now == before || now.isOlder(after)) {
		w.autoscalers.keep(before.Key, after)
	}
}

// nextStatus returns a status with the recommendation and the changed conditions, and the other conditions of the old status.
func nextStatus(old *v1.VerticalPodAutoscalerStatus, generation int64, advice []cluster.Advice, now time.Time, say []Condition) v1.VerticalPodAutoscalerStatus {
	say = append(slices.Clone(say), Condition{Type: v1.ConfigDeprecated, Status: Removed})
	return v1.VerticalPodAutoscalerStatus{
		Recommendation:     recommendation(advice),
		Conditions:         nextConditions(old.Conditions, now, say),
		ObservedGeneration: &generation,
	}
}

func recommendation(advice []cluster.Advice) *v1.RecommendedPodResources {
	if len(advice) == 0 {
		return nil
	}
	return &v1.RecommendedPodResources{ContainerRecommendations: cluster.Each(advice, func(a *cluster.Advice) v1.RecommendedContainerResources {
		target := kube.Quantities(a.Target)
		if target == nil {
			target = corev1.ResourceList{} // the field is required, even if it is empty
		}
		return v1.RecommendedContainerResources{
			ContainerName:  a.Container,
			Target:         target,
			LowerBound:     kube.Quantities(a.Lower),
			UpperBound:     kube.Quantities(a.Upper),
			UncappedTarget: uncapped(a),
		}
	})}
}

// uncapped returns the target before policy and caps, with what only podfit reads.
func uncapped(a *cluster.Advice) corev1.ResourceList {
	list := projection.WithGroups(projection.WithLearntBoost(kube.Quantities(a.Uncapped), a.Learnt), a.Groups)
	list = projection.WithMemory(projection.WithShared(list, a.Shared), v1alpha1.MemoryLimit, a.MemoryLimit)
	return projection.WithMemory(list, v1alpha1.MemoryPeak, a.MemoryPeak)
}

// visible returns the conditions without those of podfit if Options.Plain is set.
func (w *autoscalerSet) visible(all []Condition) []Condition {
	if !w.o.Plain {
		return all
	}
	own := v1alpha1.AllConditions()
	return slices.DeleteFunc(all, func(c Condition) bool { return slices.Contains(own, string(c.Type)) })
}

// nextConditions returns the conditions sorted by type. lastTransitionTime changes only with the status of a condition.
func nextConditions(old []Condition, now time.Time, say []Condition) []Condition {
	said := make(map[v1.VerticalPodAutoscalerConditionType]Condition, len(old)+len(say))
	for _, c := range old {
		said[c.Type] = c
	}
	for _, c := range say {
		before := said[c.Type]
		if c.Status == Removed {
			delete(said, c.Type)
			continue
		}
		c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second)) // the precision of the API server
		if before.Status == c.Status {
			c.LastTransitionTime = before.LastTransitionTime
		}
		said[c.Type] = c
	}
	out := slices.AppendSeq([]Condition{}, maps.Values(said)) // a list, also if it is empty
	slices.SortFunc(out, func(a, b Condition) int { return cmp.Compare(a.Type, b.Type) })
	return out
}
