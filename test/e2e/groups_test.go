// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"podfit.dev/podfit/test/e2e/bed"
)

// leaderAndFollowers has a StatefulSet of the shape of etcd: the leader uses three times the CPU of its followers. Each pod gets its size in place, and
// the status has the size of the leader. When another pod becomes the leader, both have their sizes soon, without a restart.
func leaderAndFollowers(t *testing.T, name string) {
	p := newPlace(t, name)
	w := steady("etcd")
	w.Kind, w.Replicas = "StatefulSet", 3
	p.apply(w.manifest(), annotated(w.ownAutoscaler("InPlaceOrRecreate"), "podfit.dev/role-label: role"))
	pods := p.start("etcd", 3)
	lead := func(leader int) {
		t.Helper()
		for i := range pods {
			role, cpu := "follower", "300m"
			if i == leader {
				role, cpu = "leader", "900m"
			}
			p.use(&pods[i], role, cpu)
		}
	}
	has := func(leader int) func(context.Context) error {
		return func(ctx context.Context) error {
			a, err := p.Autoscaler(ctx, p.ns, "etcd")
			if err != nil {
				return err
			}
			if a.Status.Recommendation == nil {
				return fmt.Errorf("there is no recommendation")
			}
			target := a.Status.Recommendation.ContainerRecommendations[0].Target.Cpu().MilliValue()
			now, err := p.running(ctx, "etcd", 3)
			if err != nil {
				return err
			}
			for i := range now {
				cpu := now[i].Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
				least, most := int64(300), int64(450)
				if now[i].Name == pods[leader].Name {
					least, most = 900, 1300
				}
				if cpu < least || cpu > most || target < 900 || now[i].Status.ContainerStatuses[0].RestartCount != 0 {
					return fmt.Errorf("pod %s requests %dm, the target is %dm", now[i].Name, cpu, target)
				}
			}
			return nil
		}
	}
	lead(0)
	p.eventually("each pod has the size of its role", measured+4*resized, all(has(0), p.same("etcd", pods)))
	lead(2)
	p.eventually("the new leader and the former one have theirs", resized, all(has(2), p.same("etcd", pods)))
}

// use lets a pod use an amount of CPU, and sets its role.
func (p *place) use(pod *corev1.Pod, role, cpu string) {
	p.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"role":%q},"annotations":{"sim.podfit.dev/app.cpu":%q}}}`, role, cpu)
	if _, err := p.CoreV1().Pods(p.ns).Patch(p.Context(), pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		p.Fatal(err)
	}
}

// TestDaemonSet_nodesOfTwoSizes_newPodsHaveThatOfTheirNode has its own cluster with a DaemonSet on two nodes and on a larger one, where it uses three
// times the CPU. Without an annotation of the VPA, new pods start with the size of their node, and keep it. Bounds are too wide for a change of running
// pods after some minutes of usage.
func TestDaemonSet_nodesOfTwoSizes_newPodsHaveThatOfTheirNode(t *testing.T) {
	own := newSmallWorld(t, bed.Options{Nodes: 3, LargeNodes: 1})
	var err error
	if own.recommender, err = own.healthy(t.Context(), recommender()); err != nil {
		t.Fatal(err)
	}
	p := newPlaceIn(t, own, "two-sizes-of-nodes")
	w := steady("agent")
	w.Kind = "DaemonSet"
	p.apply(w.manifest(), w.autoscaler("InPlaceOrRecreate"))
	pods := p.start("agent", 3)
	large := p.node(2).Name
	for i := range pods {
		cpu := "300m"
		if pods[i].Spec.NodeName == large {
			cpu = "900m"
		}
		p.use(&pods[i], "agent", cpu)
	}
	fits := func(pod *corev1.Pod) error {
		cpu := pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
		least, most := int64(300), int64(450)
		if pod.Spec.NodeName == large {
			least, most = 900, 1300
		}
		if cpu < least || cpu > most {
			return fmt.Errorf("pod %s on %s requests %dm", pod.Name, pod.Spec.NodeName, cpu)
		}
		return nil
	}
	p.eventually("the recommendation has a size for small nodes", measured+4*resized, func(ctx context.Context) error {
		a, err := p.Autoscaler(ctx, p.ns, "agent")
		if err != nil {
			return err
		}
		if a.Status.Recommendation == nil {
			return errors.New("there is no recommendation")
		}
		r := a.Status.Recommendation.ContainerRecommendations[0]
		own := r.UncappedTarget["cpu.role.podfit.dev/4cpu-8Gi"]
		if cpu := own.MilliValue(); cpu < 300 || cpu > 450 || r.Target.Cpu().MilliValue() < 900 || len(r.UncappedTarget) != 3 {
			return fmt.Errorf("target %v, uncapped target %v", r.Target, r.UncappedTarget)
		}
		return nil
	})
	for i := range pods {
		if err := p.CoreV1().Pods(p.ns).Delete(t.Context(), pods[i].Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	p.eventually("each new pod starts with the size of its node", resized, func(ctx context.Context) error {
		now, err := p.running(ctx, "agent", 3)
		for i := range now {
			if err = errors.Join(err, fits(&now[i])); now[i].Annotations["vpaInPlaceUpdated"] != "" {
				err = errors.Join(err, fmt.Errorf("pod %s was resized in place", now[i].Name))
			}
		}
		return err
	})
	now := p.start("agent", 3)
	p.always("pods keep the size of their node", 15*time.Second, p.same("agent", now))
}
