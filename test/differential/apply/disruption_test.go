// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"pgregory.net/rapid"

	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/features"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/updater/restriction"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/updater/utils"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/plan"
	"podfit.dev/podfit/test/differential/cases"
)

// Compares how many pods are evicted or resized at a time, with these intended differences:
//
//	W-14  a pod that is not ready does not count as running, and controllers of unknown kinds have replicas;
//	      here, every running pod is ready and upstream knows the kinds
//	W-19  in mode InPlace, upstream repeats deferred, infeasible and failed resizes, independently of the budget
//	W-20  the duration of a resize is counted from its condition, not from when it was first seen; here, no time passes

// controllers are the kinds whose replicas upstream reads.
var controllers = []cluster.Workload{
	{Group: "apps", Kind: "ReplicaSet"}, {Group: "apps", Kind: "StatefulSet"}, {Group: "apps", Kind: "DaemonSet"},
	{Kind: "ReplicationController"}, {Group: "batch", Kind: "Job"},
}

// restrictions returns upstream's restrictions for a cluster with one controller.
func restrictions(t rapid.TB, w cluster.Workload, replicas int32, minimum int, tolerance float64, skip bool) restriction.PodsRestrictionFactory {
	t.Helper()
	client := fake.NewClientset()
	client.PrependReactor("create", "pods", func(kubetesting.Action) (bool, runtime.Object, error) { return true, nil, nil })
	f := informers.NewSharedInformerFactory(client, 0)
	meta := metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name}
	var err error
	switch w.Kind {
	case "ReplicaSet":
		err = f.Apps().V1().ReplicaSets().Informer().GetStore().Add(&appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Replicas: &replicas}})
	case "StatefulSet":
		err = f.Apps().V1().StatefulSets().Informer().GetStore().Add(&appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: &replicas}})
	case "DaemonSet":
		err = f.Apps().V1().DaemonSets().Informer().GetStore().Add(&appsv1.DaemonSet{ObjectMeta: meta, Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: replicas}})
	case "ReplicationController":
		err = f.Core().V1().ReplicationControllers().Informer().GetStore().Add(&corev1.ReplicationController{ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{Replicas: &replicas}})
	}
	if err != nil {
		t.Fatal(err)
	}
	return restriction.NewPodsRestrictionFactory(client, f, minimum, tolerance, nil, skip)
}

// group returns the pods of one controller with the same recommendation. Some have not started.
func (m maker) group(mode cluster.Mode) (plan.World, plan.Budget) {
	w := cases.Pick(m, controllers...)
	w.Namespace, w.Name = "shop", "cart"
	a := &cluster.Autoscaler{
		Key: cluster.Key{Namespace: "shop", Name: "cart"}, Mode: mode, Target: w, MinReplicas: int32(m.IntN(4)),
		Advice: []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{
			Lower: cluster.Amounts(400, 1<<30), Target: cluster.Amounts(500, 2<<30), Upper: cluster.Amounts(600, 3<<30),
		}}},
	}
	pods := cases.Several(m.Dice, 0, 11, func(d cases.Dice) *cluster.Pod {
		p := &cluster.Pod{
			Controller: w, Top: w, Node: "n", Phase: cluster.Running, Ready: true, Created: noon, Started: noon, QoS: cluster.Burstable,
			Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(100, 1<<28)}},
		}
		if d.OneIn(5) {
			p.Phase, p.Ready = cluster.Pending, false
		}
		return p
	})
	name(pods)
	b := plan.DefaultBudget()
	b.MinReplicas, b.Tolerance = 1+m.IntN(3), cases.Pick(m, 0, 0.1, 0.25, 0.5, 0.9, 1)
	b.InPlace = true
	return plan.World{
		Governed: []cluster.Governed{{Autoscaler: a, Pods: pods}},
		Scales:   map[cluster.Workload]cluster.Scale{w: {Known: true, Replicas: int32(len(pods) + m.IntN(3))}},
	}, b
}

func TestEvict_randomPods_decidesAsUpstream(t *testing.T) {
	evicted, left := 0, 0
	check(t, 3_000, func(t *rapid.T, m maker) {
		w, b := m.group(cluster.Recreate)
		g := w.Governed[0]
		v := theirs(g.Autoscaler)
		pods := all(g.Pods)
		f := restrictions(t, g.Autoscaler.Target, w.Scales[g.Autoscaler.Target].Replicas, b.MinReplicas, b.Tolerance, false)
		stats, creators, err := f.GetCreatorMaps(pods, v)
		if err != nil {
			t.Fatal(err)
		}
		limiter := f.NewPodsEvictionRestriction(stats, creators)
		var want []string
		for _, p := range pods {
			if limiter.CanEvict(p) {
				if err := limiter.Evict(p, v, &record.FakeRecorder{}); err != nil {
					t.Fatal(err)
				}
				want = append(want, p.Name)
			}
		}
		want = want[:min(len(want), 2)] // podfit evicts the others when these have replacements
		var got []string
		for _, d := range plan.Plan(noon, w, b) {
			if d.Do == decision.Evict {
				got = append(got, d.Pod.Name)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v\n%+v %+v\n%s", got, want, b, w.Scales, cases.Show(v, pods))
		}
		evicted += len(got)
		left += len(pods) - len(got)
	})
	if evicted < 1000 || left < 1000 {
		t.Errorf("too few cases: %d evicted, %d not", evicted, left)
	}
}

// One pod, in a random state, should change. The others have their size.
func TestResize_randomPods_decidesAsUpstream(t *testing.T) {
	if err := features.MutableFeatureGate.Set("InPlace=true"); err != nil {
		t.Fatal(err)
	}
	seen := map[utils.InPlaceDecision]int{}
	check(t, 6_000, func(t *rapid.T, m maker) {
		mode := cases.Pick(m, cluster.InPlaceOrRecreate, cluster.InPlace)
		w, b := m.group(mode)
		b.SkipInPlace = m.OneIn(3)
		g := w.Governed[0]
		if len(g.Pods) == 0 {
			return
		}
		for _, p := range g.Pods[1:] {
			p.Containers[0].Requests = g.Autoscaler.Advice[0].Target
		}
		changing := g.Pods[0]
		changing.Containers[0].Applied = &cluster.Applied{Requests: changing.Containers[0].Requests}
		restart := m.OneIn(3)
		if restart {
			changing.Containers[0].Restart = cluster.Of(cluster.Memory)
		}
		if m.OneIn(2) {
			// The spec already has the recommendation, and the status has the progress of the resize.
			changing.Containers[0].Requests = g.Autoscaler.Advice[0].Target
			changing.Resize = &cluster.Resize{Since: noon, State: cluster.ResizeDeferred + cluster.ResizeState(m.IntN(5))}
		}
		v := theirs(g.Autoscaler)
		pods := all(g.Pods)
		if restart {
			pods[0].Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: "memory", RestartPolicy: corev1.RestartContainer}}
		}
		if r := changing.Resize; r != nil {
			pods[0].Status.Conditions = append(pods[0].Status.Conditions, condition(r.State))
		}
		f := restrictions(t, g.Autoscaler.Target, w.Scales[g.Autoscaler.Target].Replicas, b.MinReplicas, b.Tolerance, b.SkipInPlace)
		stats, creators, err := f.GetCreatorMaps(pods, v)
		if err != nil {
			t.Fatal(err)
		}
		answer := f.NewPodsInPlaceRestriction(stats, creators).CanInPlaceUpdate(pods[0], v, nil)
		seen[answer]++
		want := decision.Leave
		switch answer {
		case utils.InPlaceApproved:
			want = decision.Resize
		case utils.InPlaceEvict:
			if f.NewPodsEvictionRestriction(stats, creators).CanEvict(pods[0]) {
				want = decision.Evict
			}
		}
		for _, d := range plan.Plan(noon.Add(time.Millisecond), w, b) {
			if d.Pod == changing && d.Do != want {
				t.Fatalf("%s (%s), want %s: %s\n%+v %+v\n%s", d.Do, d.Reason, want, answer, b, w.Scales, cases.Show(v, pods))
			}
		}
	})
	t.Log(seen)
	for _, d := range []utils.InPlaceDecision{utils.InPlaceApproved, utils.InPlaceDeferred, utils.InPlaceEvict, utils.InPlaceInfeasible} {
		if seen[d] < 20 {
			t.Errorf("decision %s occurs %d times", d, seen[d])
		}
	}
}

// condition returns the condition by which the kubelet reports the state of a resize.
func condition(s cluster.ResizeState) corev1.PodCondition {
	c := corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue}
	switch s {
	case cluster.ResizeDeferred:
		c.Reason = corev1.PodReasonDeferred
	case cluster.ResizeInfeasible:
		c.Reason = corev1.PodReasonInfeasible
	case cluster.ResizeInProgress:
		c.Type = corev1.PodResizeInProgress
	case cluster.ResizeError:
		c.Type, c.Reason, c.Message = corev1.PodResizeInProgress, corev1.PodReasonError, "no"
	default:
		c.Reason = "Whatever"
	}
	return c
}
