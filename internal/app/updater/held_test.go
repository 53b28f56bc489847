// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/edge/kube"
)

// anyText stands for a text of a reason that tellsReason does not compare.
const anyText = "\x00"

// tellsReason returns a function that reports whether an event says that a pod is left for a reason. The time of the next attempt is not
// compared.
func tellsReason(r decision.Reason) func(event string) bool {
	return func(event string) bool {
		if !strings.HasPrefix(event, "UpdateHeld ") {
			return false
		}
		for _, part := range strings.Split(r.String(), anyText) {
			_, rest, found := strings.Cut(event, part)
			if !found {
				return false
			}
			event = rest
		}
		return true
	}
}

// countHeld returns the number of events that say that a pod is left for a reason.
func countHeld(events []string, r decision.Reason) int {
	return len(slices.DeleteFunc(slices.Clone(events), func(e string) bool { return !tellsReason(r)(e) }))
}

func TestUpdater_resizeIsRefusedAndEvictionIsHeld_writesBothEventsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeCluster(cluster.InPlaceOrRecreate)
		fake.config.Budget.MinReplicas, fake.config.Budget.SkipInPlace = 5, true
		fake.resizeErr = kube.ErrForbidden
		fake.run(t, 24*time.Hour)
		for _, r := range []decision.Reason{{Code: decision.ResizeRefused, Text: anyText}, {Code: decision.TooFewReplicas, Have: 3, Want: 5}} {
			if n := countHeld(fake.recorded, r); n != 1 || len(fake.recorded) != 2 {
				t.Errorf("%d events with the reason %s, want one of each kind: %q", n, r.Code, fake.recorded)
			}
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
			n := countHeld(y.recorded, decision.Reason{Code: decision.RescueInProgress})
			if n != want || y.removed["delete"] == 0 {
				t.Errorf("a replacement starts after %s: %d events that pods wait for it, want %d; actions %v, events %q", delay, n, want, y.removed, y.recorded)
			}
		})
	}
}
