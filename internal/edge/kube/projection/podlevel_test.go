// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/test/kubetest"
)

func TestPod_podLevelResources_areKept(t *testing.T) {
	p := kubetest.PodFrom(t, `
metadata: {namespace: shop, name: web}
spec:
  containers: [{name: app}]
  resources: {requests: {cpu: 500m, hugepages-2Mi: 4Mi}, limits: {memory: 1Gi}}
`)
	want := cluster.PodResources{
		Requests: cluster.Resources{}.Set(cluster.CPU, 500), Limits: cluster.Resources{}.Set(cluster.Memory, 1<<30),
	}
	if got := Pod(p, nil).PodLevel; got == nil || *got != want {
		t.Errorf("got %+v", got)
	}
	p.Spec.Resources = nil
	if got := Pod(p, nil).PodLevel; got != nil {
		t.Errorf("a pod without pod-level resources has %+v, want nil", got)
	}
}

func TestLimitRange_ratiosAndDefaultRequests_areMerged(t *testing.T) {
	item := func(kind corev1.LimitType, ratio, request string) corev1.LimitRangeItem {
		it := corev1.LimitRangeItem{
			Type: kind, MaxLimitRequestRatio: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(ratio)},
		}
		if request != "" {
			it.DefaultRequest = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(request)}
		}
		return it
	}
	object := func(name string, items ...corev1.LimitRangeItem) *corev1.LimitRange {
		return &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.LimitRangeSpec{Limits: items}}
	}
	cpu := func(v int64) cluster.Resources { return cluster.Resources{}.Set(cluster.CPU, v) }
	got := limitRange(
		object("a", item(corev1.LimitTypeContainer, "2", "100m"), item(corev1.LimitTypePod, "1500m", "")),
		object("b", item(corev1.LimitTypeContainer, "3", "200m")),
	)
	want := cluster.LimitRange{ContainerRatio: cpu(2000), PodRatio: cpu(1500), DefaultRequest: cpu(200)}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestPod_memoryNotInWholeBytes_setsFractions(t *testing.T) {
	for text, want := range map[string]bool{
		`containers: [{name: app, resources: {requests: {cpu: 1500u, memory: 100Mi}}}]`:                                    false,
		`containers: [{name: app, resources: {requests: {memory: "1500000m"}}}]`:                                           false,
		`containers: [{name: app, resources: {limits: {memory: 0.1Gi}}}]`:                                                  true,
		`containers: [{name: app}], initContainers: [{name: first, resources: {requests: {memory: 0.1Gi}}}]`:               true,
		`containers: [{name: app}], resources: {requests: {memory: 0.1Gi}}`:                                                true,
		`containers: [{name: app, resources: {requests: {memory: 1Gi}}}], resources: {limits: {memory: 1Gi}}, hostname: a`: false,
	} {
		if got := Pod(kubetest.PodFrom(t, "metadata: {namespace: shop, name: web}\nspec: {"+text+"}\n"), nil).Fractions; got != want {
			t.Errorf("%s: Fractions is %t, want %t", text, got, want)
		}
	}
}

func TestPod_sizedAtAdmission_setsSized(t *testing.T) {
	for annotation, want := range map[string]bool{`vpaUpdates: Pod resources updated by web`: true, `other: a`: false} {
		p := kubetest.PodFrom(t, "metadata: {namespace: shop, name: web, annotations: {"+annotation+"}}\nspec: {containers: [{name: app}]}\n")
		if got := Pod(p, nil).Sized; got != want {
			t.Errorf("%s: Sized is %t, want %t", annotation, got, want)
		}
	}
}

func TestWithShared_partsOfWholePods_areReadAgain(t *testing.T) {
	want := cluster.Amounts(250, 3<<20)
	if got := shared(WithShared(nil, want)); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	list := WithShared(nil, cluster.Resources{})
	if list != nil || shared(list) != (cluster.Resources{}) {
		t.Errorf("nothing is shared: %v", list)
	}
	if got := shared(corev1.ResourceList{"podfit.dev/shared-cpu": resource.MustParse("-1"), "podfit.dev/shared-memory": resource.MustParse("0")}); got != (cluster.Resources{}) {
		t.Errorf("amounts that are not positive are read: %v", got)
	}
}
