// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/policy"
)

// leftToHPA returns LeftToHPA or HPANotWritten if a pod would change without the HPAs of its workload. Otherwise it returns the given
// reason.
func (s *pass) leftToHPA(a *cluster.Autoscaler, p *cluster.Pod, otherwise decision.Reason) decision.Reason {
	if len(a.Horizontal) == 0 {
		return otherwise
	}
	without := *a
	without.Horizontal = nil
	fits := policy.Fit(&without, s.w.LimitsOf(p), p)
	v := judge(s.now, s.b, &without, p, fits)
	if v.wanted.Code == decision.Fits {
		return otherwise
	}
	for i := range fits {
		state, h := policy.HorizontalOf(a, fits[i].Container, v.wanted.Resource)
		if state == policy.TargetNotWritten {
			return decision.Reason{Code: decision.HPANotWritten}
		}
		if state.IsLeft() {
			r := v.wanted
			r.Code, r.Text = decision.LeftToHPA, h.HPA.Name
			return r
		}
	}
	return otherwise
}
