// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"strings"
	"testing"

	"podfit.dev/podfit/internal/app/admission"
	"podfit.dev/podfit/internal/app/recommender"
	"podfit.dev/podfit/internal/app/updater"
)

func TestValidate_invalidFlags_nameFlagAndRemedy(t *testing.T) {
	r, u, a := recommender.Defaults(), updater.Defaults(), admission.Defaults()
	r.Sizing.CPU.Target, r.Interval, r.Storage, r.Workers = 90, 0, "etcd", 0
	r.Namespace, r.IgnoredNamespaces = "a", []string{"b"}
	u.Budget.Tolerance, u.RateLimit, u.RateBurst = 2, 1, 0
	u.OOMRescue = "maybe"
	u.Budget.EvictionBackoff = -1
	a.ByURL, a.MinTLSVersion, a.Labels, a.TimeoutSeconds = true, "tls1_0", "nonsense", 60
	for _, tt := range []struct {
		err  error
		want []string
	}{
		{r.Validate(), []string{"--target-cpu-percentile must be between 0 and 1, got 90", "--recommender-interval", `--storage must be checkpoint or prometheus, got "etcd"`, "--update-worker-count must be at least 1, got 0", "cannot both be set"}},
		{u.Validate(), []string{"--eviction-tolerance must be between 0 and 1, got 2", "--eviction-rate-burst", `--oom-rescue must be off, evict or delete, got "maybe"`, "--eviction-backoff must be at least 0, got -1ns"}},
		{a.Validate(), []string{"--webhook-address", "--min-tls-version", "--webhook-labels", "--webhook-timeout-seconds must be between 1 and 30, got 60"}},
	} {
		for _, w := range tt.want {
			if tt.err == nil || !strings.Contains(tt.err.Error(), w) {
				t.Errorf("error %v does not say %q", tt.err, w)
			}
		}
	}
}
