// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"podfit.dev/podfit/internal/app/process"
)

func TestClient_invalidHistoryFlag_returnsUsageError(t *testing.T) {
	m := NewMetrics(prometheus.NewRegistry())
	h := PrometheusDefaults()
	if _, err := h.Client(m); err != nil {
		t.Errorf("default flags: %v", err)
	}
	h.Length = "eight days"
	if _, err := h.Client(m); err == nil || !errors.As(err, new(process.UsageError)) {
		t.Errorf("error %v, want a UsageError", err)
	}
}
