// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/edge/kube"
)

// storeActing returns an announcement in the state of a namespace.
func storeActing(g *ledger.ActingGroup) v1alpha1.ActingGroup {
	out := v1alpha1.ActingGroup{Since: metav1.NewMicroTime(g.Since), Workloads: []v1alpha1.ActingWorkload{}}
	for _, w := range g.Workloads[:min(len(g.Workloads), v1alpha1.MaxActingWorkloads)] {
		out.Workloads = append(out.Workloads, v1alpha1.ActingWorkload{WorkloadReference: reference(w.Workload), NewestPod: seconds(w.Newest)})
	}
	return out
}

func (o *updateStateObject) loadActing(g *v1alpha1.ActingGroup) (ledger.ActingGroup, error) {
	out := ledger.ActingGroup{Since: fromMicro(&g.Since)}
	for i := range g.Workloads[:min(len(g.Workloads), v1alpha1.MaxActingWorkloads)] {
		w := &g.Workloads[i]
		out.Workloads = append(out.Workloads, ledger.ActingWorkload{Workload: o.inNamespace(&w.WorkloadReference), Newest: fromSeconds(w.NewestPod)})
	}
	return out, nil
}

// seconds returns the creation time of a pod, or nil if it is not known. Creation times have seconds.
func seconds(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return new(metav1.NewTime(t.Truncate(time.Second)))
}

// fromSeconds returns a time of the API, or the zero time if it is not set or cannot be written again.
func fromSeconds(t *metav1.Time) time.Time {
	if t == nil || t.IsZero() || !kube.HasJSONForm(t.Time) {
		return time.Time{}
	}
	return t.UTC()
}

func storeWaiting(s *ledger.WaitingState) v1alpha1.WaitingPods {
	out := v1alpha1.WaitingPods{Reason: s.Reason, Pods: int32(s.Pods), FirstPod: s.First}
	if !s.NotBefore.IsZero() {
		out.NotBefore = new(metav1.NewTime(s.NotBefore))
	}
	return out
}

func loadWaiting(w *v1alpha1.WaitingPods) (ledger.WaitingState, error) {
	if w.Reason == "" || w.Pods <= 0 {
		return ledger.WaitingState{}, errEmpty
	}
	out := ledger.WaitingState{Reason: w.Reason, Pods: int(w.Pods), First: w.FirstPod}
	if w.NotBefore != nil {
		out.NotBefore = w.NotBefore.UTC()
	}
	return out, nil
}
