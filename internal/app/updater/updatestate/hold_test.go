// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updatestate

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
)

func workloadIn(namespace string, n int) cluster.Workload {
	return cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: namespace, Name: fmt.Sprint("web-", n)}
}

var (
	errRefused = errors.New("denied by policy")
	holdStart  = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
)

func (h holds) isHeld(now time.Time, w cluster.Workload) bool {
	_, held := h.of(now, w)
	return held
}

func TestHolds_oneObjectFails_onlyItsWorkloadWaits(t *testing.T) {
	for _, slow := range []bool{false, true} {
		h, now := holds{}, holdStart
		web := workloadIn("shop", 0)
		for range 100 {
			h.failed(now, web, "deployment-web-0", errRefused, slow)
			if !h.isHeld(now, web) || h.isHeld(now, workloadIn("shop", 1)) || h.isHeld(now, workloadIn("other", 0)) {
				t.Fatalf("slow %t at %v: %+v", slow, now, h)
			}
			now = h[web].until
		}
		if r, _ := h.of(now.Add(-time.Second), web); !strings.Contains(r.Text, "UpdateState shop/deployment-web-0: ") || r.Code != decision.NotAnnounced {
			t.Errorf("the reason is %+v", r)
		}
		if pause := h[web].until.Sub(holdStart); pause > 101*stateBackoffMost || h.isHeld(now, web) {
			t.Errorf("the pauses take %v in total, held at the end: %t", pause, h.isHeld(now, web))
		}
	}
}

func TestHolds_manyObjectsOfANamespaceFail_theNamespaceWaitsUntilOneIsStored(t *testing.T) {
	for slow, objects := range map[bool]int{false: 20, true: 3} {
		h, other := holds{}, workloadIn("shop", 100)
		for n := range objects {
			if h.isHeld(holdStart, other) {
				t.Errorf("slow %t: held after %d objects, want %d", slow, n, objects)
			}
			h.failed(holdStart, workloadIn("shop", n), "o", errRefused, slow)
		}
		if !h.isHeld(holdStart, other) || h.isHeld(holdStart, workloadIn("bank", 0)) {
			t.Errorf("slow %t: %+v, want that namespace shop is held", slow, h)
		}
		if got := h.export(holdStart); len(got) != objects+1 || got[cluster.Workload{Namespace: "shop"}].Code != decision.NotAnnounced {
			t.Errorf("exported is %+v", got)
		}
		until := h[cluster.Workload{Namespace: "shop"}].until
		h.failed(until, workloadIn("shop", 0), "o", errRefused, slow)
		if !h.isHeld(until.Add(stateBackoff), other) {
			t.Errorf("slow %t: not held after the next failure, want a longer pause", slow)
		}
		h.stored(other)
		if h.isHeld(until, other) || !h.isHeld(until, workloadIn("shop", 0)) {
			t.Errorf("slow %t: %+v after a success, want only the hold of the object", slow, h)
		}
	}
}

func TestHolds_manyNamespacesHaveNoAnswer_allWaitUntilOneIsStored(t *testing.T) {
	h, other := holds{}, workloadIn("other", 0)
	for n := range clusterLimit {
		if h.isHeld(holdStart, other) {
			t.Errorf("held after %d namespaces, want %d", n, clusterLimit)
		}
		h.failed(holdStart, workloadIn(fmt.Sprint("ns-", n), 0), "o", errRefused, true)
	}
	if !h.isHeld(holdStart, other) {
		t.Error("not held")
	}
	h.stored(other)
	if h.isHeld(holdStart, other) {
		t.Error("held after a success")
	}
}

// The clock was set back, and what is kept is bounded.
func TestHolds_clockIsSetBackOrTimePasses_nothingIsHeldOrKept(t *testing.T) {
	h := holds{}
	for n := range 1000 {
		h.failed(holdStart, workloadIn(fmt.Sprint("ns-", n%10), n), "o", errRefused, n%2 == 0)
	}
	if early := holdStart.Add(-time.Hour); h.isHeld(early, workloadIn("ns-0", 0)) || len(h.export(early)) > 0 {
		t.Error("held after the clock was set back")
	}
	for _, s := range h {
		if len(s.weights) > namespaceLimit {
			t.Errorf("%d members are kept", len(s.weights))
		}
	}
	h.forget(holdStart.Add(holdTTL + time.Hour))
	if len(h) > 0 {
		t.Errorf("%+v is kept", h)
	}
}
