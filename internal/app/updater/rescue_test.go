// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// A crashCluster is a Deployment whose containers are OOM-killed each minute until they have enough memory, with a PodDisruptionBudget.
// Time passes with step, which a test calls before each pass.
type crashCluster struct {
	*fakeCluster
	t        *testing.T
	need     func(now time.Time) int64 // memory limit with which a container is not killed
	advise   func(most int64) int64    // the next target for the memory request; most is the highest request of a killed container
	desired  int32                     // healthy pods that the disruption budget requires
	deletion func(p *cluster.Pod) (carriedOut bool, err error)
	delay    time.Duration // until a replacement runs
	data     bool
	forgets  bool // replacements get the size of the template: the webhook is not called

	conditions []watcher.Condition // of the autoscaler, as they were written
	writeErr   error
	removed    map[string]int // successful actions by kind
	tried      int            // deletions that were tried
	late       []*cluster.Pod // deleted when the next step begins
}

const (
	smallMemory = 64 << 20
	limitFactor = 2
)

func newCrashCluster(t *testing.T, mode cluster.Mode, replicas int) *crashCluster {
	y := &crashCluster{
		fakeCluster: newFakeCluster(mode), t: t, removed: map[string]int{}, desired: int32(replicas),
		need:     func(time.Time) int64 { return 300 << 20 },
		advise:   func(most int64) int64 { return most + 100<<20 },
		deletion: func(*cluster.Pod) (bool, error) { return true, nil },
	}
	y.pods = y.pods[:replicas]
	for _, p := range y.pods {
		p.Created, p.Started = time.Now().Add(-time.Hour), time.Now().Add(-time.Hour)
		p.Containers = []cluster.Container{{Name: "app"}}
		resizeTo(p, smallMemory)
	}
	y.autoscalers[0].Advice[0].Estimate = cluster.Estimate{Target: cluster.Amounts(100, smallMemory), Lower: cluster.Amounts(10, smallMemory/2), Upper: cluster.Amounts(1000, 1<<40)}
	return y
}

func resizeTo(p *cluster.Pod, memory int64) {
	p.Containers[0].Requests = cluster.Amounts(100, memory)
	p.Containers[0].Limits = cluster.Resources{}.Set(cluster.Memory, limitFactor*memory)
}

// step is what happens in the cluster until the next pass: the kubelet kills containers, the recommender raises the target, and the
// disruption controller counts healthy pods.
func (y *crashCluster) step(now time.Time) {
	for _, p := range y.late {
		y.replaceBy(p)
	}
	y.late = nil
	healthy, most := int32(0), int64(0)
	for i, old := range y.pods {
		p := *old
		p.Containers = slices.Clone(old.Containers)
		c := &p.Containers[0]
		switch {
		case now.Sub(p.Created) < y.delay:
			p.Phase, p.Ready = cluster.Pending, false
		case c.Limits.Memory >= y.need(now):
			p.Phase, p.Crash = cluster.Running, nil
			if !p.Ready {
				p.Ready, p.ReadySince = true, now
			}
			healthy++
		default:
			p.Phase, p.Ready = cluster.Running, false
			kills := uint8(1)
			if c.Exit != nil {
				kills = min(c.Exit.Kills+1, 200)
			}
			c.Exit = &cluster.Exit{OOM: true, Kills: kills, Started: now.Add(-6 * time.Second), Finished: now.Add(-time.Second)}
			p.Crash = &cluster.Crash{Version: fmt.Sprint(now.Unix()), Labels: []string{"app=web"}}
			p.LocalData, p.OwnVolume = true, y.data // all have an emptyDir
			most = max(most, c.Requests.Memory)
		}
		y.pods[i] = &p
	}
	if most > 0 {
		a := *y.autoscalers[0]
		a.Advice = slices.Clone(a.Advice)
		a.Advice[0].Target = cluster.Amounts(100, max(a.Advice[0].Target.Memory, y.advise(most)))
		a.Advice[0].Lower = cluster.Amounts(10, a.Advice[0].Target.Memory/2)
		y.autoscalers = []*cluster.Autoscaler{&a}
	}
	y.budgets = []cluster.DisruptionBudget{{
		Name: "web", Selector: cluster.Selector{Requirements: []cluster.Requirement{{Prefix: "app=", Values: []string{"web"}}}},
		Healthy: healthy, Desired: y.desired, Current: true,
	}}
}

func (y *crashCluster) replaceBy(p *cluster.Pod) {
	y.replace(p, func(q *cluster.Pod) {
		y.serial++
		q.UID, q.Name = fmt.Sprint("replacement-", y.serial), fmt.Sprintf("web-new-%d", y.serial)
		q.Started, q.Created, q.ReadySince = time.Now(), time.Now().Truncate(time.Second), time.Now()
		q.Phase, q.Ready, q.Crash = cluster.Pending, false, nil
		q.Containers[0].Exit = nil
		resizeTo(q, smallMemory)
		if !y.forgets {
			resizeTo(q, y.autoscalers[0].Advice[0].Target.Memory)
		}
	})
}

func (y *crashCluster) Evict(_ context.Context, p *cluster.Pod) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	b := y.budgets[0]
	if b.Healthy < b.Desired {
		return fmt.Errorf("evict: %w", kube.ErrBudget)
	}
	y.removed["evict"]++
	y.replaceBy(p)
	return nil
}

func (y *crashCluster) Resize(_ context.Context, p *cluster.Pod, with []policy.Fitted) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.removed["resize"]++
	y.replace(p, func(q *cluster.Pod) {
		q.Containers[0].Requests = with[0].Requests.Or(q.Containers[0].Requests)
		q.Containers[0].Limits = with[0].Limits.Or(q.Containers[0].Limits)
	})
	return nil
}

func (y *crashCluster) Delete(_ context.Context, p *cluster.Pod) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.tried++
	if p.Ready || p.Crash == nil || p.Containers[0].Exit.Kills < 3 {
		y.t.Errorf("pod %s is deleted while ready or after too few kills", p.Name)
	}
	for _, q := range y.pods {
		if q.Phase == cluster.Pending {
			y.t.Errorf("pod %s is deleted while %s has not started", p.Name, q.Name)
		}
	}
	done, err := y.deletion(p)
	switch {
	case done && err != nil:
		y.late = append(y.late, p)
		y.removed["delete"]++
	case done:
		y.replaceBy(p)
		y.removed["delete"]++
	}
	return err
}

// during runs passes for a time.
func (y *crashCluster) during(d time.Duration) *updater {
	ctx, cancel := context.WithTimeout(y.t.Context(), d-time.Second)
	defer cancel()
	u := updaterOf(y.fakeCluster, y)
	u.world, u.conditions.writer = y, y
	process.Every(ctx, y.config.Interval, func(ctx context.Context, now time.Time) {
		y.step(now)
		u.pass(ctx, now)
	})
	return u
}

func (y *crashCluster) WriteConditions(_ context.Context, _ *cluster.Autoscaler, _ time.Time, say ...watcher.Condition) (bool, error) {
	if y.writeErr != nil {
		return false, y.writeErr
	}
	for _, s := range say {
		if s.Type == v1alpha1.ConditionOOMRescue {
			y.conditions = append(y.conditions, s)
		}
	}
	return true, nil
}

// last returns the condition that was written last.
func (y *crashCluster) last() watcher.Condition {
	if len(y.conditions) == 0 {
		return watcher.Condition{}
	}
	return y.conditions[len(y.conditions)-1]
}

func (y *crashCluster) ready() int {
	n := 0
	for _, p := range y.pods {
		if p.Ready {
			n++
		}
	}
	return n
}

func TestUpdater_budgetLacksOnlyOOMKilledPods_eachIsDeletedOnceAndBecomesReady(t *testing.T) {
	for _, replicas := range []int{1, 2, 3} {
		t.Run(fmt.Sprint(replicas), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := newCrashCluster(t, cluster.Recreate, replicas)
				y.delay = 90 * time.Second
				y.during(20 * time.Minute)
				if y.removed["delete"] != replicas || y.removed["evict"] != 0 || y.ready() != replicas {
					t.Errorf("actions %v and %d ready pods, want %d deletions and ready pods; events %q", y.removed, y.ready(), replicas, y.recorded)
				}
				if n := y.eventCount("OOMRescue "); n != 2*replicas {
					t.Errorf("%d events OOMRescue, want one for the pod and one for the VPA of each deletion: %q", n, y.recorded)
				}
			})
		})
	}
}

// A refused eviction takes no pod away. The deletion that follows it needs no more of the rate limit.
func TestUpdater_rateLimitAllowsOneEvictionPerHour_refusedPodIsDeletedInTheSamePass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newCrashCluster(t, cluster.Recreate, 3)
		y.config.RateLimit, y.config.RateBurst = 1.0/3600, 1
		for range 3 {
			y.step(time.Now())
		}
		y.during(time.Minute)
		if y.removed["delete"] != 1 {
			t.Errorf("actions in the first pass: %v, want one deletion", y.removed)
		}
		y.during(30 * time.Minute)
		if y.removed["delete"] > 2 { // of two updaters, each with a burst of one
			t.Errorf("actions in half an hour: %v, want one deletion per updater", y.removed)
		}
	})
}

func TestUpdater_oomKilledPodWithoutBudget_isEvictedOrResizedOnce(t *testing.T) {
	for mode, does := range map[cluster.Mode]string{cluster.Recreate: "evict", cluster.InPlaceOrRecreate: "resize"} {
		t.Run(mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := newCrashCluster(t, mode, 1) // fewer replicas than --min-replicas
				y.desired = 0
				y.during(time.Hour)
				if y.removed[does] != 1 || len(y.removed) != 1 || y.ready() != 1 {
					t.Errorf("actions %v and %d ready pods, want one %s and a ready pod", y.removed, y.ready(), does)
				}
			})
		})
	}
}

// In hostile worlds, the number of deletions and of attempts is bounded, and no pod is changed in vain.
func TestUpdater_rescueDoesNotHelp_deletionsAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	fixed := func(memory int64) func(int64) int64 { return func(int64) int64 { return memory } }
	endless := func(time.Time) int64 { return 1 << 50 }
	lost := errors.New("connection reset")
	flip := 0
	for name, c := range map[string]struct {
		world       func(*crashCluster)
		most, tried int             // deletions, and attempts
		evicts      int             // evictions at most
		held        decision.Reason // of an event UpdateHeld that is expected
	}{
		"recommendation does not grow": {world: func(y *crashCluster) { y.need, y.advise = endless, fixed(smallMemory) }},
		"replacement is killed too":    {world: func(y *crashCluster) { y.need, y.advise = endless, fixed(4*smallMemory) }, most: 1, tried: 1, held: decision.Reason{Code: decision.NotEnoughMemory, From: 8 * smallMemory, To: 8 * smallMemory}},
		"recommendation always grows":  {world: func(y *crashCluster) { y.need = endless }, most: 14, tried: 14},
		"recommendation grows by a few bytes": {world: func(y *crashCluster) {
			y.need, y.advise = endless, func(most int64) int64 { return max(2*smallMemory, most+64<<10) }
		}, most: 1, tried: 1},
		"data would be lost":      {world: func(y *crashCluster) { y.need, y.data = endless, true }, held: decision.Reason{Code: decision.DataWouldBeLost}},
		"flag is evict":           {world: func(y *crashCluster) { y.config.OOMRescue = rescueEvict }, held: decision.Reason{Code: decision.DisruptionBudget, Text: anyText}},
		"budget lacks other pods": {world: func(y *crashCluster) { y.desired = 5 }, held: decision.Reason{Code: decision.BudgetOfOthers, Text: anyText, Have: 2, Want: 5}},
		"deletion is forbidden": {world: func(y *crashCluster) {
			y.deletion = func(*cluster.Pod) (bool, error) { return false, fmt.Errorf("delete: %w", kube.ErrForbidden) }
		}, tried: 100, held: decision.Reason{Code: decision.DeletionRefused, Text: anyText}},
		"pod changes before each deletion": {world: func(y *crashCluster) {
			y.deletion = func(*cluster.Pod) (bool, error) { return false, fmt.Errorf("delete: %w", kube.ErrBusy) }
		}, tried: 100},
		"no answer, not carried out": {world: func(y *crashCluster) {
			y.deletion = func(*cluster.Pod) (bool, error) { return false, lost }
		}, tried: 100},
		"no answer, carried out late": {world: func(y *crashCluster) {
			y.deletion = func(*cluster.Pod) (bool, error) { return true, lost }
		}, most: 2, tried: 2},
		"replacements get the old size": {world: func(y *crashCluster) { y.need, y.forgets = endless, true }, most: 14, tried: 14, held: decision.Reason{Code: decision.BackingOff, Have: 1, Text: anyText}},
		"budget changes each minute": {world: func(y *crashCluster) {
			y.need = endless
			y.need = func(time.Time) int64 {
				flip++
				y.desired = int32(flip / 2 % 3)
				return 1 << 50
			}
			y.advise = fixed(4 * smallMemory)
		}, most: 2, tried: 2, evicts: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := newCrashCluster(t, cluster.Recreate, 2)
				c.world(y)
				y.during(30 * time.Hour)
				if y.removed["delete"] > c.most || y.tried > c.tried || y.removed["evict"] > c.evicts {
					t.Errorf("%v, and %d attempts to delete; want at most %d deletions, %d attempts and %d evictions", y.removed, y.tried, c.most, c.tried, c.evicts)
				}
				expects := c.held.Code != decision.Fits
				if expects && countHeld(y.recorded, c.held) == 0 {
					t.Errorf("no event UpdateHeld with the reason %s: %q", c.held.Code, y.recorded)
				}
				if n := y.eventCount("UpdateHeld "); n > 40 {
					t.Errorf("%d events UpdateHeld in 30 hours", n)
				}
				if last := y.last(); expects && (last.Status != watcher.False && last.Status != watcher.True || len(y.conditions) > 60) {
					t.Errorf("%d conditions were written, the last one is %+v", len(y.conditions), last)
				}
				t.Logf("%v, %d attempts, %d events", y.removed, y.tried, len(y.recorded))
			})
		})
	}
}

func TestUpdater_oomKilledPodIsRescued_conditionSaysSoForAnHour(t *testing.T) {
	for name, c := range map[string]struct {
		mode    cluster.Mode
		desired int32
		want    string
	}{
		"resized": {cluster.InPlaceOrRecreate, 0, v1alpha1.ReasonResized},
		"evicted": {cluster.Recreate, 0, v1alpha1.ReasonEvicted},
		"deleted": {cluster.Recreate, 1, v1alpha1.ReasonDeleted},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := newCrashCluster(t, c.mode, 1)
				y.desired = c.desired
				u := y.during(30 * time.Minute)
				why := decision.Reason{Code: decision.OutOfMemory, Resource: cluster.Memory, From: 64 << 20, To: 164 << 20, For: 5 * time.Second}
				if got := y.last(); got.Type != v1alpha1.ConditionOOMRescue || got.Status != watcher.True || got.Reason != c.want || !strings.Contains(got.Message, why.String()) {
					t.Errorf("condition %+v, want True with reason %s", got, c.want)
				}
				n := len(y.conditions)
				for range 60 {
					time.Sleep(time.Minute)
					y.step(time.Now())
					u.pass(t.Context(), time.Now())
				}
				if got := y.last(); got.Status != watcher.Removed || len(y.conditions) != n+1 {
					t.Errorf("after an hour the condition is %+v after %d more writes, want none after one write", got, len(y.conditions)-n)
				}
			})
		})
	}
}

// The condition that an earlier updater has written would stay forever.
func TestUpdater_rescueIsOff_conditionIsRemovedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newCrashCluster(t, cluster.Recreate, 1)
		y.config.OOMRescue = rescueOff
		y.during(10 * time.Minute)
		if len(y.conditions) != 1 || y.last().Status != watcher.Removed {
			t.Errorf("%d writes, the last one of %+v, want one that removes the condition", len(y.conditions), y.last())
		}
	})
}

func TestUpdater_conditionCannotBeWritten_nextPassWritesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newCrashCluster(t, cluster.Recreate, 2)
		y.need, y.data, y.writeErr = func(time.Time) int64 { return 1 << 50 }, true, kube.ErrConflict
		u := y.during(10 * time.Minute)
		y.writeErr = nil
		for range 10 {
			y.step(time.Now())
			u.pass(t.Context(), time.Now())
			time.Sleep(time.Minute)
		}
		if got := y.last(); got.Status != watcher.False || got.Reason != decision.DataWouldBeLost.String() || len(y.conditions) != 1 {
			t.Errorf("condition %+v after %d writes, want one write with the reason DataWouldBeLost", got, len(y.conditions))
		}
	})
}

// The recommendation for which a pod is rescued is often written at the same time, so that the first write of the condition fails.
func TestUpdater_conditionConflictsOnce_rescueIsShownNevertheless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newCrashCluster(t, cluster.Recreate, 1)
		y.desired, y.writeErr = 0, kube.ErrConflict
		u := y.during(time.Minute)
		y.writeErr = nil
		if y.removed["evict"] != 1 {
			t.Fatalf("actions %v, want one eviction", y.removed)
		}
		for range 3 {
			y.step(time.Now())
			u.pass(t.Context(), time.Now())
			time.Sleep(time.Minute)
		}
		if got := y.last(); got.Status != watcher.True || got.Reason != v1alpha1.ReasonEvicted {
			t.Errorf("condition %+v, want True with reason Evicted", got)
		}
	})
}

// Conditions of VPAs for which the API server does not answer do not delay the next pass for long, and not every pass.
func TestUpdater_conditionWritesHang_passesGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newCrashCluster(t, cluster.Recreate, 1)
		y.need, y.data = func(time.Time) int64 { return 1 << 50 }, true
		u := updaterOf(y.fakeCluster, y)
		u.world, u.conditions.writer = y, hangingConditions{}
		passes := 0
		for began := time.Now(); time.Since(began) < 10*time.Minute; passes++ {
			y.step(time.Now())
			u.pass(t.Context(), time.Now())
			time.Sleep(time.Second)
		}
		if passes < 500 {
			t.Errorf("%d passes in 10m, want about one in a second", passes)
		}
	})
}
