// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"podfit.dev/podfit/internal/app/process"
)

// Dashboards and alerts meet the series that upstream has, those too that are zero.
func TestFiguresThatAreZeroAreThere(t *testing.T) {
	u := NewMetrics(prometheus.NewRegistry())
	resizable := process.NewTally(u.resizable)
	resizable.Add("2", "", 5)
	resizable.Publish(false)
	if n := testutil.CollectAndCount(u.resizable); n != 20 {
		t.Errorf("%d classes of sizes", n)
	}
	if got := testutil.ToFloat64(u.resizable.WithLabelValues("2")); got != 5 {
		t.Errorf("%v pods", got)
	}
}
