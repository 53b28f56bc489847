// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"podfit.dev/podfit/internal/core/cluster"
)

// Dashboards and alerts meet the series that upstream has, those too that are zero.
func TestFiguresThatAreZeroAreThere(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := NewMetrics(reg)
	m.publishObjects(map[objectKey]int{{mode: "Off", matches: true}: 3})
	for api, want := range map[string]float64{"v1": 3, "v1beta1": 0, "v1beta2": 0} {
		if got := testutil.ToFloat64(m.objects.WithLabelValues("Off", "false", api, "true", "false")); got != want {
			t.Errorf("%s: %v objects", api, got)
		}
	}
	if n := testutil.CollectAndCount(m.objects); n != 6*8*3 {
		t.Errorf("%d classes of objects", n)
	}
	m.read(&cluster.Pod{Containers: []cluster.Container{{Reported: true}, {}, {Role: cluster.Sidecar, Reported: true}, {Role: cluster.Init}, {Role: cluster.Init}}})
	for source, want := range map[string]float64{
		"Pod.Status.ContainerStatuses": 1, "Pod.Spec.Containers": 1, "Pod.Status.InitContainerStatuses": 1, "Pod.Spec.InitContainers": 2,
	} {
		if got := testutil.ToFloat64(m.sources.WithLabelValues(source)); got != want {
			t.Errorf("%s: %v", source, got)
		}
	}
}
