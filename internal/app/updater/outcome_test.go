// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/edge/kube"
)

// updaterOf returns an updater of a fake cluster.
func updaterOf(fake *fakeCluster, pods podChanger) *updater {
	return newUpdater(fake.config, fake, pods, fake, fake, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), fake.log)
}

// eventCount returns the number of events with a prefix.
func (y *fakeCluster) eventCount(prefix string) int {
	n := 0
	for _, event := range y.recorded {
		if strings.HasPrefix(event, prefix) {
			n++
		}
	}
	return n
}

func TestUpdater_podsAreEvicted_metricsAndEventsCountThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeCluster(cluster.Recreate)
		fake.config.Budget.Tolerance = 1
		u := updaterOf(fake, fake)
		u.pass(t.Context(), time.Now())
		m := u.metrics
		for name, got := range map[string]float64{
			"evicted pods":             testutil.ToFloat64(m.evicted.WithLabelValues("1", "Recreate", "web", "shop")),
			"controlled pods but one":  testutil.ToFloat64(m.controlled.WithLabelValues("1", "Recreate")) - 1,
			"evictable pods":           testutil.ToFloat64(m.evictable.WithLabelValues("1", "Recreate")),
			"events":                   float64(fake.eventCount("evicted ")),
			"2 × VPAs with evictable":  2 * testutil.ToFloat64(m.withEvictable.WithLabelValues("1", "Recreate")),
			"2 × VPAs with an evicted": 2 * testutil.ToFloat64(m.withEvicted.WithLabelValues("1", "Recreate")),
		} {
			if got != 2 {
				t.Errorf("%s: %v, want 2", name, got)
			}
		}
		fake.pods = slices.DeleteFunc(fake.pods, func(p *cluster.Pod) bool { return !slices.Contains(fake.done, "evict "+p.Name) })
		u.pass(t.Context(), time.Now().Add(time.Minute))
		if n := testutil.CollectAndCount(m.evictable); n != 1 || testutil.ToFloat64(m.evictable.WithLabelValues("1", "Recreate")) != 0 {
			t.Errorf("without evictable pods the gauge has %d series, want one with the value 0", n)
		}
	})
}

func TestUpdater_podsAreResized_metricsAndEventsCountThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeCluster(cluster.InPlaceOrRecreate)
		fake.config.Budget.Tolerance = 1
		u := updaterOf(fake, fake)
		u.pass(t.Context(), time.Now())
		m := u.metrics
		for name, got := range map[string]float64{
			"resized pods":            testutil.ToFloat64(m.resized.WithLabelValues("1", "web", "shop")),
			"resizable pods":          testutil.ToFloat64(m.resizable.WithLabelValues("1")),
			"events":                  float64(fake.eventCount("resized ")),
			"3 × VPAs with resizable": 3 * testutil.ToFloat64(m.withResizable.WithLabelValues("1")),
			"3 × VPAs with a resized": 3 * testutil.ToFloat64(m.withResized.WithLabelValues("1")),
		} {
			if got != 3 {
				t.Errorf("%s: %v, want 3", name, got)
			}
		}
	})
}

func TestUpdater_actionFails_reasonAndMetricNameTheCause(t *testing.T) {
	for name, c := range map[string]struct {
		mode    cluster.Mode
		err     error
		reason  decision.ReasonCode
		failure string // label value; "" if the attempt is not counted as failed
	}{
		"pod to evict is gone":        {cluster.Recreate, kube.ErrNotFound, decision.AlreadyGone, ""},
		"pod to evict was replaced":   {cluster.Recreate, kube.ErrConflict, decision.AlreadyGone, ""},
		"pod to resize is gone":       {cluster.InPlace, kube.ErrNotFound, decision.AlreadyGone, ""},
		"pod to resize was changed":   {cluster.InPlace, kube.ErrConflict, decision.ResizeRefused, "InPlaceUpdateError"},
		"resize is not sent":          {cluster.InPlace, kube.ErrNotSent, decision.OutOfTime, ""},
		"resize exceeds a quota":      {cluster.InPlace, kube.ErrQuota, decision.ResizeOverQuota, "InPlaceUpdateError"},
		"resize has no answer":        {cluster.InPlace, errors.New("EOF"), decision.Unanswered, "InPlaceUpdateError"},
		"node is too small":           {cluster.InPlace, kube.ErrNodeCapacity, decision.NotSmallerThanRefused, "InPlaceUpdateInfeasible"},
		"eviction exceeds the budget": {cluster.Recreate, kube.ErrBudget, decision.DisruptionBudget, "EvictionError"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := newFakeCluster(c.mode)
				fake.pods = fake.pods[:1]
				fake.config.Budget.MinReplicas = 1
				fake.config.Gates = process.Gates{process.InPlaceGate: true}
				fake.evictErr, fake.resizeErr = c.err, c.err
				u := updaterOf(fake, fake)
				reason := u.update(t.Context(), time.Now())[0].Reason.Code
				if reason != c.reason {
					t.Errorf("the reason is %s, want %s", reason, c.reason)
				}
				failures := u.metrics.resizeFailed
				labels := []string{"0", c.failure, "web", "shop"}
				if c.mode == cluster.Recreate {
					failures = u.metrics.evictFailed
					labels = []string{"0", "Recreate", c.failure, "web", "shop"}
				}
				want := 0
				if c.failure != "" {
					want = 1
				}
				if n := testutil.CollectAndCount(failures); n != want {
					t.Errorf("%d series of failures, want %d", n, want)
				}
				if got := testutil.ToFloat64(failures.WithLabelValues(labels...)); got != float64(want) {
					t.Errorf("%v failures with the label %q, want %d", got, c.failure, want)
				}
			})
		})
	}
}

func TestUpdater_nodeRefusedTheSize_skippedResizeIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeCluster(cluster.InPlace)
		fake.config.Gates = process.Gates{process.InPlaceGate: true}
		fake.resizeErr = kube.ErrNodeCapacity
		u := updaterOf(fake, fake)
		for range 3 {
			u.pass(t.Context(), time.Now())
			time.Sleep(time.Minute)
		}
		if n := fake.eventCount("skipped "); n != 3 {
			t.Errorf("%d events, want one for each of 3 pods: %q", n, fake.recorded)
		}
		if n := testutil.ToFloat64(u.metrics.infeasibleSkip.WithLabelValues("1", "web", "shop")); n == 0 {
			t.Error("skipped resizes are not counted")
		}
	})
}

func TestUpdater_boostCannotBeRemoved_countsUnboostError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeCluster(cluster.Off)
		fake.config.Gates = process.Gates{process.CPUStartupBoost: true}
		fake.autoscalers[0].Boost = &cluster.Boost{Factor: 2}
		fake.resizeErr = kube.ErrForbidden
		for _, p := range fake.pods {
			p.Containers[0].Boosted = &cluster.Applied{Requests: cluster.Amounts(50, 50<<20)}
		}
		u := updaterOf(fake, fake)
		u.pass(t.Context(), time.Now())
		if n := testutil.ToFloat64(u.metrics.resizeFailed.WithLabelValues("1", "UnboostError", "web", "shop")); n == 0 {
			t.Error("the failures are not counted as UnboostError")
		}
	})
}

// failingAnnotations is a fakeCluster in which annotating a pod fails with an error.
type failingAnnotations struct {
	*fakeCluster
	err error
}

func (f failingAnnotations) Annotate(context.Context, *cluster.Pod, map[string]string, ...string) error {
	return f.err
}

func TestUpdater_annotationFails_isLoggedUnlessThePodIsGone(t *testing.T) {
	for err, want := range map[error]bool{kube.ErrNotFound: false, kube.ErrForbidden: true} {
		synctest.Test(t, func(t *testing.T) {
			var text bytes.Buffer
			fake := newFakeCluster(cluster.InPlaceOrRecreate)
			fake.log = slog.New(slog.NewTextHandler(&text, nil))
			u := updaterOf(fake, failingAnnotations{fake, fmt.Errorf("annotate: %w", err)})
			u.pass(t.Context(), time.Now())
			if got := strings.Contains(text.String(), "failed to annotate"); got != want || fake.eventCount("resized ") != 1 {
				t.Errorf("%v: logged %t, want %t; events %q", err, got, want, fake.recorded)
			}
		})
	}
}

// An event is written again when the problem occurs again after a success.
func TestUpdater_problemReturnsAfterASuccess_writesSecondEvent(t *testing.T) {
	for event, c := range map[string]struct {
		mode cluster.Mode
		err  error
	}{
		"ResizeRefused web": {cluster.InPlaceOrRecreate, kube.ErrUnsupported},
		"UpdateHeld web":    {cluster.InPlace, kube.ErrForbidden},
	} {
		synctest.Test(t, func(t *testing.T) {
			fake := newFakeCluster(c.mode)
			fake.config.Gates = process.Gates{process.InPlaceGate: true}
			fake.admits = false // evicted pods keep their requests, so they should change again
			u := updaterOf(fake, fake)
			for _, err := range []error{c.err, nil, c.err} {
				fake.resizeErr = err
				u.pass(t.Context(), time.Now())
				time.Sleep(3 * time.Hour)
				for _, p := range fake.pods {
					p.Containers[0].Requests = cluster.Amounts(100, 50<<20)
				}
			}
			if n := fake.eventCount(event); n != 2 {
				t.Errorf("%d events %s, want 2: %q", n, event, fake.recorded)
			}
		})
	}
}

// unreadableLease is a status lease that cannot be read.
type unreadableLease struct{ err error }

func (l *unreadableLease) IsFresh(context.Context, time.Duration, time.Time) (bool, error) {
	return l.err == nil, l.err
}

func TestUpdater_leaseCannotBeRead_logsOncePerChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		fake := newFakeCluster(cluster.Recreate)
		fake.log = slog.New(slog.NewTextHandler(&text, nil))
		lease := &unreadableLease{}
		u := newUpdater(fake.config, fake, fake, fake, lease, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), fake.log)
		u.pass(t.Context(), time.Now())
		if strings.Contains(text.String(), "valid again") {
			t.Error("the first pass logs that the lease is valid again")
		}
		lease.err = errors.New("boom")
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		u.pass(ended, time.Now())
		if strings.Contains(text.String(), "Not updating pods") {
			t.Error("an ended pass logs that the lease is not valid")
		}
		u.paused = false
		u.pass(t.Context(), time.Now())
		u.pass(t.Context(), time.Now())
		if n := strings.Count(text.String(), "Not updating pods"); n != 1 {
			t.Errorf("logged %d times, want once", n)
		}
		if n := testutil.ToFloat64(u.metrics.statusInvalid.WithLabelValues("error")); n != 3 {
			t.Errorf("%v passes are counted with reason error, want 3", n)
		}
		lease.err = nil
		u.pass(t.Context(), time.Now())
		if n := strings.Count(text.String(), "valid again"); n != 1 {
			t.Errorf("the recovery is logged %d times, want once", n)
		}
	})
}

func TestUpdater_namespaceIsIgnored_changesNoPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeCluster(cluster.Recreate)
		fake.config.IgnoredNamespaces = []string{"shop"}
		fake.run(t, 10*time.Minute)
		if len(fake.done) > 0 {
			t.Errorf("actions %v in an ignored namespace", fake.done)
		}
	})
}
