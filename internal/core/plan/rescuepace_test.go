// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/rescue"
)

// kubeletRestarts returns how often the kubelet restarts a container within a time after its first crash, if it crashes after each start at once:
// immediately, and then after a back-off of 10 seconds to 5 minutes.
func kubeletRestarts(within time.Duration) int {
	n := 1
	for backoff := 10 * time.Second; within >= backoff; n++ {
		within -= backoff
		backoff = min(2*backoff, 5*time.Minute)
	}
	return n
}

// With a working webhook, the container of each replacement is OOM-killed a second after its start, and the recommendation grows each time. After the
// first rescue of each pod, its replacements are rescued no more often than the kubelet would restart a container from then on, and the same holds for
// all pods of the workload together.
func TestRescue_severalReplicasAreKilledAtOnce_workloadIsRescuedNoMoreOftenThanTheKubeletRestarts(t *testing.T) {
	for _, replicas := range []int{1, 3, 10} {
		for _, mode := range []rescue.Mode{rescue.ByEviction, rescue.ByDeletion} {
			t.Run(fmt.Sprint(mode, "/", replicas), func(t *testing.T) {
				w, a := growing(replicas)
				a.Mode = cluster.Recreate
				b := DefaultBudget()
				b.Rescue = mode
				pods := w.Governed[0].Pods
				target := int64(1 << 30)
				var rescues []time.Time
				own := make([][]time.Time, replicas) // rescues of a pod and of its replacements
				for now := noon; now.Before(noon.Add(time.Hour)); now = now.Add(time.Second) {
					for i, p := range pods {
						if !now.After(p.Created) || p.Crash != nil {
							continue
						}
						q := *p
						q.Containers = slices.Clone(p.Containers)
						q.Ready, q.Crash = false, &cluster.Crash{Version: "1"}
						q.Containers[0].Exit = &cluster.Exit{OOM: true, Now: true, Kills: 1, Started: now.Add(-time.Second), Finished: now}
						target = max(target, q.Containers[0].Requests.Memory*6/5)
						pods[i] = &q
					}
					a.Advice[0].Estimate = cluster.Estimate{Target: cluster.Amounts(100, target), Upper: cluster.Amounts(1000, 1<<60)}
					w.Governed[0].Pods = slices.Clone(pods)
					pass := Begin(now, w, b)
					pass.Learn()
					for _, d := range evictions(pass) {
						pass.Done(d)
						i := slices.Index(pods, d.Pod)
						rescues, own[i] = append(rescues, now), append(own[i], now)
						q := *d.Pod
						q.UID, q.Name, q.Created, q.Started, q.Ready, q.Crash = d.Pod.UID+"x", fmt.Sprint("db-", now.Unix(), "-", i), now, now, false, nil
						q.Containers = []cluster.Container{{Name: "app", Requests: cluster.Amounts(100, target)}}
						pods[i] = &q
					}
				}
				for i, at := range rescues {
					if most := replicas * (1 + kubeletRestarts(at.Sub(rescues[0]))); i+1 > most {
						t.Fatalf("%d rescues within %v, want at most %d", i+1, at.Sub(rescues[0]), most)
					}
				}
				for _, chain := range own {
					for i, at := range chain {
						if most := 1 + kubeletRestarts(at.Sub(chain[0])); i+1 > most {
							t.Fatalf("%d rescues of one pod and its replacements within %v, want at most %d", i+1, at.Sub(chain[0]), most)
						}
					}
				}
				if len(rescues) < 5*replicas {
					t.Errorf("%d rescues in an hour, want at least %d", len(rescues), 5*replicas)
				}
			})
		}
	}
}
