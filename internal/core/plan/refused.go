// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/policy"
)

// replacementRefused blocks a change if the API server would refuse a pod with the new requests. An eviction would have no effect:
// the admission controller does not change such a pod.
func (t *candidate) replacementRefused() (decision.Reason, bool) {
	r := policy.Refused(t.w.Limits[t.d.Pod.Namespace], t.d.Pod, t.d.With)
	if !r.Refused() {
		return decision.Reason{}, false
	}
	return decision.Reason{Code: decision.ReplacementRefused, Text: r.String()}, true
}
