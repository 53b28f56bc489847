// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// Dashboards and alerts meet the series that upstream has, those too that are zero.
func TestFiguresThatAreZeroAreThereU(t *testing.T) {
	u := newUpdaterMetrics(prometheus.NewRegistry())
	resizable := newTally(u.resizable)
	resizable.add("2", "", 5)
	resizable.publish(false)
	if n := testutil.CollectAndCount(u.resizable); n != 20 {
		t.Errorf("%d classes of sizes", n)
	}
	if got := testutil.ToFloat64(u.resizable.WithLabelValues("2")); got != 5 {
		t.Errorf("%v pods", got)
	}
}
