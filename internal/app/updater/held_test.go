// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
)

func TestUpdater_resizeIsRefusedAndEvictionIsHeld_writesBothEventsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeCluster(cluster.InPlaceOrRecreate)
		fake.config.MinReplicas, fake.config.SkipDisruptionBudget = 5, true
		fake.resizeErr = kube.ErrForbidden
		fake.run(t, 24*time.Hour)
		var texts []string
		for _, text := range []string{"The API server refused the resize", "less than the minimum of 5"} {
			n := 0
			for _, event := range fake.recorded {
				if strings.HasPrefix(event, "UpdateHeld web") && strings.Contains(event, text) {
					n++
				}
			}
			if n != 1 {
				texts = append(texts, text)
			}
		}
		if len(texts) > 0 || len(fake.recorded) != 2 {
			t.Errorf("events %q, want one of each kind; not written once: %q", fake.recorded, texts)
		}
	})
}

// A pod that is deleted in the pass in which its eviction is refused is not reported as a pod whose resize was refused.
func TestUpdater_evictionIsRefusedAndPodIsDeleted_writesNoEventAboutAResize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newCrashCluster(t, cluster.Recreate, 3)
		y.during(20 * time.Minute)
		if n := y.eventCount("ResizeRefused"); n != 0 || y.removed["delete"] == 0 {
			t.Errorf("%d events about a refused resize and actions %v: %q", n, y.removed, y.recorded)
		}
	})
}

// OOM-killed pods wait for the replacement of a deleted one. If it does not start, users get an event.
func TestUpdater_replacementOfDeletedPodDoesNotStart_writesOneEvent(t *testing.T) {
	for delay, want := range map[time.Duration]int{5 * time.Minute: 0, 50 * time.Minute: 1} {
		synctest.Test(t, func(t *testing.T) {
			y := newCrashCluster(t, cluster.Recreate, 3)
			y.desired, y.delay = 1, delay
			y.during(45 * time.Minute)
			n := 0
			for _, event := range y.recorded {
				if strings.HasPrefix(event, "UpdateHeld web") && strings.Contains(event, "before the replacement of another deleted pod is ready") {
					n++
				}
			}
			if n != want || y.removed["delete"] == 0 {
				t.Errorf("a replacement starts after %s: %d events that pods wait for it, want %d; actions %v, events %q", delay, n, want, y.removed, y.recorded)
			}
		})
	}
}
