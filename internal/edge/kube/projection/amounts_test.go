// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
)

func TestPod_fractionOfAByte_requestIsAtMostTheLimit(t *testing.T) {
	fraction := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("0.1Gi")} // 107374182.4 bytes
	c := corev1.Container{Name: "app", Resources: corev1.ResourceRequirements{Requests: fraction, Limits: fraction}}
	p := Pod(&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{c}, InitContainers: []corev1.Container{c}}}, nil)
	const below = 107374182
	if app := p.Containers[0]; app.Limits.Memory != below || app.Requests.Memory != below {
		t.Errorf("request %d, limit %d, want %d for both", app.Requests.Memory, app.Limits.Memory, below)
	}
	if init := p.Containers[1]; init.Requests.Memory != below+1 || init.Limits.Memory != below+1 {
		t.Errorf("init container: request %d, limit %d, want %d for both", init.Requests.Memory, init.Limits.Memory, below+1)
	}
	small := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("0.0001"), corev1.ResourceMemory: resource.MustParse("0.1")}
	if got := kube.AmountsBelow(small); got != cluster.Amounts(1, 1) {
		t.Errorf("amounts near zero are %v, want 1 and 1", got)
	}
}

// limitRange returns the combined constraints of LimitRanges.
func limitRange(objects ...*corev1.LimitRange) cluster.LimitRange {
	byName := map[string][]LimitItem{}
	for _, o := range objects {
		byName[o.Name] = LimitItems(o)
	}
	return MergeLimits(byName)
}

func TestMergeLimits_fractions_areRoundedToAdmissibleAmounts(t *testing.T) {
	fraction := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("0.1Gi")}
	ratio := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1.0005")}
	got := limitRange(&corev1.LimitRange{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
		{Type: corev1.LimitTypeContainer, Min: fraction, Max: fraction, MaxLimitRequestRatio: ratio},
	}}})
	if low, high := got.Container.Min.Memory, got.Container.Max.Memory; low != 107374183 || high != 107374182 {
		t.Errorf("minimum %d, maximum %d, want 107374183 and 107374182", low, high)
	}
	if r := got.ContainerRatio.Memory; r != 1000 {
		t.Errorf("the ratio is %d thousandths, want 1000", r)
	}
}

// Administrators use huge amounts to mean "unlimited". If such a maximum became 0, it would forbid all sizes.
func TestAmounts_moreThanInt64_becomeMostAmount(t *testing.T) {
	most := cluster.Amounts(kube.MostAmount, kube.MostAmount)
	for _, text := range []string{"10P", "1E", "9223372036854775807", "1e19"} {
		q := resource.MustParse(text)
		list := corev1.ResourceList{corev1.ResourceCPU: q, corev1.ResourceMemory: q}
		if got := kube.Amounts(list); got != most {
			t.Errorf("%s: amounts %v, want %v", text, got, most)
		}
		got := limitRange(&corev1.LimitRange{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
			{Type: corev1.LimitTypeContainer, Max: list, MaxLimitRequestRatio: list},
		}}})
		if got.Container.Max != most || got.ContainerRatio != most {
			t.Errorf("%s: maximum %v, ratio %v, want %v", text, got.Container.Max, got.ContainerRatio, most)
		}
	}
	q := resource.MustParse("-1e19")
	if got := kube.Amounts(corev1.ResourceList{corev1.ResourceCPU: q, corev1.ResourceMemory: q}); got != cluster.Amounts(0, 0) {
		t.Errorf("amounts of a negative quantity are %v", got)
	}
}
