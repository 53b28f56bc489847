// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/edge/kube"
)

// storeActing returns the announcements in the state of a namespace.
func storeActing(groups []ledger.ActingGroup) []v1alpha1.ActingGroup {
	var out []v1alpha1.ActingGroup
	for _, g := range groups[max(0, len(groups)-v1alpha1.MaxActingGroups):] {
		stored := v1alpha1.ActingGroup{Since: metav1.NewMicroTime(g.Since), Workloads: []v1alpha1.ActingWorkload{}}
		for _, w := range g.Workloads[:min(len(g.Workloads), v1alpha1.MaxActingWorkloads)] {
			stored.Workloads = append(stored.Workloads, v1alpha1.ActingWorkload{WorkloadReference: reference(w.Workload), NewestPod: seconds(w.Newest)})
		}
		out = append(out, stored)
	}
	return out
}

// loadAnnouncements returns the announcements that can be decoded, and adds the errors of the others.
func (o *updateStateObject) loadAnnouncements(errs *[]error, stored json.RawMessage) []ledger.ActingGroup {
	var out []ledger.ActingGroup
	for i, raw := range decodeList(errs, "actingOn", stored, v1alpha1.MaxActingGroups) {
		var g v1alpha1.ActingGroup
		before := len(*errs)
		if *errs = decodePart(*errs, fmt.Sprintf("actingOn[%d]", i), raw, &g); len(*errs) == before {
			out = append(out, o.loadActing(&g))
		}
	}
	return out
}

func (o *updateStateObject) loadActing(g *v1alpha1.ActingGroup) ledger.ActingGroup {
	out := ledger.ActingGroup{Since: fromMicro(&g.Since)}
	for i := range g.Workloads[:min(len(g.Workloads), v1alpha1.MaxActingWorkloads)] {
		w := &g.Workloads[i]
		out.Workloads = append(out.Workloads, ledger.ActingWorkload{Workload: o.inNamespace(&w.WorkloadReference), Newest: fromSeconds(w.NewestPod)})
	}
	return out
}

// seconds returns the creation time of a pod, or nil if it is not known. Creation times have seconds.
func seconds(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	out := metav1.NewTime(t.Truncate(time.Second))
	return &out
}

// fromSeconds returns a time of the API, or the zero time if it is not set or cannot be written again.
func fromSeconds(t *metav1.Time) time.Time {
	if t == nil || t.IsZero() || !kube.HasJSONForm(t.Time) {
		return time.Time{}
	}
	return t.UTC()
}
