// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestQuantity_text_isParsedOrRejected(t *testing.T) {
	for text, tt := range map[string]struct {
		want  string
		given bool
		err   string
	}{
		"":     {},
		"  ":   {},
		"0":    {want: "0", given: true},
		"500m": {want: "500m", given: true},
		"2Gi":  {want: "2Gi", given: true},
		"2 GB": {err: `"2 GB" is not a quantity such as 500m or 2Gi`},
		"-1":   {err: `must not be negative, got "-1"`},
	} {
		var q Quantity
		err := q.Set(text)
		if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%q: got error %v, want %q", text, err, tt.err)
		}
		if q.String() != tt.want || q.Given != tt.given {
			t.Errorf("%q: got %q, given %t; want %q, %t", text, q.String(), q.Given, tt.want, tt.given)
		}
	}
}

func TestStopwatch_stepOfPass_updatesHealthCheck(t *testing.T) {
	latency := ExecutionLatency(prometheus.NewRegistry(), "test", "")
	NewStopwatch(latency).Step("without health")
	watch := NewStopwatch(latency)
	watch.Health = NewHealth(time.Hour)
	watch.Step("with health")
	if err := watch.Health.Problem(time.Now().Add(2 * time.Hour)); err == nil {
		t.Error("a step does not count as activity")
	}
}
