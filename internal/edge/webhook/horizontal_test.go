// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"strings"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
)

func TestHandler_resourceScaledByHPA_keepsTheRequestAndLimitOfTheTemplate(t *testing.T) {
	pod := cart("", `"containers":[{"name":"app","resources":{"requests":{"cpu":"100m","memory":"100Mi"},"limits":{"cpu":"200m","memory":"200Mi"}}}]`)
	a := recommending("vpa", map[string]cluster.Resources{"app": cluster.Amounts(250, mi(300))})
	for res, other := range map[cluster.Resource]cluster.Resource{cluster.CPU: cluster.Memory, cluster.Memory: cluster.CPU} {
		scaled := a.WithHorizontal([]*cluster.HorizontalAutoscaler{{
			Key: cluster.Key{Namespace: "shop", Name: "cart"}, Target: a.Target, Utilization: []cluster.UtilizationTarget{{Resource: res, Percent: 80}},
		}})
		patch := strings.Join(patchLines(t, ask(t, handler(worldOf(scaled), Options{}), createRequest(pod)).Patch), "\n")
		if strings.Contains(patch, "/requests/"+res.String()) || strings.Contains(patch, "/limits/"+res.String()) {
			t.Errorf("%s is changed:\n%s", res, patch)
		}
		if !strings.Contains(patch, "/requests/"+other.String()) || !strings.Contains(patch, "/limits/"+other.String()) {
			t.Errorf("%s is not changed:\n%s", other, patch)
		}
	}
}
