// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/ledger"
)

// storeActing returns the announcements in the state of a namespace.
func storeActing(groups []ledger.ActingGroup) []v1alpha1.ActingGroup {
	var out []v1alpha1.ActingGroup
	for _, g := range groups[max(0, len(groups)-v1alpha1.MaxActingGroups):] {
		stored := v1alpha1.ActingGroup{Since: metav1.NewMicroTime(g.Since), Workloads: []v1alpha1.WorkloadReference{}}
		for _, w := range g.Workloads[:min(len(g.Workloads), v1alpha1.MaxActingWorkloads)] {
			stored.Workloads = append(stored.Workloads, reference(w))
		}
		out = append(out, stored)
	}
	return out
}

func (o *updateStateObject) loadActing(g *v1alpha1.ActingGroup) ledger.ActingGroup {
	out := ledger.ActingGroup{Since: fromMicro(&g.Since)}
	for i := range g.Workloads[:min(len(g.Workloads), v1alpha1.MaxActingWorkloads)] {
		out.Workloads = append(out.Workloads, o.inNamespace(&g.Workloads[i]))
	}
	return out
}
