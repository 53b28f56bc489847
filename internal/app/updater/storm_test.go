// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
)

// A stormCluster is a ReplicationController whose containers are OOM-killed soon after each start. The kubelet restarts them with its
// back-off. A pass of the updater runs after each second, as with early passes in a cluster with many changes.
type stormCluster struct {
	*fakeCluster
	lives time.Duration                      // from the start of a container to its OOM kill
	sizes func(since time.Duration) bool     // the webhook sizes a pod that is created then
	wants func(since time.Duration) int64    // the target of the memory
	lower int64                              // the lower bound of the memory
	dies  func(p *cluster.Pod) (killed bool) // the memory of the pod is not enough
	every time.Duration                      // the updater restarts this often; 0: never
	began time.Time
	kills map[string]int       // of a container, by UID of the pod
	at    map[string]time.Time // of the next start or OOM kill of a container

	evicted []time.Time
	vain    []time.Time // evictions whose replacements have the old size
	tried   []time.Time // dry runs of replacements; the updater makes them if withDryRuns is set

	withDryRuns bool
}

func newStormCluster(replicas int) *stormCluster {
	y := &stormCluster{fakeCluster: newFakeCluster(cluster.Recreate), lives: 5 * time.Second, began: time.Now(), kills: map[string]int{}, at: map[string]time.Time{}}
	y.sizes = func(time.Duration) bool { return false }
	y.wants = func(time.Duration) int64 { return 2 << 30 }
	y.dies = func(*cluster.Pod) bool { return true }
	rc := cluster.Workload{Kind: "ReplicationController", Namespace: "shop", Name: "web"}
	y.autoscalers[0].Target = rc
	y.pods = nil
	for range replicas {
		p := y.newPod(rc, 1<<30)
		p.Created = p.Created.Add(-time.Minute)
		p.Node, p.Phase, p.Started, p.Ready, p.ReadySince = "n", cluster.Running, y.began, true, y.began
		y.at[p.UID] = y.began.Add(y.lives)
		y.pods = append(y.pods, p)
	}
	return y
}

func (y *stormCluster) newPod(of cluster.Workload, memory int64) *cluster.Pod {
	y.serial++
	return &cluster.Pod{
		Key: cluster.Key{Namespace: of.Namespace, Name: fmt.Sprintf("%s-%d", of.Name, y.serial)}, UID: fmt.Sprint("uid-", y.serial), Controller: of, Top: of,
		Phase: cluster.Pending, QoS: cluster.Burstable, Created: time.Now().Truncate(time.Second),
		Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(100, memory), Limits: cluster.Resources{}.Set(cluster.Memory, memory)}},
	}
}

// step is what the scheduler, the kubelets and the recommender do in a second.
func (y *stormCluster) step(now time.Time) {
	a := *y.autoscalers[0]
	want := y.wants(now.Sub(y.began))
	a.Advice = []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{
		Target: cluster.Amounts(100, want), Lower: cluster.Amounts(50, y.lower), Upper: cluster.Amounts(1000, 1<<40),
	}}}
	y.autoscalers = []*cluster.Autoscaler{&a}
	for i, old := range y.pods {
		p := *old
		p.Containers = slices.Clone(old.Containers)
		y.kubelet(&p, &p.Containers[0], now)
		y.pods[i] = &p
	}
}

func (y *stormCluster) kubelet(p *cluster.Pod, c *cluster.Container, now time.Time) {
	due := !now.Before(y.at[p.UID])
	switch {
	case p.Node == "":
		p.Node, y.at[p.UID] = "n", now.Add(time.Second)
	case due && !p.Ready:
		if p.Phase == cluster.Pending {
			p.Phase, p.Started = cluster.Running, now
		}
		if c.Exit != nil {
			exit := *c.Exit
			exit.Now = false
			c.Exit = &exit
		}
		p.Ready, p.ReadySince, p.Crash, y.at[p.UID] = true, now, nil, now.Add(y.lives)
	case due && y.dies(p):
		started := y.at[p.UID].Add(-y.lives)
		y.kills[p.UID]++
		p.Ready, p.ReadySince, p.Crash = false, now, &cluster.Crash{Version: fmt.Sprint(now.Unix())}
		c.Exit = &cluster.Exit{OOM: true, Kills: uint8(min(y.kills[p.UID], 200)), Started: started, Finished: now, Now: true}
		backoff := min(10*time.Second<<min(y.kills[p.UID]-1, 10), 5*time.Minute)
		y.at[p.UID] = now.Add(backoff)
	}
}

func (y *stormCluster) Evict(_ context.Context, p *cluster.Pod) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	now := time.Now()
	memory := int64(1 << 30)
	y.evicted = append(y.evicted, now)
	if y.sizes(now.Sub(y.began)) {
		memory = y.autoscalers[0].Advice[0].Target.Memory
	} else {
		y.vain = append(y.vain, now)
	}
	y.pods = slices.DeleteFunc(slices.Clone(y.pods), func(q *cluster.Pod) bool { return q.UID == p.UID })
	y.pods = append(y.pods, y.newPod(p.Controller, memory))
	return nil
}

// DryRun returns the replacement of a pod as the webhook sizes it now.
func (y *stormCluster) DryRun(_ context.Context, p *cluster.Pod) (*cluster.Pod, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.tried = append(y.tried, time.Now())
	q := *p
	q.Containers = slices.Clone(p.Containers)
	memory := int64(1 << 30)
	if y.sizes(time.Since(y.began)) {
		memory = y.autoscalers[0].Advice[0].Target.Memory
	}
	q.Containers[0].Requests = cluster.Amounts(100, memory)
	return &q, nil
}

func (y *stormCluster) Scale(cluster.Workload) cluster.Scale {
	return cluster.Scale{Known: true, Replicas: int32(len(y.pods))}
}

// during runs a pass each second.
func (y *stormCluster) during(t *testing.T, d time.Duration) {
	t.Helper()
	store := newMemoryStates()
	start := func() *updater {
		u := updaterOf(y.fakeCluster, y)
		u.world = y
		if y.withDryRuns {
			u.actuators.replacements = y
		}
		u.storeIn(store)
		if err := u.loadStates(t.Context()); err != nil {
			t.Fatal(err)
		}
		return u
	}
	u := start()
	for i := 1; time.Since(y.began) < d; i++ {
		if y.every > 0 && i%int(y.every/time.Second) == 0 {
			u.states.Save(t.Context(), time.Now(), u.ledger, u.budget.Delays, true)
			u = start()
		}
		y.step(time.Now())
		u.pass(t.Context(), time.Now())
		time.Sleep(time.Second)
	}
}

// since returns how long after the begin events were.
func (y *stormCluster) since(events []time.Time) (out []time.Duration) {
	for _, at := range events {
		out = append(out, at.Sub(y.began))
	}
	return out
}

// mostWithin returns the largest number of events within a time.
func mostWithin(d time.Duration, events []time.Time) int {
	most := 0
	for i, from := range events {
		n := 0
		for _, at := range events[i:] {
			if at.Before(from.Add(d)) {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// Whatever keeps the replacements of OOM-killed pods at their old size, at most two evictions in half an hour are without effect.
func TestRescue_replacementsKeepTheirOldSize_workloadBacksOff(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	for name, change := range map[string]func(*stormCluster){
		"webhook is never called":                  func(*stormCluster) {},
		"old size is below the bounds":             func(y *stormCluster) { y.lower = 3 << 29 },
		"updater restarts every 10 seconds":        func(y *stormCluster) { y.every = 10 * time.Second },
		"containers are killed at once":            func(y *stormCluster) { y.lives = time.Second },
		"webhook is not called after some time":    func(y *stormCluster) { y.until(20 * time.Second) },
		"webhook is not called after a new target": func(y *stormCluster) { y.until(10 * time.Minute) },
		"webhook stops, and the updater restarts":  func(y *stormCluster) { y.until(10 * time.Minute); y.every = time.Minute },
		"target moves by an eighth every minute": func(y *stormCluster) {
			y.wants = func(s time.Duration) int64 { return 2<<30 + int64(s/time.Minute)<<28 }
		},
		"recommendation is within the bounds again": func(y *stormCluster) {
			y.wants = func(s time.Duration) int64 { return 3<<29 + int64(s/(20*time.Minute))<<29 }
		},
	} {
		for _, replicas := range []int{1, 3} {
			t.Run(fmt.Sprint(name, "/", replicas), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					y := newStormCluster(replicas)
					change(y)
					y.during(t, 40*time.Minute)
					if n := mostWithin(30*time.Minute, y.vain); n > 2 || len(y.evicted) == 0 {
						t.Errorf("%d evictions, %d of them without effect in half an hour, want at most 2: after %v", len(y.evicted), n, y.since(y.vain))
					}
					if len(y.vain) > 0 && countHeld(y.recorded, decision.Reason{Code: decision.BackingOff, Have: 1, Text: anyText}) == 0 {
						t.Errorf("no event says that evictions have no effect: %q", y.recorded)
					}
				})
			})
		}
	}
}

// until makes the webhook work for a time, and the target grow afterwards.
func (y *stormCluster) until(end time.Duration) {
	y.sizes = func(since time.Duration) bool { return since < end }
	y.wants = func(since time.Duration) int64 {
		if since < end {
			return 2 << 30
		}
		return 4 << 30
	}
}

// With working dry runs of the replacement, only the first rescue is without effect, and a dry run comes before each later one: while it shows the
// old size, no pod is evicted, also after the back-off. When it shows the new size, the rescues continue.
func TestRescue_dryRunsShowTheOldSize_noPodIsEvictedUntilTheyShowTheNewOne(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	const works = 40 * time.Minute // from the start; the webhook sizes new pods from then on
	for name, change := range map[string]func(*stormCluster){
		"updater runs":                  func(*stormCluster) {},
		"updater restarts every minute": func(y *stormCluster) { y.every = time.Minute },
		"old size is below the bounds":  func(y *stormCluster) { y.lower = 3 << 29 },
		"target grows": func(y *stormCluster) {
			y.wants = func(s time.Duration) int64 { return 2<<30 + int64(s/(8*time.Minute))<<28 }
		},
	} {
		for _, replicas := range []int{1, 3, 10} {
			t.Run(fmt.Sprint(name, "/", replicas), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					y := newStormCluster(replicas)
					y.withDryRuns = true
					y.sizes = func(since time.Duration) bool { return since >= works }
					change(y)
					y.during(t, works+35*time.Minute)
					first := 1
					if y.lower > 0 && replicas == 10 { // not for an OOM kill: these pods may be two
						first = 2
					}
					if len(y.vain) != first || len(y.tried) == 0 || !y.tried[0].After(y.vain[first-1]) {
						t.Errorf("evictions without effect after %v, want %d; dry runs after %v", y.since(y.vain), first, y.since(y.tried))
					}
					if len(y.evicted) == len(y.vain) {
						t.Errorf("no pod is evicted although dry runs show the new size; dry runs after %v", y.since(y.tried))
					}
				})
			})
		}
	}
}

// The target is only six percent above the requests, for example because of maxAllowed, and the webhook is not called. A new pod that keeps its
// old size is no proof that evictions help, although its size is close to the target.
func TestRescue_smallIncreaseAndWebhookIsNotCalled_workloadBacksOff(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	for _, every := range []time.Duration{time.Second, time.Minute} { // of passes
		for _, replicas := range []int{1, 3, 10} {
			t.Run(fmt.Sprint(every, "/", replicas), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					y := newStormCluster(replicas)
					y.lives = every + 5*time.Second // a pass sees each container before it is killed
					for uid := range y.at {
						y.at[uid] = y.began.Add(y.lives)
					}
					y.wants = func(time.Duration) int64 { return 106 << 30 / 100 }
					u := updaterOf(y.fakeCluster, y)
					u.world = y
					for second := range 40 * 60 {
						y.step(time.Now())
						if second%int(every/time.Second) == 0 {
							u.pass(t.Context(), time.Now())
						}
						time.Sleep(time.Second)
					}
					if n := mostWithin(30*time.Minute, y.vain); n > 2 {
						t.Errorf("%d evictions without effect in half an hour, want at most 2", n)
					}
				})
			})
		}
	}
}

// As before, and no node has room for the replacements.
func TestRescue_smallIncreaseAndReplacementsAreUnscheduled_workloadBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newStormCluster(10)
		y.wants = func(time.Duration) int64 { return 106 << 30 / 100 }
		u := updaterOf(y.fakeCluster, y)
		u.world = y
		for range 10 * 60 {
			y.step(time.Now())
			for _, p := range y.pods { // copies that the step has made
				if p.Created.After(y.began.Add(-time.Second)) {
					p.Node, p.Phase, p.Ready, p.Crash = "", cluster.Pending, false, nil
					p.Containers[0].Exit = nil
				}
			}
			u.pass(t.Context(), time.Now())
			time.Sleep(time.Second)
		}
		if n := mostWithin(30*time.Minute, y.vain); n > 2 {
			t.Errorf("%d evictions without effect in half an hour, want at most 2: after %v", n, y.since(y.vain))
		}
	})
}
