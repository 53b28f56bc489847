// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/edge/kube"
)

// The webhook is down for ten hours. Only one pod is evicted, not one after each back-off. When the webhook works again, a dry run shows
// it, and all pods get their size.
func TestUpdater_webhookIsDownForTenHours_onlyOnePodIsEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newHostileCluster(cluster.Recreate)
		y.admits = false
		y.step = func(minute int) {
			if minute == 599 && y.actions["evict"] != 1 {
				t.Errorf("%d evictions while the webhook is down, want 1", y.actions["evict"])
			}
			y.admits = minute >= 600
		}
		reasons := y.during(t, 11*time.Hour)
		if y.actions["evict"] != 4 { // the first pod again, and the others once
			t.Errorf("%d evictions, want 4", y.actions["evict"])
		}
		if slices.ContainsFunc(reasons, func(r string) bool { return !strings.HasPrefix(r, "Fits:") }) {
			t.Errorf("reasons %q, want that all pods have their size", reasons)
		}
	})
}

// dryRunsOf makes dry runs fail.
type dryRunsOf struct {
	err  error
	made *int
}

func (r dryRunsOf) DryRun(context.Context, *cluster.Pod) (*cluster.Pod, error) {
	*r.made++
	return nil, r.err
}

// A webhook with failurePolicy Fail cannot be called, so that a replacement would not be created. Other errors of the dry run say nothing.
func TestUpdater_dryRunFails_isReportedOnlyIfWebhookCannotBeCalled(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want decision.ReasonCode
		text string
		made int
	}{
		"webhook cannot be called": {fmt.Errorf("dry run: %w", kube.ErrWebhook), decision.NotSizedAtAdmission, kube.ErrWebhook.Error(), 1},
		"quota is exceeded":        {fmt.Errorf("dry run: %w", kube.ErrQuota), decision.BackingOff, "", 1},
		"pod is gone":              {fmt.Errorf("dry run: %w", kube.ErrNotFound), decision.BackingOff, "", 1},
		"request is late":          {context.DeadlineExceeded, decision.BackingOff, "", 1},
		"no right to create pods":  {fmt.Errorf("dry run: %w", kube.ErrForbidden), decision.BackingOff, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := newHostileCluster(cluster.Recreate)
				made := 0
				y.admits, y.dryRuns, y.missing = false, dryRunsOf{c.err, &made}, map[int]bool{featureDryRuns: c.made == 0}
				reasons := y.during(t, 20*time.Minute)
				if y.actions["evict"] != 1 {
					t.Errorf("%d evictions, want 1", y.actions["evict"])
				}
				if made != c.made {
					t.Errorf("%d dry runs in 20 minutes, want %d", made, c.made)
				}
				if !slices.ContainsFunc(reasons, func(r string) bool { return strings.HasPrefix(r, c.want.String()+":") && strings.Contains(r, c.text) }) {
					t.Errorf("reasons %q, want %s with %q", reasons, c.want, c.text)
				}
			})
		})
	}
}
