// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import "podfit.dev/podfit/internal/core/policy"

// replacementRefused asks whether the API server would refuse the pod with its new size, as a replacement or as a resize. An
// eviction would achieve nothing then: the admission controller leaves such a pod as its template has it.
func (t *candidate) replacementRefused() (Reason, bool) {
	r := policy.Refused(t.w.Limits[t.d.Pod.Namespace], t.d.Pod, t.d.With)
	if !r.Refused() {
		return Reason{}, false
	}
	return Reason{Code: ReplacementRefused, Text: r.String()}, true
}
