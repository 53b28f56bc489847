// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube/projection"
)

// draw makes the random choices of a case. When rapid shrinks a case, it prefers the first of several choices.
type draw struct{ *rapid.T }

func (d draw) oneIn(n int, what string) bool { return rapid.IntRange(0, n-1).Draw(d.T, what) == n-1 }

func pick[T any](d draw, what string, of ...T) T {
	return of[rapid.IntRange(0, len(of)-1).Draw(d.T, what)]
}

// amount draws a typical quantity, and sometimes an unusual one.
func (d draw) amount(res corev1.ResourceName) resource.Quantity {
	of := []string{"100m", "250m", "500m", "1", "10m", "1m", "50m", "2", "4", "333m", "777m", "1500m", "0.0015"}
	if res == corev1.ResourceMemory {
		of = []string{"128Mi", "64Mi", "256Mi", "512Mi", "1Gi", "1Mi", "2Gi", "100M", "123456789", "3Gi", "4Gi", "0.1Gi", "1.7Gi", "0.3Gi"}
	}
	return resource.MustParse(pick(d, string(res), of...))
}

var sized = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// requirements draws requests and limits. Requests are not above the limits.
func (d draw) requirements() corev1.ResourceRequirements {
	r := corev1.ResourceRequirements{}
	set := func(list *corev1.ResourceList, name corev1.ResourceName, q resource.Quantity) {
		if *list == nil {
			*list = corev1.ResourceList{}
		}
		(*list)[name] = q
	}
	for _, name := range sized {
		switch pick(d, "has", "request", "both", "same", "none", "limit") {
		case "request":
			set(&r.Requests, name, d.amount(name))
		case "same":
			q := d.amount(name)
			set(&r.Requests, name, q)
			set(&r.Limits, name, q)
		case "limit":
			set(&r.Limits, name, d.amount(name))
		case "both":
			low := d.amount(name)
			high := d.amount(name)
			if low.Cmp(high) > 0 {
				low, high = high, low
			}
			set(&r.Requests, name, low)
			set(&r.Limits, name, high)
		}
	}
	switch {
	case d.oneIn(12, "huge pages") && len(r.Requests)+len(r.Limits) > 0:
		set(&r.Limits, "hugepages-2Mi", resource.MustParse("4Mi"))
	case d.oneIn(12, "ephemeral storage"):
		set(&r.Requests, corev1.ResourceEphemeralStorage, resource.MustParse("1Gi"))
	case d.oneIn(12, "extended resource"):
		set(&r.Limits, "example.com/gpu", resource.MustParse("1"))
	}
	return r
}

func (d draw) container(name string) corev1.Container {
	c := corev1.Container{Name: name, Image: "registry.example.com/" + name, Resources: d.requirements()}
	if d.oneIn(10, "restarts for memory") {
		c.ResizePolicy = []corev1.ContainerResizePolicy{
			{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer},
		}
	}
	return c
}

// pod draws a pod of a ReplicaSet, or of a kind of others if it has a deadline.
func (d draw) pod() *corev1.Pod {
	yes := true
	p := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "cart-1",
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "cart", UID: "u", Controller: &yes},
			},
		},
	}
	for i := range 1 + rapid.IntRange(0, 2).Draw(d.T, "containers") {
		p.Spec.Containers = append(p.Spec.Containers, d.container(fmt.Sprintf("c%d", i)))
	}
	for i := range rapid.IntRange(0, 2).Draw(d.T, "init containers") {
		c := d.container(fmt.Sprintf("i%d", i))
		if d.oneIn(2, "sidecar") {
			always := corev1.ContainerRestartPolicyAlways
			c.RestartPolicy = &always
		} else {
			c.ResizePolicy = nil
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
	if d.oneIn(3, "pod-level") {
		r := d.requirements()
		delete(r.Limits, "example.com/gpu")
		delete(r.Requests, corev1.ResourceEphemeralStorage)
		delete(r.Limits, "hugepages-2Mi")
		p.Spec.Resources = &r
		d.cover(p, &r)
	}
	switch {
	case d.oneIn(10, "priority class"):
		p.Spec.PriorityClassName = pick(d, "class", "high", "low")
	case d.oneIn(15, "deadline"):
		seconds := int64(600)
		p.Spec.ActiveDeadlineSeconds = &seconds
		owner := &p.OwnerReferences[0] // the API server accepts no deadline in the template of a ReplicaSet
		owner.APIVersion, owner.Kind = "example.com/v1", "Runner"
	case d.oneIn(15, "affinity"):
		term := corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: &metav1.LabelSelector{}, Namespaces: []string{"other"}}
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}}
	}
	switch {
	case d.oneIn(10, "annotated"):
		p.Annotations = map[string]string{"a": "b"}
	case d.oneIn(15, "windows"):
		p.Spec.OS = &corev1.PodOS{Name: corev1.Windows}
	case d.oneIn(15, "overhead"):
		class := "kata"
		p.Spec.RuntimeClassName = &class
		p.Spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m")}
	case d.oneIn(15, "claims"):
		name := "gpu"
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: name, ResourceClaimName: &name}}
		p.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: name}}
	}
	return p
}

// cover raises pod-level resources to the sum of the containers, except in one of ten cases. Otherwise few pods would be valid.
func (d draw) cover(p *corev1.Pod, r *corev1.ResourceRequirements) {
	if d.oneIn(10, "not covered") {
		return
	}
	for _, name := range sized {
		need := resource.Quantity{}
		most := resource.Quantity{}
		all := append(append([]corev1.Container(nil), p.Spec.Containers...), p.Spec.InitContainers...)
		for i := range all {
			q, ok := all[i].Resources.Requests[name]
			if !ok {
				q = all[i].Resources.Limits[name]
			}
			need.Add(q)
			if limit := all[i].Resources.Limits[name]; limit.Cmp(most) > 0 {
				most = limit
			}
		}
		if q, ok := r.Requests[name]; ok && q.Cmp(need) < 0 {
			r.Requests[name] = need
		}
		if q, ok := r.Limits[name]; ok {
			for _, least := range []resource.Quantity{need, most, r.Requests[name]} {
				if q.Cmp(least) < 0 {
					q = least
				}
			}
			r.Limits[name] = q
		}
	}
}

// limitRanges draws the LimitRanges of a namespace. It omits those that the API server rejects.
func (d draw) limitRanges(what string, most int) []*corev1.LimitRange {
	var out []*corev1.LimitRange
	for i := range rapid.IntRange(0, most).Draw(d.T, what) {
		l := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("l%d", i)}}
		for _, kind := range []corev1.LimitType{corev1.LimitTypeContainer, corev1.LimitTypePod} {
			if !d.oneIn(2, string(kind)) {
				l.Spec.Limits = append(l.Spec.Limits, d.limitRangeItem(kind))
			}
		}
		if valid, err := limitRange(l); err == nil {
			out = append(out, valid)
		}
	}
	return out
}

func (d draw) limitRangeItem(kind corev1.LimitType) corev1.LimitRangeItem {
	it := corev1.LimitRangeItem{
		Type: kind, Min: corev1.ResourceList{}, Max: corev1.ResourceList{}, MaxLimitRequestRatio: corev1.ResourceList{},
	}
	low := map[corev1.ResourceName][]string{
		corev1.ResourceCPU: {"10m", "100m", "50m", "500m"}, corev1.ResourceMemory: {"1Mi", "64Mi", "200M", "0.1Gi"},
	}
	high := map[corev1.ResourceName][]string{
		corev1.ResourceCPU: {"4", "2", "1", "8", "1300m"}, corev1.ResourceMemory: {"4Gi", "2Gi", "1Gi", "16Gi", "987654321", "1.1Gi"},
	}
	for _, name := range sized {
		if d.oneIn(3, "min") {
			it.Min[name] = resource.MustParse(pick(d, "min", low[name]...))
		}
		if d.oneIn(3, "max") {
			it.Max[name] = resource.MustParse(pick(d, "max", high[name]...))
		}
		if d.oneIn(8, "ratio") {
			it.MaxLimitRequestRatio[name] = resource.MustParse(pick(d, "ratio", "2", "1", "10", "1500m"))
		}
		if kind == corev1.LimitTypeContainer && d.oneIn(4, "default") {
			it.Default = corev1.ResourceList{name: d.amount(name)}
			if d.oneIn(2, "default request") {
				it.DefaultRequest = corev1.ResourceList{name: d.amount(name)}
			}
		}
	}
	return it
}

// quotas draws quotas with their usage. It omits those that the API server rejects. Most have room for one or two pods.
func (d draw) quotas() []corev1.ResourceQuota {
	if d.oneIn(2, "no quota") {
		return nil
	}
	var out []corev1.ResourceQuota
	for i := range rapid.IntRange(1, 3).Draw(d.T, "quotas") {
		q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("q%d", i)}}
		q.Spec.Hard = corev1.ResourceList{}
		q.Status.Used = corev1.ResourceList{}
		for _, name := range []corev1.ResourceName{
			corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory,
			corev1.ResourceCPU, corev1.ResourceMemory,
		} {
			if !d.oneIn(4, string(name)) {
				continue
			}
			sizedName := corev1.ResourceCPU
			if strings.HasSuffix(string(name), "memory") {
				sizedName = corev1.ResourceMemory
			}
			q.Spec.Hard[name] = d.amount(sizedName)
			q.Status.Used[name] = resource.MustParse("0")
			if !d.oneIn(5, "small hard limit") {
				large := map[corev1.ResourceName][]string{corev1.ResourceCPU: {"4", "2", "8", "1"}, corev1.ResourceMemory: {"4Gi", "2Gi", "8Gi", "1.1Gi"}}
				q.Spec.Hard[name] = resource.MustParse(pick(d, "hard", large[sizedName]...))
			}
			switch {
			case d.oneIn(3, "used"):
				q.Status.Used[name] = d.amount(sizedName)
			case d.oneIn(30, "not counted"):
				delete(q.Status.Used, name)
			}
		}
		if d.oneIn(4, "pods") {
			q.Spec.Hard[corev1.ResourcePods] = resource.MustParse("2")
			q.Status.Used[corev1.ResourcePods] = resource.MustParse(pick(d, "used pods", "0", "1", "2"))
		}
		if d.oneIn(3, "scope") {
			q.Spec.Scopes = []corev1.ResourceQuotaScope{pick(d, "scope", corev1.ResourceQuotaScopeNotBestEffort,
				corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeBestEffort,
				corev1.ResourceQuotaScopeCrossNamespacePodAffinity, corev1.ResourceQuotaScopePriorityClass)}
		} else if d.oneIn(4, "scope selector") {
			of := pick(d, "operator", corev1.ScopeSelectorOpIn, corev1.ScopeSelectorOpNotIn, corev1.ScopeSelectorOpExists, corev1.ScopeSelectorOpDoesNotExist)
			expression := corev1.ScopedResourceSelectorRequirement{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: of}
			if of == corev1.ScopeSelectorOpIn || of == corev1.ScopeSelectorOpNotIn {
				expression.Values = []string{"high"}
			}
			q.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{expression}}
		}
		q.Status.Hard = q.Spec.Hard
		if valid, err := resourceQuota(q); err == nil {
			out = append(out, *valid)
		}
	}
	return out
}

// quotaView converts quotas as podfit does.
func quotaView(quotas []corev1.ResourceQuota) *cluster.Quotas {
	all := make([]cluster.Quota, len(quotas))
	for i := range quotas {
		all[i] = projection.Quota(&quotas[i])
	}
	return projection.MergeQuotas(all)
}

// limitView combines LimitRanges as podfit does.
func limitView(limitRanges ...*corev1.LimitRange) cluster.LimitRange {
	byName := map[string][]projection.LimitItem{}
	for _, l := range limitRanges {
		byName[l.Name] = projection.LimitItems(l)
	}
	return projection.MergeLimits(byName)
}

// amounts draws the amounts of a recommendation or of a bound.
func (d draw) amounts(what string) cluster.Resources {
	var r cluster.Resources
	if !d.oneIn(6, what+" without cpu") {
		q := d.amount(corev1.ResourceCPU)
		r = r.Set(cluster.CPU, q.MilliValue())
	}
	if !d.oneIn(6, what+" without memory") {
		q := d.amount(corev1.ResourceMemory)
		r = r.Set(cluster.Memory, q.Value())
	}
	return r
}

var target = cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: namespace, Name: "cart"}

// longAgo is the creation time of all pods and autoscalers.
var longAgo = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// autoscaler draws an autoscaler for the pod.
func (d draw) autoscaler(p *corev1.Pod) *cluster.Autoscaler {
	a := &cluster.Autoscaler{
		Key: cluster.Key{Namespace: namespace, Name: "vpa"}, Target: target, Created: longAgo,
		Mode: pick(d, "mode", cluster.InPlaceOrRecreate, cluster.Recreate, cluster.Initial, cluster.InPlace),
	}
	for _, c := range slices.Concat(p.Spec.Containers, p.Spec.InitContainers) { // an init container that is no sidecar keeps its size
		if d.oneIn(8, "no advice") {
			continue
		}
		want := d.amounts("target")
		a.Advice = append(a.Advice, cluster.Advice{
			Container: c.Name, Estimate: cluster.Estimate{Lower: want, Target: want, Upper: want}, Uncapped: want,
		})
	}
	for _, name := range []string{"c0", "*"} {
		if !d.oneIn(3, "policy") {
			continue
		}
		p := cluster.ContainerPolicy{Container: name, RequestsOnly: d.oneIn(2, "requests only")}
		if d.oneIn(2, "minAllowed") {
			p.MinAllowed = d.amounts("minAllowed")
		}
		if d.oneIn(2, "maxAllowed") {
			p.MaxAllowed = d.amounts("maxAllowed")
		}
		if d.oneIn(5, "controls") {
			p.ControlsSet = true
			p.Controlled = pick(d, "controlled", cluster.Of(cluster.CPU), cluster.Of(cluster.Memory), 0)
		}
		a.Policies = append(a.Policies, p)
	}
	switch {
	case d.oneIn(6, "boost"):
		a.Boost = &cluster.Boost{Factor: int32(pick(d, "factor", 2, 3, 1)), Duration: time.Minute}
	case d.oneIn(10, "boost by quantity"):
		a.Boost = &cluster.Boost{ByQuantity: true, Quantity: 500, Duration: time.Minute}
	}
	a.CPULimits.Remove = d.oneIn(3, "remove CPU limits")
	return a
}
