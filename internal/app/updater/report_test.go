// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
)

// logged returns the number of log lines with a text.
func logged(log *bytes.Buffer, text string) int { return strings.Count(log.String(), text) }

func TestUpdater_podsAreChangedOrFit_areNotLoggedAsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		fake := newFakeCluster(cluster.Recreate)
		fake.log = slog.New(slog.NewTextHandler(&log, nil))
		fake.config.Budget.Tolerance = 1
		fake.pods[2].Containers[0].Requests = fake.autoscalers[0].Advice[0].Target
		updaterOf(fake, fake).pass(t.Context(), time.Now())
		if evicted, left := logged(&log, "Evicted a pod"), logged(&log, "Left a pod unchanged"); evicted != 2 || left != 0 {
			t.Errorf("%d pods are logged as evicted and %d as left, want 2 and 0:\n%s", evicted, left, log.String())
		}
	})
}

func TestUpdater_podIsLeftInSeveralPasses_isLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		fake := newFakeCluster(cluster.Recreate)
		fake.log = slog.New(slog.NewTextHandler(&log, nil))
		fake.pods = fake.pods[:1] // fewer than --min-replicas
		u := updaterOf(fake, fake)
		for range 5 {
			u.pass(t.Context(), time.Now())
			time.Sleep(time.Minute)
		}
		if left := logged(&log, "Left a pod unchanged"); left != 1 {
			t.Errorf("logged %d times, want once:\n%s", left, log.String())
		}
		if events := fake.eventCount("UpdateHeld web"); events != 1 {
			t.Errorf("%d events, want 1: %q", events, fake.recorded)
		}
	})
}

// With --log-format=json, the log has a line of JSON for each decision: those on pods that are changed, and those on pods that are left.
// docs/web.md names it as the record of decisions that survives a restart.
func TestUpdater_logFormatIsJSON_eachDecisionIsALine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		fake := newFakeCluster(cluster.Recreate)
		fake.log = slog.New(slog.NewJSONHandler(&log, nil))
		u := updaterOf(fake, fake)
		u.pass(t.Context(), time.Now())
		done := map[string]int{}
		for line := range strings.Lines(log.String()) {
			var d struct{ Time, Msg, Action, Pod, VPA, Reason string }
			if err := json.Unmarshal([]byte(line), &d); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			if d.Action == "" {
				continue
			}
			done[d.Action]++
			if _, err := time.Parse(time.RFC3339, d.Time); err != nil || !strings.HasPrefix(d.Pod, "shop/") || d.VPA == "" || d.Reason == "" || d.Msg == "" {
				t.Errorf("the decision is %+v", d)
			}
		}
		if done["evict"] != 1 || done["leave"] != 2 {
			t.Errorf("decisions %v, want one eviction and two pods that wait for it:\n%s", done, log.String())
		}
	})
}

func TestUpdater_scaleBecomesKnown_writesNoEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newAPIServer(cluster.Recreate, 3)
		server.unread = true
		u := server.work(t, time.Minute)
		server.unread = false
		u.pass(t.Context(), time.Now())
		if got := server.events("UpdateHeld"); len(got) > 0 || server.count("evict ") != 1 {
			t.Errorf("events %q, actions %v; want no event and one eviction, because the other pods only wait for it", got, server.done)
		}
	})
}

func TestUpdater_everyResizeIsRefused_writesOneEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeCluster(cluster.InPlaceOrRecreate)
		fake.resizeErr = kube.ErrForbidden
		fake.run(t, 24*time.Hour)
		if events, evictions := fake.eventCount("ResizeRefused web"), fake.count("evict "); events != 1 || evictions != 3 {
			t.Errorf("%d events and %d evictions, want 1 and 3: %q", events, evictions, fake.recorded)
		}
	})
}

func TestUpdater_autoscalerHasNoPods_hasNoEvictableSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeCluster(cluster.Recreate)
		fake.pods = nil
		u := updaterOf(fake, fake)
		u.pass(t.Context(), time.Now())
		if n := testutil.CollectAndCount(u.metrics.evictable); n != 0 {
			t.Errorf("%d series of evictable pods, want none", n)
		}
		if n := testutil.CollectAndCount(u.metrics.controlled); n != 1 {
			t.Errorf("%d series of controlled pods, want one", n)
		}
	})
}

func TestUpdater_autoscalersChangeNoPods_podsWithoutControllerGetNoEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeCluster(cluster.Off)
		fake.pods = append(fake.pods, &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: "bare"}, UID: "bare", Phase: cluster.Running})
		updaterOf(fake, fake).pass(t.Context(), time.Now())
		if len(fake.recorded) > 0 {
			t.Errorf("events %q, want none", fake.recorded)
		}
	})
}
