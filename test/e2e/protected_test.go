// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// doNotDisrupt has two workloads, one pod of each of which has an annotation that forbids to evict it. In mode Recreate, its siblings are
// evicted and it is not, and the VPA names the annotation. In mode InPlaceOrRecreate, it is resized in place. Without the annotation, the pod
// of the first workload is evicted, too.
func doNotDisrupt(t *testing.T, name string) {
	p := newPlace(t, name)
	evicted, resizedInPlace := steady("evicted"), steady("in-place")
	p.apply(evicted.manifest(), resizedInPlace.manifest(), evicted.ownAutoscaler("Recreate"), resizedInPlace.ownAutoscaler("InPlaceOrRecreate"))
	annotatePod := func(pod corev1.Pod, values map[string]any) {
		t.Helper()
		if _, err := p.CoreV1().Pods(p.ns).Patch(t.Context(), pod.Name, types.MergePatchType, annotate(values), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	spared, other := p.start("evicted", 2)[0], p.start("in-place", 2)
	annotatePod(spared, map[string]any{"karpenter.sh/do-not-disrupt": "true"})
	annotatePod(other[0], map[string]any{"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"})
	p.advise("350m", "262144k", "evicted", "in-place")

	p.eventually("all pods are resized in place", 2*resized, all(p.sized("in-place", 2, advisedSize), p.same("in-place", other)))
	p.eventually("the condition names the annotation", 2*resized, p.says("evicted", updatingCondition, "Protected", "annotation karpenter.sh/do-not-disrupt: true"))
	p.eventually("its sibling was evicted", resized, p.sizedBeside("evicted", spared, advisedSize))
	p.always("the pod with the annotation is not evicted", 8*time.Second, p.sizedBeside("evicted", spared, advisedSize))

	annotatePod(spared, map[string]any{"karpenter.sh/do-not-disrupt": nil})
	p.eventually("the pod is evicted without the annotation", 2*resized, p.sized("evicted", 2, advisedSize))
}

// sizedBeside returns a check that a workload of two pods has one that is unchanged, and another one with a size.
func (p *place) sizedBeside(app string, unchanged corev1.Pod, size string) func(context.Context) error {
	return func(ctx context.Context) error {
		pods, err := p.running(ctx, app, 2)
		if err != nil {
			return err
		}
		found := slices.ContainsFunc(pods, func(q corev1.Pod) bool { return q.UID == unchanged.UID && requests(q) == requests(unchanged) })
		if !found || !slices.ContainsFunc(pods, func(q corev1.Pod) bool { return requests(q) == size }) {
			return fmt.Errorf("the pods are %v", uids(pods))
		}
		return nil
	}
}
