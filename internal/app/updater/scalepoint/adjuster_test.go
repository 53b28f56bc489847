// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package scalepoint

import (
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/app/updater/freeze"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
)

// The target is set before the pods shrink, and the record is written before the target.
func TestAdjuster_podsShrink_targetIsRaisedBefore(t *testing.T) {
	y := newBench()
	y.resize = 460
	s := y.adjuster()
	y.pass(s)
	if y.writes != 1 || len(y.hpa.Points) != 1 || y.percent() != 80 {
		t.Errorf("%d writes, records %v, target %d %%; want the record only", y.writes, y.hpa.Points, y.percent())
	}
	guard, decisions := y.pass(s)
	if y.percent() != 87 { // 80 % of 500m is 87 % of 460m
		t.Errorf("target %d %%, want 87 %%", y.percent())
	}
	for i := range decisions {
		if guard.Holds(&decisions[i]) {
			t.Errorf("pod %s waits, although the target is set", decisions[i].Pod.Name)
		}
	}
	unplanned := decisions[0]
	other := *unplanned.Pod
	other.UID = "new"
	unplanned.Pod = &other
	if !guard.Holds(&unplanned) {
		t.Error("a pod that the target does not account for does not wait")
	}
	if y.logged("Recorded the scale point") != 1 || y.logged("Changed the target") != 1 {
		t.Errorf("log:\n%s", y.log.String())
	}
}

// If pods grow again, the target returns with a delay, so that requests that change all the time cause few writes.
func TestAdjuster_podsAreNotChanged_targetReturnsAfterAPause(t *testing.T) {
	y := newBench()
	y.resize = 460
	s := y.adjuster()
	y.pass(s)
	y.pass(s)
	y.resize = 0
	y.now = y.now.Add(-50 * time.Second)
	y.pass(s)
	if y.percent() != 87 {
		t.Errorf("target %d %% at once, want 87 %%", y.percent())
	}
	y.pass(s)
	if y.percent() != 80 {
		t.Errorf("target %d %% after the pause, want 80 %%", y.percent())
	}
	y.autoscaler.PreserveScalePoint = false
	y.pass(s)
	if len(y.hpa.Points) > 0 || y.logged("Restored the target") != 1 {
		t.Errorf("records %v, log:\n%s", y.hpa.Points, y.log.String())
	}
}

func TestAdjuster_writeFails_podsWaitAndItIsRepeatedWithBackoff(t *testing.T) {
	for _, c := range []struct {
		err    error
		writes [2]int // least and most
		logged bool
	}{
		{kube.ErrForbidden, [2]int{3, 8}, true},
		{kube.ErrNotSent, [2]int{60, 60}, false},
		{fmt.Errorf("patch: %w", &freeze.Error{}), [2]int{60, 60}, false},
	} {
		y := newBench()
		y.resize = 460
		s := y.adjuster()
		y.pass(s)
		y.err = c.err
		before := y.writes
		for range 60 {
			guard, decisions := y.pass(s)
			if !guard.Holds(&decisions[0]) {
				t.Fatalf("%v: a pod is changed before its target", c.err)
			}
		}
		if n := y.writes - before; n < c.writes[0] || n > c.writes[1] {
			t.Errorf("%v: %d attempts in an hour, want %v", c.err, n, c.writes)
		}
		if n := y.logged("Cannot change a HorizontalPodAutoscaler"); n > 0 != c.logged {
			t.Errorf("%v: logged %d times", c.err, n)
		}
		all := []*cluster.Autoscaler{y.autoscaler.WithHorizontal([]*cluster.HorizontalAutoscaler{y.hpa}), y.autoscaler}
		if all = s.MarkUnwritable(y.now, all); all[0].Horizontal[0].Unwritable != c.logged || y.hpa.Unwritable {
			t.Errorf("%v: the HPA is marked as unwritable: %t", c.err, all[0].Horizontal[0].Unwritable)
		}
		y.err = nil
		y.now = y.now.Add(time.Hour)
		y.pass(s)
		if y.percent() != 87 {
			t.Errorf("%v: target %d %% afterwards, want 87 %%", c.err, y.percent())
		}
	}
}

// The freeze of the namespace counts, too, if the VPA is deleted or another one does not change pods.
func TestAdjuster_freeze_nothingIsWritten(t *testing.T) {
	for name, change := range map[string]func(*bench){
		"with a VPA":      func(*bench) {},
		"VPA is off":      func(y *bench) { y.autoscaler.Mode = cluster.Off },
		"VPA was deleted": func(y *bench) { y.autoscaler = nil },
	} {
		y := newBench()
		y.resize = 460
		s := y.adjuster()
		y.pass(s)
		y.pass(s)
		y.resize, y.frozen = 0, true
		change(y)
		before := y.writes
		for range 5 {
			y.pass(s)
		}
		if y.writes != before || y.percent() != 87 {
			t.Errorf("%s: %d writes during the freeze", name, y.writes-before)
		}
		y.frozen = false
		y.pass(s)
		if y.percent() != 80 {
			t.Errorf("%s: target %d %% after the freeze, want 80 %%", name, y.percent())
		}
	}
}

func TestAdjuster_othersResetTheTarget_stopsAndReportsOnce(t *testing.T) {
	y := newBench()
	y.resize = 460
	s := y.adjuster()
	for range 30 {
		y.pass(s)
		h := *y.hpa
		h.Utilization = []cluster.UtilizationTarget{{Resource: cluster.CPU, Percent: 80}}
		y.hpa = &h
	}
	if y.logged("Another client overwrites the target") != 1 || y.writes > 2*cluster.MostResets+3 {
		t.Errorf("%d writes, log:\n%s", y.writes, y.log.String())
	}
}

func TestAdjuster_notAskedFor_nothingIsWritten(t *testing.T) {
	for name, change := range map[string]func(*bench){
		"no annotation":      func(y *bench) { y.autoscaler.PreserveScalePoint = false },
		"no VPA":             func(y *bench) { y.autoscaler = nil },
		"another namespace":  func(y *bench) { y.scope.Namespace = "elsewhere" },
		"no pods to size":    func(y *bench) { y.pods = nil },
		"the VPA is off":     func(y *bench) { y.autoscaler.Mode = cluster.Off },
		"no HPA of this VPA": func(y *bench) { y.hpa.Target.Name = "other" },
	} {
		y := newBench()
		y.resize = 460
		change(y)
		s := y.adjuster()
		y.pass(s)
		if y.writes > 0 {
			t.Errorf("%s: %d writes", name, y.writes)
		}
	}
}

// Anyone can create HPAs with the annotation podfit.dev/scale-point. Those of VPAs are written first.
func TestAdjuster_manyHPAsOfOthers_theOneOfTheVPAIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newBench()
		y.resize = 460
		for i := range 10 * maxWrites {
			y.silent = append(y.silent, &cluster.HorizontalAutoscaler{
				Key: cluster.Key{Namespace: "a", Name: fmt.Sprint(i)}, UID: fmt.Sprint("a-", i), Target: cluster.Workload{Namespace: "a", Name: fmt.Sprint(i)},
				Points: []cluster.ScalePoint{{Resource: cluster.CPU, Base: 1, Percent: 1, Set: 1}},
			})
		}
		y.pass(y.adjuster())
		if y.writes != 1 {
			t.Errorf("%d writes to the HPA of the VPA, want 1", y.writes)
		}
	})
}

func TestAdjuster_hpaIsDeleted_itsStateIsRemoved(t *testing.T) {
	y := newBench()
	s := y.adjuster()
	y.pass(s)
	y.hpa = &cluster.HorizontalAutoscaler{UID: "other"}
	y.pass(s)
	if len(s.attempts) > 0 {
		t.Errorf("%d HPAs are kept", len(s.attempts))
	}
}

func TestAdjuster_none_changesAndHoldsNothing(t *testing.T) {
	y := newBench()
	y.resize = 460
	guard, decisions := y.pass(nil)
	var none *Adjuster
	if guard.Holds(&decisions[0]) || len(none.MarkUnwritable(y.now, []*cluster.Autoscaler{y.autoscaler})) != 1 || y.writes > 0 {
		t.Error("without an Adjuster, a pod waits or an HPA is written")
	}
}

func TestAdjuster_recordsOfManyHPAs_requestsAreBoundedAndExpire(t *testing.T) {
	a := New(nil, nil, nil, false, nil, nil)
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	of := func(i int, uid string, base int64) *cluster.HorizontalAutoscaler {
		h := &cluster.HorizontalAutoscaler{UID: uid, Target: cluster.Workload{Name: strconv.Itoa(i)}, Utilization: []cluster.UtilizationTarget{{Resource: cluster.CPU, Percent: 80}}}
		if base > 0 {
			h.Points = []cluster.ScalePoint{{Resource: cluster.CPU, Base: base, Percent: 80, Set: 80}}
		}
		return h
	}
	for i := range maxBases + 10 {
		a.rememberBases(now, of(i, "u", 500))
	}
	if len(a.bases) != maxBases {
		t.Errorf("%d requests are kept", len(a.bases))
	}
	recreated := of(1, "v", 0)
	a.rememberBases(now, recreated)
	if got := a.baseOf(recreated, &recreated.Utilization[0]); got != 500 {
		t.Errorf("base %d after the HPA was recreated, want 500", got)
	}
	removed := of(1, "u", 0)
	a.rememberBases(now, removed)
	if got := a.baseOf(removed, &removed.Utilization[0]); got != 0 {
		t.Errorf("base %d after the user has removed the record", got)
	}
	a.forgetBases(now.Add(baseTTL + time.Second))
	if len(a.bases) != 0 {
		t.Errorf("%d requests are kept after a day", len(a.bases))
	}
}
