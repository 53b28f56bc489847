// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"strings"
	"testing"
	"time"
)

// What metrics-server measured long ago is not the current usage, by which replicas differ.
func TestExplain_samplesAreOutdated_replicasAreNotCompared(t *testing.T) {
	for age, differ := range map[time.Duration]bool{time.Minute: true, time.Hour: false} {
		s := newShop(t, 2)
		for pod, cpu := range map[string]string{"cart-7d9f-0": "1900m", "cart-7d9f-1": "40m"} {
			s.apply("/apis/metrics.k8s.io/v1beta1/pods", `{"metadata":{"namespace":"shop","name":%q},"timestamp":%q,"window":"30s",
				"containers":[{"name":"app","usage":{"cpu":%q,"memory":"456Mi"}}]}`, pod, ago(age), cpu)
		}
		out, _, _ := s.explain("deploy/cart")
		if got := strings.Contains(out, "replicas differ"); got != differ {
			t.Errorf("samples of %v ago: the replicas differ: %t, want %t\n%s", age, got, differ, out)
		}
	}
}
