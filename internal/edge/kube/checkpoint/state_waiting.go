// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/ledger"
)

func storeWaiting(list []ledger.WaitingState) []v1alpha1.WaitingPods {
	var out []v1alpha1.WaitingPods
	for i := range list[:min(len(list), v1alpha1.MaxWaitingPods)] {
		s := &list[i]
		w := v1alpha1.WaitingPods{Reason: s.Reason, Pods: int32(s.Pods), FirstPod: s.First}
		if !s.NotBefore.IsZero() {
			at := metav1.NewTime(s.NotBefore)
			w.NotBefore = &at
		}
		out = append(out, w)
	}
	return out
}

func loadWaiting(errs []error, raw json.RawMessage, into *ledger.State) []error {
	for i, item := range decodeList(&errs, "waitingPods", raw, v1alpha1.MaxWaitingPods) {
		var w v1alpha1.WaitingPods
		before := len(errs)
		errs = decodePart(errs, fmt.Sprintf("waitingPods[%d]", i), item, &w)
		if len(errs) > before || w.Reason == "" || w.Pods <= 0 {
			continue
		}
		s := ledger.WaitingState{Reason: w.Reason, Pods: int(w.Pods), First: w.FirstPod}
		if w.NotBefore != nil {
			s.NotBefore = w.NotBefore.UTC()
		}
		into.Waiting = append(into.Waiting, s)
	}
	return errs
}
