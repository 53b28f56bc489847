// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/policy"
)

// A resizingKubelet answers the resizes of a hostileCluster: it sets the condition of the pod, and later applies the resize or does not.
type resizingKubelet struct {
	state cluster.Resize
	ends  time.Duration // after which the resize is applied; 0: never
	asked map[string]int
	began map[string]time.Time
	*hostileCluster
}

func newKubelet(mode cluster.Mode, state cluster.Resize, ends time.Duration) *resizingKubelet {
	k := &resizingKubelet{state: state, ends: ends, asked: map[string]int{}, began: map[string]time.Time{}, hostileCluster: newHostileCluster(mode)}
	k.config.Gates = process.Gates{process.InPlaceGate: true}
	k.resize = func(p *cluster.Pod, with []policy.Fitted) (error, bool) {
		k.asked[fmt.Sprint(p.UID, " ", with[0].Requests, " ", with[0].Limits)]++
		k.began[p.UID] = time.Now()
		k.resizeLater(p, with, k.state)
		return nil, true
	}
	k.step = func(int) {
		k.change(func(p *cluster.Pod) {
			if began, asked := k.began[p.UID]; asked && k.ends > 0 && time.Since(began) >= k.ends {
				p.Resize, p.Containers[0].Applied = nil, nil
			}
		})
	}
	return k
}

// Each state in which the kubelet may keep a resize ends as documented, and no pod is asked twice for the same size.
func TestUpdater_kubeletStates_endAsDocumentedAndNoPodIsPatchedTwice(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	of := func(s cluster.ResizeState) cluster.Resize { return cluster.Resize{State: s, Message: "the kubelet"} }
	for name, c := range map[string]struct {
		state    cluster.Resize
		ends     time.Duration
		inPlace  decision.ReasonCode // in mode InPlace, which never evicts
		recreate decision.ReasonCode // in mode InPlaceOrRecreate
		evicts   time.Duration       // from the first resize to the first eviction in mode InPlaceOrRecreate; 0: never
	}{
		"approved at once":        {state: of(cluster.NoResize), ends: time.Second, inPlace: decision.Fits, recreate: decision.Fits},
		"in progress, done later": {state: of(cluster.ResizeInProgress), ends: 10 * time.Minute, inPlace: decision.Fits, recreate: decision.Fits},
		"always in progress":      {state: of(cluster.ResizeInProgress), inPlace: decision.ResizeRunning, recreate: decision.Fits, evicts: 61 * time.Minute},
		"deferred, done later":    {state: of(cluster.ResizeDeferred), ends: 4 * time.Minute, inPlace: decision.Fits, recreate: decision.Fits},
		"always deferred":         {state: of(cluster.ResizeDeferred), inPlace: decision.ResizeWaiting, recreate: decision.Fits, evicts: 6 * time.Minute},
		"infeasible":              {state: of(cluster.ResizeInfeasible), inPlace: decision.ResizeImpossible, recreate: decision.Fits, evicts: time.Minute},
		"error":                   {state: of(cluster.ResizeError), inPlace: decision.ResizeFailed, recreate: decision.Fits, evicts: time.Minute},
		"memory decrease refused": {
			state:   cluster.Resize{State: cluster.ResizeError, Problem: cluster.MemoryInUse, Message: "the kubelet"},
			inPlace: decision.MemoryInUse, recreate: decision.MemoryInUse,
		},
		"unknown": {state: of(cluster.ResizeUnknown), inPlace: decision.ResizeUnclear, recreate: decision.Fits, evicts: time.Minute},
	} {
		for mode, want := range map[cluster.Mode]decision.ReasonCode{cluster.InPlace: c.inPlace, cluster.InPlaceOrRecreate: c.recreate} {
			t.Run(name+"/"+mode.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					k := newKubelet(mode, c.state, c.ends)
					var first, evicted time.Time
					resize := k.resize
					k.resize = func(p *cluster.Pod, with []policy.Fitted) (error, bool) {
						if first.IsZero() {
							first = time.Now()
						}
						return resize(p, with)
					}
					k.evict = func(*cluster.Pod) (error, bool) {
						if evicted.IsZero() {
							evicted = time.Now()
						}
						return nil, false
					}
					reasons := k.during(t, 24*time.Hour)
					for _, r := range reasons {
						if !strings.HasPrefix(r, want.String()+":") {
							t.Errorf("after a day: %s; want %s", r, want)
						}
					}
					for what, n := range k.asked {
						if n > 1 {
							t.Errorf("pod %s is asked for %d times", what, n)
						}
					}
					evicts := c.evicts
					if mode == cluster.InPlace {
						evicts = 0
					}
					switch after := evicted.Sub(first); {
					case evicts == 0 && k.actions["evict"] > 0:
						t.Errorf("%d evictions, want none", k.actions["evict"])
					case evicts > 0 && (evicted.IsZero() || after > evicts || k.actions["evict"] != len(k.pods)):
						t.Errorf("%d evictions, the first %v after the resize; want one of each pod, the first after at most %v", k.actions["evict"], after, evicts)
					}
				})
			})
		}
	}
}

// A resize that restarts containers takes one pod out of service at a time, and each pod is restarted once.
func TestUpdater_resizeRestartsContainers_onePodAtATimeAndOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKubelet(cluster.InPlaceOrRecreate, cluster.Resize{State: cluster.ResizeInProgress}, 3*time.Minute)
		k.change(func(p *cluster.Pod) { p.Containers[0].Restart = cluster.Set(0).With(cluster.CPU).With(cluster.Memory) })
		resize := k.resize
		k.resize = func(p *cluster.Pod, with []policy.Fitted) (error, bool) {
			err, handled := resize(p, with)
			k.replace(p, func(q *cluster.Pod) { q.Ready, q.ReadySince = false, time.Now() })
			return err, handled
		}
		step := k.step
		k.step = func(minute int) {
			step(minute)
			k.change(func(p *cluster.Pod) {
				if p.Resize == nil && !p.Ready {
					p.Ready, p.ReadySince = true, time.Now()
				}
			})
			if down := slices.DeleteFunc(slices.Clone(k.pods), func(p *cluster.Pod) bool { return p.Ready }); len(down) > 1 {
				t.Errorf("minute %d: %d pods are not ready, want at most 1", minute, len(down))
			}
		}
		for _, r := range k.during(t, 2*time.Hour) {
			if !strings.HasPrefix(r, decision.Fits.String()+":") {
				t.Errorf("after two hours: %s", r)
			}
		}
		if k.actions["resize"] != len(k.pods) || k.actions["evict"] > 0 {
			t.Errorf("actions %v, want one resize of each pod", k.actions)
		}
	})
}
