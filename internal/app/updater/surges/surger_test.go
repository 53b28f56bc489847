// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package surges

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/app/updater/freeze"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/rollout"
	"podfit.dev/podfit/internal/edge/kube"
)

func TestSurger_newPodIsReady_oldPodIsRemovedAndReplicasAreAsBefore(t *testing.T) {
	for _, hidden := range []bool{false, true} { // without the watch, a Surger goes on with its own surges
		y := newBench(t)
		y.hidden = hidden
		s := y.begun()
		y.check(4, true, resultBegun, 1)
		if plan, _ := s.Advance(t.Context(), y.now); !plan.Has(y.deployment.Workload) {
			t.Error("the plan does not know the surge")
		}
		failed := y.passes(s, 10)
		y.check(3, false, resultCompleted, 1)
		if len(failed) > 0 || y.pods[len(y.pods)-1].Name != "web-3" || len(y.pods) != 3 {
			t.Errorf("failures %v, pods %v", failed, y.pods)
		}
	}
}

func TestSurger_newPodIsNotReady_isTakenBackAndReported(t *testing.T) {
	y := newBench(t)
	y.late = true
	s := y.begun()
	failed := y.passes(s, 30)
	y.check(3, false, resultFailed, 1)
	if len(failed) != 1 || failed[0].Pod.Name != "web-0" || failed[0].Reason.Kind != decision.NotReadyInTime {
		t.Errorf("failures %+v, want one of pod web-0", failed)
	}
	if y.logged("Ended a surge without replacing the pod") != 1 {
		t.Errorf("log:\n%s", y.log.String())
	}
}

// Others change the number of replicas. It stays, and only the record is removed.
func TestSurger_othersChangeReplicas_theirNumberStays(t *testing.T) {
	y := newBench(t)
	s := y.begun()
	y.deployment.Replicas = 7
	failed := y.passes(s, 3)
	y.check(7, false, resultFailed, 1)
	if len(failed) != 1 {
		t.Errorf("failures %+v, want one", failed)
	}
}

func TestSurger_requestIsRefused_surgeDoesNotBeginForAReason(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*bench)
		kind   decision.RefusalKind // of a Refused; 0: another error
		logged int
	}{
		"not allowed":              {func(y *bench) { y.writeErr = kube.ErrForbidden }, 0, 1},
		"no answer":                {func(y *bench) { y.readErr = errors.New("timeout") }, 0, 0},
		"the Deployment is gone":   {func(y *bench) { y.readErr = kube.ErrNotFound }, decision.ServerBusy, 0},
		"a write by others":        {func(y *bench) { y.writeErr = kube.ErrInvalid }, decision.ServerBusy, 0},
		"a rollout is in progress": {func(y *bench) { y.deployment.Updated = -1 }, decision.ServerBusy, 0},
		"no additional pods":       {func(y *bench) { y.deployment.Exclusive = true }, decision.Unsupported, 0},
	} {
		t.Run(name, func(t *testing.T) {
			y := newBench(t)
			c.change(y)
			s := y.surger()
			y.pass(s)
			for range 2 {
				err := s.Start(t.Context(), y.now, y.pods[0])
				var refused Refused
				if isRefused := errors.As(err, &refused); err == nil || isRefused != (c.kind != 0) || isRefused && (refused.Kind != c.kind || refused.Error() != refused.Text) {
					t.Errorf("got %v", err)
				}
			}
			y.check(3, false, resultBegun, 0)
			if n := y.logged("Cannot surge a Deployment"); n != c.logged {
				t.Errorf("logged %d times, want %d", n, c.logged)
			}
		})
	}
}

// The first step of the next pass sets the deletion cost. If the pod is gone, it needs none.
func TestSurger_deletionCostFails_nextPassSetsIt(t *testing.T) {
	for name, cause := range map[string]error{"refused": kube.ErrBusy, "pod is gone": kube.ErrNotFound} {
		y := newBench(t)
		y.costErr = cause
		s := y.begun()
		y.costErr = nil
		y.passes(s, 10)
		y.check(3, false, resultCompleted, 1)
		if y.pods[0].Name == "web-0" {
			t.Errorf("%s: the old pod was not removed", name)
		}
	}
}

func TestSurger_stepsFail_areRepeatedWithBackoffAndLoggedOnce(t *testing.T) {
	y := newBench(t)
	s := y.begun()
	y.readErr = kube.ErrForbidden
	before := y.reads
	y.passes(s, 60)
	if n := y.reads - before; n < 4 || n > 12 || y.logged("Cannot continue a surge") != 1 {
		t.Errorf("%d reads in half an hour, log:\n%s", n, y.log.String())
	}
	y.readErr = nil
	y.passes(s, 60)
	y.check(3, false, resultCompleted, 1)
}

func TestSurger_freeze_noStepUntilItEnds(t *testing.T) {
	for _, autoscaled := range []bool{true, false} {
		y := newBench(t)
		s := y.begun()
		if !autoscaled { // the VPA is deleted
			y.autoscalers = nil
		}
		before := y.reads + y.writes
		y.frozen = true
		y.passes(s, 60)
		if n := y.reads + y.writes - before; n != 0 || y.logged("A freeze stops a surge") != 1 {
			t.Errorf("%d requests during the freeze, log:\n%s", n, y.log.String())
		}
		y.frozen = false
		y.passes(s, 10)
		y.check(3, false, resultCompleted, 1)
	}
}

// Between the record of a surge and the deletion cost of its pod, a freeze begins or the updater ends, until after the deadline.
func TestSurger_noStepBeforeTheDeadline_surgeCompletesAfterwards(t *testing.T) {
	for name, away := range map[string]func(y *bench, s *Surger) *Surger{
		"freeze": func(y *bench, s *Surger) *Surger {
			y.frozen = true
			y.passes(s, 60)
			y.frozen = false
			return s
		},
		"no updater": func(y *bench, _ *Surger) *Surger {
			y.create()
			y.now = y.now.Add(time.Hour)
			return y.surger()
		},
	} {
		y := newBench(t)
		y.costErr = &freeze.Error{}
		s := y.begun()
		y.costErr = nil
		failed := y.passes(away(y, s), 10)
		if y.deployment.Replicas != 3 || y.pods[0].Name == "web-0" || len(failed) > 0 {
			t.Errorf("%s: %d replicas, the first pod is %s, failures %+v", name, y.deployment.Replicas, y.pods[0].Name, failed)
		}
	}
}

// "kubectl rollout undo" replaces all annotations of a Deployment.
func TestSurger_othersRemoveTheRecord_replicasAreSetBack(t *testing.T) {
	y := newBench(t)
	y.late = true
	s := y.begun()
	y.passes(s, 2)
	y.version++
	y.deployment.Recorded, y.deployment.Surge = false, nil
	y.writeErr = kube.ErrBusy
	y.pass(s)
	y.writeErr = nil
	y.passes(s, 3)
	y.check(3, false, resultFailed, 1)
	if y.logged("Another client removed the record of a surge") != 1 {
		t.Errorf("log:\n%s", y.log.String())
	}
}

func TestSurger_recordIsInvalid_isReportedOnceAndNothingIsWritten(t *testing.T) {
	y := newBench(t)
	y.deployment.Recorded = true
	s := y.surger()
	y.passes(s, 60)
	if y.writes != 0 || y.reads > 4 || y.logged("is invalid; no pod of it is surged") != 1 {
		t.Errorf("%d reads, %d writes, log:\n%s", y.reads, y.writes, y.log.String())
	}
	y.deployment.Recorded = false
	y.pass(s)
	if len(s.known) > 0 {
		t.Error("a Deployment without a record is kept")
	}
}

func TestSurger_deploymentIsDeleted_nothingIsDone(t *testing.T) {
	y := newBench(t)
	s := y.begun()
	y.deployment.Deleting = true
	before := y.writes
	y.passes(s, 10)
	if y.writes != before {
		t.Errorf("%d writes", y.writes-before)
	}
	y.readErr = kube.ErrNotFound
	y.passes(s, 60)
	if p := s.of(y.deployment.Workload); p.begun || p.record != nil {
		t.Error("a deleted Deployment is still stored")
	}
}

func TestSurger_otherNamespaceOrUnknownHPAs_noSurgeBegins(t *testing.T) {
	y := newBench(t)
	y.deployment.Recorded, y.unsynced = true, true
	s := New(y, y, y, &process.Common{Namespace: "elsewhere"}, y.metrics, process.NewHealth(time.Hour), slog.New(slog.DiscardHandler))
	if plan, _ := s.Advance(t.Context(), y.now); plan != nil || y.reads > 0 {
		t.Errorf("got %v after %d reads, want no surges", plan, y.reads)
	}
}

// A crowd is a cluster in which a tenant has put the annotation podfit.dev/surge on many Deployments.
type crowd struct {
	all []cluster.Workload

	mu    sync.Mutex
	reads map[string]int // by namespace
}

func (y *crowd) Surging() []cluster.Workload               { return slices.Clone(y.all) }
func (y *crowd) Rules(a *cluster.Autoscaler) rollout.Rules { return rollout.Rules{Autoscaler: a} }
func (y *crowd) Snapshot() *cluster.Snapshot               { return cluster.NewSnapshot(nil, nil) }
func (y *crowd) Scaled() (map[cluster.Workload]bool, bool) { return nil, true }
func (y *crowd) Write(context.Context, *cluster.Deployment, int32, *cluster.Surge) error {
	return nil
}

func (y *crowd) Read(_ context.Context, w cluster.Workload) (cluster.Deployment, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.reads[w.Namespace]++
	if w.Namespace == "a" {
		return cluster.Deployment{Workload: w, Recorded: true}, nil // the record is invalid
	}
	return cluster.Deployment{Workload: w, Recorded: true, Replicas: 4, Surge: &cluster.Surge{Pod: "web-1", Replicas: 3}}, nil
}

// Each pass reads the Deployments with a record. The records of a tenant must keep no surge of another one from ending, and with early
// passes, the reads must leave most of --kube-api-qps for changes of pods.
func TestSurge_tenantAnnotatesManyDeployments_othersGoOnAndReadsAreFew(t *testing.T) {
	y := &crowd{reads: map[string]int{}}
	for i := range 300 {
		y.all = append(y.all, cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "a", Name: fmt.Sprint("web-", i)})
	}
	y.all = append(y.all, cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"})
	s := New(y, y, nil, &process.Common{}, NewCounter(prometheus.NewRegistry()), process.NewHealth(time.Hour), slog.New(slog.DiscardHandler))
	now := time.Now()
	for range 300 { // early passes
		s.Advance(t.Context(), now)
		now = now.Add(time.Second)
	}
	if total := y.reads["a"] + y.reads["shop"]; y.reads["shop"] < 5 || total > 12*300 {
		t.Errorf("%d reads of the surge of another tenant, and %d in total in 300s; want at least 5, and at most 12 per second", y.reads["shop"], total)
	}
	y.all = nil
	if s.Advance(t.Context(), now); len(s.known) > 0 {
		t.Errorf("%d Deployments without a record are kept", len(s.known))
	}
}
