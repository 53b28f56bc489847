// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/rescue"
)

// The next pod is evicted only when the replacement of the last one is available, whatever the kind of the controller is.
func TestPlan_replacementIsReady_nextPodWaitsUntilItIsAvailable(t *testing.T) {
	const pause = 10 * time.Second
	for name, tt := range map[string]struct {
		kind, group string
		minReady    time.Duration
		pause       time.Duration
		want        time.Duration // from the readiness of the replacement
	}{
		"ReplicaSet":                          {"ReplicaSet", "apps", 0, pause, 0},
		"ReplicaSet with minReadySeconds":     {"ReplicaSet", "apps", 30 * time.Second, pause, 30 * time.Second},
		"DaemonSet with minReadySeconds":      {"DaemonSet", "apps", 30 * time.Second, pause, 30 * time.Second},
		"ReplicationController":               {"ReplicationController", "", 5 * time.Second, pause, 5 * time.Second},
		"StatefulSet":                         {"StatefulSet", "apps", 0, pause, pause},
		"StatefulSet with a short minReady":   {"StatefulSet", "apps", 5 * time.Second, pause, pause},
		"StatefulSet with a long minReady":    {"StatefulSet", "apps", time.Minute, pause, time.Minute},
		"StatefulSet with upstream's pause":   {"StatefulSet", "apps", 0, 0, 0},
		"StatefulSet of another API":          {"StatefulSet", "apps.example.com", 0, pause, 0},
		"ReplicaSet with --statefulset-pause": {"ReplicaSet", "apps", 0, time.Hour, 0},
	} {
		for after := time.Duration(0); after <= tt.want+time.Second; after += time.Second {
			w, a := shrinking(3)
			controller := cluster.Workload{Group: tt.group, Kind: tt.kind, Namespace: "shop", Name: "db"}
			a.Target = controller
			w.Scales = map[cluster.Workload]cluster.Scale{controller: {Known: true, Replicas: 3, MinReady: tt.minReady}}
			pods := w.Governed[0].Pods
			for _, p := range pods {
				p.Controller, p.Top, p.ReadySince = controller, controller, p.Created
			}
			replacement := pods[2]
			replacement.ReadySince = noon.Add(-after)
			replacement.Containers[0].Requests = cluster.Amounts(100, 128<<20)
			b := DefaultBudget()
			b.StatefulSetPause = tt.pause
			pass := Begin(noon, w, b)
			if n, want := len(evictions(pass)), after >= tt.want; (n == 1) != want || n > 1 {
				t.Errorf("%s: %d evictions after %v, want one after %v", name, n, after, tt.want)
			}
			for _, d := range pass.Decisions() {
				if until := replacement.ReadySince.Add(tt.want); after < tt.want && d.Wanted.Code != decision.Fits && (d.Reason.Code != decision.NotReady || !d.Reason.Until.Equal(until)) {
					t.Errorf("%s after %v: %s until %v, want NotReady until %v", name, after, d.Reason.Code, d.Reason.Until, until)
				}
			}
		}
	}
}

// evictAfterOOMSeconds of the VPA bounds a rescue as it bounds upstream's eviction after an OOM kill.
func TestRescue_evictAfterOOMSeconds_boundsIt(t *testing.T) {
	for name, tt := range map[string]struct {
		gate bool
		own  time.Duration
		want int
	}{
		"container lived longer":  {true, time.Second, 0},
		"container lived shorter": {true, time.Minute, 1},
		"it is not set":           {true, 0, 1},
		"the gate is off":         {false, time.Second, 1},
	} {
		w, a := growing(3)
		a.Mode, a.EvictAfterOOM = cluster.Recreate, tt.own
		for i := range a.Advice {
			a.Advice[i].Lower = cluster.Resources{}
		}
		b := DefaultBudget()
		b.Rescue, b.PerVPAConfig = rescue.ByDeletion, tt.gate
		for _, p := range w.Governed[0].Pods {
			p.Ready, p.Started, p.Crash = false, noon.Add(-time.Minute), &cluster.Crash{Version: "1"}
			p.Containers[0].Exit = &cluster.Exit{OOM: true, Now: true, Kills: 1, Started: noon.Add(-6 * time.Second), Finished: noon.Add(-time.Second)}
		}
		if n := len(evictions(Begin(noon, w, b))); n != tt.want {
			t.Errorf("%s: %d evictions, want %d", name, n, tt.want)
		}
	}
}

// With a working webhook, the replacements of rescued pods are killed again and again, and the recommendation grows. The rescue of a
// replacement waits as long as the kubelet would before it restarts the container.
func TestRescue_replacementIsKilledAtOnce_waitsAsTheKubelet(t *testing.T) {
	w, a := growing(1)
	a.Mode = cluster.Recreate
	b := DefaultBudget()
	b.Rescue = rescue.ByEviction
	pod := w.Governed[0].Pods[0]
	w.Scales[pod.Controller] = cluster.Scale{Known: true, Replicas: 1}
	var rescues []time.Time
	target := int64(1 << 30)
	for now := noon; now.Before(noon.Add(time.Hour)); now = now.Add(time.Second) {
		a.Advice[0].Estimate = cluster.Estimate{Target: cluster.Amounts(100, target), Upper: cluster.Amounts(1000, 1<<60)}
		w.Governed[0].Pods = []*cluster.Pod{pod}
		pass := Begin(now, w, b)
		pass.Learn()
		for _, d := range evictions(pass) {
			rescues = append(rescues, now)
			pass.Done(d)
			next := *pod
			next.UID, next.Name, next.Created, next.Started, next.Ready = pod.UID+"x", pod.Name+"x", now, now, false
			next.Containers = []cluster.Container{{Name: "app", Requests: cluster.Amounts(100, target)}}
			pod = &next
			target *= 2
			if target > 1<<50 {
				target = 1 << 30
			}
		}
		if now.After(pod.Created) {
			pod.Crash = &cluster.Crash{Version: "1"}
			pod.Ready = false
			pod.Containers[0].Exit = &cluster.Exit{OOM: true, Now: true, Kills: 1, Started: now.Add(-time.Second), Finished: now}
		}
	}
	want := 10 * time.Second // before the third one
	for i := 2; i < len(rescues); i++ {
		if got := rescues[i].Sub(rescues[i-1]); got < want {
			t.Errorf("rescue %d after %v, want %v at least", i+1, got, want)
		}
		want = min(2*want, 5*time.Minute)
	}
	if len(rescues) < 5 {
		t.Errorf("%d rescues in an hour, want at least 5", len(rescues))
	}
}
