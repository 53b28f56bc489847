// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// leaderAndFollowers has a StatefulSet of the shape of etcd: the leader uses three times the CPU of its followers. Each pod gets its size in place, and
// the status has the size of the leader. When another pod becomes the leader, both have their sizes soon, without a restart.
func leaderAndFollowers(t *testing.T, name string) {
	p := newPlace(t, name)
	w := steady("etcd")
	w.Kind, w.Replicas = "StatefulSet", 3
	p.apply(w.manifest(), annotated(w.ownAutoscaler("InPlaceOrRecreate"), "podfit.dev/role-label: role"))
	pods := p.start("etcd", 3)
	give := func(pod corev1.Pod, role, cpu string) {
		t.Helper()
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{"role":%q},"annotations":{"sim.podfit.dev/app.cpu":%q}}}`, role, cpu)
		if _, err := p.CoreV1().Pods(p.ns).Patch(t.Context(), pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	lead := func(leader int) {
		t.Helper()
		for i := range pods {
			role, cpu := "follower", "300m"
			if i == leader {
				role, cpu = "leader", "900m"
			}
			give(pods[i], role, cpu)
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
