// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	vpav1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/updater/priority"
	vpautil "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/vpa"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/plan"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/test/differential/cases"
)

// Compares which pods are changed, and in which order, with these intended differences:
//
//	W-13  a pod is not changed if its replacement would have the same size except for rounding
//	W-27  a missing request satisfies only the eviction requirements for that resource
var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// served returns up to n ready pods of one ReplicaSet. They differ in everything that the rules read; some are close to the target.
func (m maker) served(most int, a *cluster.Autoscaler, like []cluster.Container) []*cluster.Pod {
	rs := cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: "cart"}
	a.Target = rs
	pods := cases.Several(m.Dice, 1, most, func(d cases.Dice) *cluster.Pod {
		m := maker{d}
		age := time.Duration(m.IntN(24*60)) * time.Minute
		p := &cluster.Pod{
			Controller: rs, Top: rs, Node: "n", Phase: cluster.Running, Ready: true, Created: noon.Add(-age),
		}
		if !m.OneIn(8) {
			p.Started = p.Created
		}
		if text := cases.Pick(m, "", "", "a", "a, b", "A b"); text != "" {
			p.Marks = &cluster.Marks{Observed: new(text)}
		}
		for _, c := range like {
			if !m.OneIn(4) {
				c.Requests = m.close(a, c.Name)
			} else {
				c.Requests = m.some()
			}
			c.Limits = cluster.Resources{}
			if m.OneIn(6) {
				finished := noon.Add(-time.Duration(m.IntN(1200)) * time.Second)
				c.Exit = &cluster.Exit{
					OOM: !m.OneIn(3), Finished: finished, Started: finished.Add(-time.Duration(m.IntN(1200)) * time.Second),
				}
			}
			p.Containers = append(p.Containers, c)
		}
		return p
	})
	name(pods)
	return pods
}

// name sets names and UIDs of pods by their index.
func name(pods []*cluster.Pod) {
	for i, p := range pods {
		p.Namespace, p.Name, p.UID = "shop", fmt.Sprintf("cart-%02d", i), fmt.Sprintf("uid-%d", i)
	}
}

// close returns requests equal or close to the target.
func (m maker) close(a *cluster.Autoscaler, container string) cluster.Resources {
	adv := a.AdviceFor(container)
	if adv == nil {
		return m.resources(cluster.Both)
	}
	r := m.resources(cluster.Both)
	for _, res := range cluster.All {
		if v, ok := adv.Target.Get(res); ok {
			f := cases.Pick(m, 1, 1, 0.5+m.Fraction(), 0.95+m.Fraction()/10)
			r = r.Set(res, max(1, int64(float64(v)*f)))
		}
	}
	return r
}

func worldOf(a *cluster.Autoscaler, pods []*cluster.Pod, replicas int) plan.World {
	return plan.World{
		Governed: []cluster.Governed{{Autoscaler: a, Pods: pods}},
		Scales:   map[cluster.Workload]cluster.Scale{a.Target: {Known: true, Replicas: int32(replicas)}},
	}
}

func order(a *cluster.Autoscaler, pods []*cluster.Pod) []string {
	v := theirs(a)
	calculator := priority.NewUpdatePriorityCalculator(v, priority.UpdateConfig{
		MinChangePriority: 0.1, PodLifetimeUpdateThreshold: 12 * time.Hour, EvictAfterOOMThreshold: 10 * time.Minute,
	}, vpautil.NewCappingRecommendationProcessor(limitRanges{}), priority.NewProcessor())
	kubePods := all(pods)
	for _, p := range kubePods {
		calculator.AddPod(p, noon, nil)
	}
	admission := priority.NewScalingDirectionPodEvictionAdmission()
	admission.LoopInit(kubePods, map[*vpav1.VerticalPodAutoscaler][]*corev1.Pod{v: kubePods})
	var names []string
	for _, p := range calculator.GetSortedPods(admission) {
		names = append(names, p.Name)
	}
	return names
}

func TestPlan_podsToUpdate_equalUpstream(t *testing.T) {
	var compared, evicted, same, missing int
	check(t, 4_000, func(t *rapid.T, m maker) {
		like := m.containers(3)
		a := m.autoscaler(like)
		a.Mode = cluster.Recreate
		if len(a.Advice) == 0 {
			return
		}
		if m.OneIn(3) {
			for range 1 + m.IntN(2) {
				a.Requirements = append(a.Requirements, cluster.EvictionRequirement{
					Resources: a.Advice[0].Target.Has, Higher: m.OneIn(2),
				})
			}
		}
		pods := m.served(12, a, like)

		// Without a disruption limit, all pods that should change do, or wait until two others have replacements.
		b := plan.DefaultBudget()
		b.MinReplicas, b.Tolerance = 0, 1
		var got []string
		byName := map[string]decision.Decision{}
		for _, d := range plan.Plan(noon, worldOf(a, pods, len(pods)+1), b) {
			byName[d.Pod.Name] = d
			if d.Do == decision.Evict || d.Reason.Code == decision.Probing {
				got = append(got, d.Pod.Name)
			}
		}
		want := order(a, pods)
		want = slices.DeleteFunc(want, func(name string) bool {
			d := byName[name]
			switch {
			case d.Do == decision.Evict, d.Reason.Code == decision.Probing:
				return false
			case d.Reason.Code == decision.SameSize || d.Reason.Code == decision.Fits:
				same++
				return almost(d)
			case d.Reason.Code == decision.RequirementsUnmet:
				missing++
				return lacksRequest(d)
			}
			return false
		})
		if !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
			t.Fatalf("got %v, want %v\n%s", got, want, cases.Show(theirs(a), all(pods)))
		}
		// Upstream's order of pods with equal priority is random.
		for i := range got {
			if g, w := byName[got[i]].Priority, byName[want[i]].Priority; g != w && byName[got[i]].Do == decision.Evict {
				t.Fatalf("place %d has %+v, want %+v\n%s", i, g, w, cases.Show(theirs(a), all(pods)))
			}
		}
		compared += len(pods)
		evicted += len(got)
	})
	t.Logf("%d pods compared, %d to be evicted; not evicted although upstream does: %d of the same size (W-13), %d without request (W-27)",
		compared, evicted, same, missing)
	if evicted < 1000 || evicted > compared*9/10 || missing == 0 {
		t.Error("the cases do not cover all differences")
	}
}

// almost reports whether a pod has the recommendation except for rounding.
func almost(d decision.Decision) bool {
	for _, f := range d.With {
		requests := d.Pod.Container(f.Container).Requests
		for _, res := range cluster.All {
			to, ok := f.Requests.Get(res)
			from, has := requests.Get(res)
			least := 1.0
			if res == cluster.Memory {
				least = 4096
			}
			if ok && (!has || math.Abs(float64(to-from)) > least) {
				return false
			}
		}
	}
	return true
}

func lacksRequest(d decision.Decision) bool {
	return slices.ContainsFunc(d.With, func(f policy.Fitted) bool {
		return d.Pod.Container(f.Container).Requests.Has != cluster.Both
	})
}

// Compares the numbers of the priority.
func TestPlan_priorities_equalUpstream(t *testing.T) {
	wanted := 0
	check(t, 20_000, func(t *rapid.T, m maker) {
		like := m.containers(3)
		a := m.autoscaler(like)
		if len(a.Advice) == 0 {
			return
		}
		p := m.served(1, a, like)[0]
		v, kubePod := theirs(a), pod(p)
		capped, _, err := vpautil.NewCappingRecommendationProcessor(limitRanges{}).Apply(v, kubePod)
		if err != nil {
			t.Fatal(err)
		}
		want := priority.NewProcessor().GetUpdatePriority(kubePod, v, capped)
		d := plan.Plan(noon, worldOf(a, []*cluster.Pod{p}, 1), plan.DefaultBudget())[0]
		if d.Reason.Code == decision.NoAdvice {
			return
		}
		if d.Priority.Up != want.ScaleUp || d.Priority.Diff != want.ResourceDiff {
			t.Fatalf("got %+v, want %+v\n%s", d.Priority, want, cases.Show(v, kubePod))
		}
		outside := d.Wanted.Code == decision.BelowRange || d.Wanted.Code == decision.AboveRange || d.Wanted.Code == decision.MissingRequest
		if outside && !want.OutsideRecommendedRange {
			t.Fatalf("%s, but upstream finds it within its range\n%s", d.Wanted, cases.Show(v, kubePod))
		}
		if outside {
			wanted++
		}
	})
	if wanted == 0 {
		t.Error("no pod was outside its range")
	}
}
