// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"podfit.dev/podfit/internal/app/process"
)

// Upstream publishes zeros too, so dashboards and alerts can rely on every series.
func TestMetrics_sizeClassesWithoutPods_areZero(t *testing.T) {
	u := NewMetrics(prometheus.NewRegistry())
	resizable := process.NewTally(u.resizable)
	resizable.Add("2", "", 5)
	resizable.Publish()
	if n := testutil.CollectAndCount(u.resizable); n != 20 {
		t.Errorf("%d size classes, want 20", n)
	}
	if got := testutil.ToFloat64(u.resizable.WithLabelValues("2")); got != 5 {
		t.Errorf("%v pods, want 5", got)
	}
}
