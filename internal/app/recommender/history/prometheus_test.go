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
	h.LengthText = "eight days"
	if _, err := h.Client(m); err == nil || !errors.As(err, new(process.UsageError)) {
		t.Errorf("error %v, want a UsageError", err)
	}
	h = PrometheusDefaults()
	for address, valid := range map[string]bool{"localhost:9090": false, "prometheus": false, "ftp://x": false, "http://localhost:9090": true, "https://example.com/prometheus": true} {
		h.Address = address
		if _, err := h.Client(m); (err == nil) != valid || err != nil && !errors.As(err, new(process.UsageError)) {
			t.Errorf("--prometheus-address=%s: got error %v", address, err)
		}
	}
}
