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

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/edge/kube"
)

// learning returns a fake cluster whose autoscaler has learnt a boost of three times the CPU for three minutes.
func learning(mode cluster.Mode) *fakeCluster {
	fake := newFakeCluster(mode)
	fake.config.Gates = process.Gates{process.CPUStartupBoost: true}
	a := fake.autoscalers[0]
	a.Learning = cluster.BoostLearning{On: true, MaxPercent: 400, MaxDuration: 10 * time.Minute}
	for i := range a.Advice {
		a.Advice[i].Learnt = cluster.LearntBoost{Percent: 300, Starts: 5, Duration: 3 * time.Minute}
	}
	return fake
}

func TestUpdater_learntBoost_endsAfterItsDuration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := learning(cluster.Recreate)
		a := fake.autoscalers[0]
		for _, p := range fake.pods {
			p.Ready, p.ReadySince = true, time.Now()
			p.Containers[0].Boosted = &cluster.Applied{Requests: p.Containers[0].Requests}
			p.Containers[0].Requests = p.Containers[0].Requests.Set(cluster.CPU, 3*a.Advice[0].Target.CPU)
		}
		u := updaterOf(fake, fake)
		for minute := range 6 {
			if n := fake.count("resize "); (minute <= 4) != (n == 0) {
				t.Errorf("%d resizes before the pass of minute %d", n, minute)
			}
			u.pass(t.Context(), time.Now())
			time.Sleep(time.Minute)
		}
		if n := fake.count("evict "); n > 0 {
			t.Errorf("%d evictions", n)
		}
	})
}

// boosting is a fake cluster whose webhook gives replacements a startup boost.
type boosting struct{ *fakeCluster }

func (y boosting) Evict(ctx context.Context, p *cluster.Pod) error {
	err := y.fakeCluster.Evict(ctx, p)
	y.change(p.Name, func(q *cluster.Pod) {
		q.ReadySince = time.Now()
		q.Containers[0].Boosted = &cluster.Applied{Requests: p.Containers[0].Requests}
		q.Containers[0].Requests = q.Containers[0].Requests.Set(cluster.CPU, 3*y.autoscalers[0].Advice[0].Target.CPU)
	})
	return err
}

func (y boosting) Annotate(ctx context.Context, p *cluster.Pod, set map[string]string, removed ...string) error {
	if len(removed) > 0 {
		y.change(p.Name, func(q *cluster.Pod) { q.Containers[0].Boosted = nil })
	}
	return y.fakeCluster.Annotate(ctx, p, set, removed...)
}

func (y boosting) change(name string, change func(*cluster.Pod)) {
	y.mu.Lock()
	defer y.mu.Unlock()
	i := slices.IndexFunc(y.pods, func(p *cluster.Pod) bool { return p.Name == name })
	y.replace(y.pods[i], change)
}

func TestUpdater_replacementsAreBoosted_evictionsHadAnEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := learning(cluster.Recreate)
		u := updaterOf(fake, boosting{fake})
		for range 30 {
			u.pass(t.Context(), time.Now())
			if w := fake.pods[0].Top; u.ledger.NeedsDryRun(w) {
				t.Fatalf("an eviction counts as without effect after %v", fake.done)
			}
			time.Sleep(time.Minute)
		}
		if evictions, resizes := fake.count("evict "), fake.count("resize "); evictions != 3 || resizes != 3 {
			t.Errorf("%d evictions and %d resizes, want 3 and 3: %v", evictions, resizes, fake.done)
		}
	})
}

func TestUpdater_boostedPodInOOMLoop_getsMoreMemory(t *testing.T) {
	for mode, want := range map[cluster.Mode]string{cluster.Recreate: "evict ", cluster.InPlaceOrRecreate: "resize "} {
		t.Run(mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := learning(mode)
				target := fake.autoscalers[0].Advice[0].Target
				p, c := fake.pods[0], &fake.pods[0].Containers[0]
				p.Ready, p.ReadySince = false, time.Time{}
				c.Boosted = &cluster.Applied{Requests: c.Requests}
				c.Requests = cluster.Amounts(3*target.CPU, target.Memory/2)
				c.Exit = &cluster.Exit{OOM: true, Kills: 5, Now: true, Started: time.Now().Add(-2 * time.Minute), Finished: time.Now().Add(-time.Minute)}
				u := updaterOf(fake, fake)
				u.pass(t.Context(), time.Now())
				if n := fake.count(want + p.Name); n != 1 {
					t.Fatalf("%d × %s, want 1: %v", n, want, fake.done)
				}
				if r := fake.pods[0].Containers[0].Requests; mode.Resizes() && r != cluster.Amounts(3*target.CPU, target.Memory) {
					t.Errorf("got %v, want the CPU of the boost and the recommended memory", r)
				}
			})
		})
	}
}

// fullQuota is a fake cluster whose quota admits no more memory.
type fullQuota struct{ boosting }

func (y fullQuota) Resize(ctx context.Context, p *cluster.Pod, with []policy.Fitted) error {
	if memory, sets := with[0].Requests.Get(cluster.Memory); sets && memory > p.Containers[0].Requests.Memory {
		return fmt.Errorf("resize: %w", kube.ErrQuota)
	}
	return y.fakeCluster.Resize(ctx, p, with)
}

// The recommended memory has grown since the pod was created. A quota that does not admit it does not keep the CPU of the boost.
func TestUpdater_quotaRefusesTheMemoryAtTheEndOfABoost_boostEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := learning(cluster.InPlaceOrRecreate)
		target := fake.autoscalers[0].Advice[0].Target
		p := fake.pods[0]
		fake.pods = fake.pods[:1]
		p.Ready, p.ReadySince = true, time.Now().Add(-time.Hour)
		p.Containers[0].Boosted = &cluster.Applied{Requests: p.Containers[0].Requests}
		p.Containers[0].Requests = cluster.Amounts(3*target.CPU, target.Memory/2)
		u := updaterOf(fake, fullQuota{boosting{fake}})
		for range 5 {
			u.pass(t.Context(), time.Now())
			time.Sleep(time.Minute)
		}
		if c := fake.pods[0].Containers[0]; c.Boosted != nil || c.Requests.CPU != target.CPU {
			t.Errorf("the pod still requests %v, want %dm of CPU", c.Requests, target.CPU)
		}
	})
}
