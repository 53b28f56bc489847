// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/edge/kube/projection"
	"podfit.dev/podfit/internal/edge/webhook"
	"podfit.dev/podfit/test/differential/cases"
)

const usually = 6000

// created returns a pod as a controller creates it.
func created(containers ...corev1.Container) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{GenerateName: "cart-", Namespace: "shop", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "cart", UID: "1", Controller: new(true)},
		}},
		Spec: corev1.PodSpec{Containers: containers},
	}
}

func (m maker) pod() *corev1.Pod {
	p := created()
	if m.OneIn(2) {
		p.Annotations = map[string]string{"a/b": "c"}
	}
	if m.OneIn(4) {
		p.Spec.InitContainers = []corev1.Container{{Name: "init"}}
	}
	p.Spec.Containers = cases.Several(m.Dice, 1, 3, func(d cases.Dice) corev1.Container {
		m := maker{d}
		requests, limits := m.some(), m.some()
		if m.OneIn(3) {
			limits = cluster.Resources{}
		}
		for _, res := range cluster.All { // a request must not exceed its limit
			r, a := requests.Get(res)
			l, b := limits.Get(res)
			if a && b && (r > l || m.OneIn(4)) {
				limits = limits.Set(res, r)
			}
		}
		return corev1.Container{Resources: corev1.ResourceRequirements{Requests: list(requests), Limits: list(limits)}}
	})
	for i := range p.Spec.Containers {
		p.Spec.Containers[i].Name = fmt.Sprint("c", i)
	}
	return p
}

// request sets a CPU request within the limit for every container: see TestAdmit_boostFactorWithoutRequest_hasNoEffect.
func (m maker) request(p *corev1.Pod) {
	for i := range p.Spec.Containers {
		r := &p.Spec.Containers[i].Resources
		if _, ok := r.Requests[corev1.ResourceCPU]; ok {
			continue
		}
		if r.Requests == nil {
			r.Requests = corev1.ResourceList{}
		}
		cpu, ok := r.Limits[corev1.ResourceCPU]
		if !ok {
			cpu = list(cluster.Amounts(m.Amount(cluster.CPU), 0))[corev1.ResourceCPU]
		}
		r.Requests[corev1.ResourceCPU] = cpu
	}
}

// autoscaler returns a VPA for a pod, with recommendations as the recommender writes them.
func (m maker) autoscaler(p *corev1.Pod, boost bool) *v1.VerticalPodAutoscaler {
	modes := []v1.UpdateMode{v1.UpdateModeInitial, v1.UpdateModeRecreate, v1.UpdateModeInPlaceOrRecreate, v1.UpdateModeOff}
	mode := cases.Pick(m, modes...)
	a := &v1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart-vpa"}}
	a.Spec.TargetRef = targetRef()
	a.Spec.UpdatePolicy = &v1.PodUpdatePolicy{UpdateMode: &mode}
	a.Spec.ResourcePolicy = &v1.PodResourcePolicy{}
	if boost && m.OneIn(2) {
		a.Spec.StartupBoost = m.boost()
	}
	a.Status.Recommendation = &v1.RecommendedPodResources{}
	for _, c := range p.Spec.Containers {
		off := false
		if !m.OneIn(3) {
			cp := v1.ContainerResourcePolicy{ContainerName: c.Name}
			low := m.some()
			high := low
			for _, res := range cluster.All {
				if v, ok := low.Get(res); ok {
					high = high.Set(res, v+m.Amount(res))
				}
			}
			if m.OneIn(2) {
				cp.MinAllowed = list(low)
			}
			if m.OneIn(2) {
				cp.MaxAllowed = list(high)
			}
			if m.OneIn(3) {
				cp.ControlledValues = new(v1.ContainerControlledValuesRequestsOnly)
			}
			if off = m.OneIn(8); off {
				cp.Mode = new(v1.ContainerScalingModeOff)
			}
			if boost && m.OneIn(3) {
				cp.StartupBoost = m.boost()
			}
			a.Spec.ResourcePolicy.ContainerPolicies = append(a.Spec.ResourcePolicy.ContainerPolicies, cp)
		}
		if off || m.OneIn(5) {
			continue
		}
		target := list(cluster.Amounts(m.Amount(cluster.CPU), m.Amount(cluster.Memory)))
		a.Status.Recommendation.ContainerRecommendations = append(a.Status.Recommendation.ContainerRecommendations,
			v1.RecommendedContainerResources{ContainerName: c.Name, Target: target, LowerBound: target, UpperBound: target, UncappedTarget: target})
	}
	return a
}

func (m maker) boost() *v1.StartupBoost {
	if m.OneIn(2) {
		return &v1.StartupBoost{CPU: &v1.GenericStartupBoost{Type: v1.FactorStartupBoostType, Factor: new(int32(1 + m.IntN(5)))}}
	}
	q := list(cluster.Resources{}.Set(cluster.CPU, m.Amount(cluster.CPU)))[corev1.ResourceCPU]
	return &v1.StartupBoost{CPU: &v1.GenericStartupBoost{Type: v1.QuantityStartupBoostType, Quantity: &q}}
}

// limitRange returns limits for containers. Limits for pods are compared in package apply.
func (m maker) limitRange() (l cluster.LimitRange) {
	if m.OneIn(2) {
		return l
	}
	low := m.some()
	high := low
	for _, res := range cluster.All {
		if v, ok := low.Get(res); ok {
			high = high.Set(res, v+m.Amount(res))
		}
	}
	l.Container = cluster.Range{Min: low, Max: high}
	if m.OneIn(3) {
		l.Container.Default = high
	}
	return l
}

func TestAdmit_randomPods_equalsUpstream(t *testing.T) {
	for name, g := range map[string]webhook.Gates{"without boost": {}, "with boost": {CPUStartupBoost: true}} {
		t.Run(name, func(t *testing.T) {
			gates(t, g)
			patched, refused, all := 0, 0, 0
			check(t, usually, func(t *rapid.T, m maker) {
				all++
				p := m.pod()
				if g.CPUStartupBoost {
					m.request(p)
				}
				s := scene{limits: m.limitRange(), object: m.autoscaler(p, g.CPUStartupBoost)}
				most := cases.Pick(m, 0, 0, m.Amount(cluster.CPU))
				r := request("", "v1", "pods", "Pod", p)
				want := apply(t, p, ask(t, upstream(s, most), r).Patch)
				got := apply(t, p, ask(t, podfit(s, g, most), r).Patch)
				if _, ok := want.Annotations["vpaUpdates"]; ok {
					patched++
				}
				if !equality.Semantic.DeepEqual(want, got) {
					// A pod with a boost may be admitted although its size without the boost is not.
					held := g.CPUStartupBoost && strings.Contains(got.Annotations["vpaUpdates"], "capped to what the API server admits")
					if held || admissible.Refused(policy.Limits{Range: s.limits}, projection.Pod(want, nil), nil).Refused() {
						refused++ // the API server refuses upstream's pod; podfit's result is tested in test/admission
						return
					}
					t.Fatalf("pod, autoscaler, upstream's pod, podfit's pod:\n%s\nlimits %+v, boost at most %d", cases.Show(p, s.object, want, got), s.limits, most)
				}
			})
			if patched < all/2 || refused > all/4 {
				t.Errorf("only %d of %d pods were sized; %d of upstream's would be refused", patched, all, refused)
			}
		})
	}
}

// Upstream multiplies a missing request and sets the request to zero. Without that, the API server would use the container's limit
// as its request. Podfit does not change the request.
func TestAdmit_boostFactorWithoutRequest_hasNoEffect(t *testing.T) {
	g := webhook.Gates{CPUStartupBoost: true}
	gates(t, g)
	p := created(corev1.Container{Name: "app"})
	a := &v1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart-vpa"}}
	a.Spec.TargetRef = targetRef()
	a.Spec.StartupBoost = &v1.StartupBoost{CPU: &v1.GenericStartupBoost{Type: v1.FactorStartupBoostType, Factor: new(int32(3))}}
	s, r := scene{object: a}, request("", "v1", "pods", "Pod", p)
	theirs := apply(t, p, ask(t, upstream(s, 0), r).Patch).Spec.Containers[0].Resources.Requests
	if q, ok := theirs[corev1.ResourceCPU]; !ok || !q.IsZero() {
		t.Errorf("upstream %v", theirs)
	}
	if ours := apply(t, p, ask(t, podfit(s, g, 0), r).Patch).Spec.Containers[0].Resources.Requests; len(ours) != 0 {
		t.Errorf("podfit %v", ours)
	}
}

// apply patches a pod and normalizes the result.
func apply(t rapid.TB, p *corev1.Pod, patch []byte) *corev1.Pod {
	t.Helper()
	raw, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	if len(patch) > 0 {
		decoded, err := jsonpatch.DecodePatch(patch)
		if err != nil {
			t.Fatal(err)
		}
		if raw, err = decoded.Apply(raw); err != nil {
			t.Fatalf("apply %s: %v", patch, err)
		}
	}
	var out corev1.Pod
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	if text, ok := out.Annotations["vpaUpdates"]; ok {
		if text = inOrder(text); text == "" {
			delete(out.Annotations, "vpaUpdates")
		} else {
			out.Annotations["vpaUpdates"] = text
		}
	}
	for key, text := range out.Annotations {
		if strings.HasPrefix(key, "vpaCpuStartupBoost/") {
			out.Annotations[key] = quantities(t, text)
		}
	}
	return &out
}

var containerText = regexp.MustCompile(`container \d+: `)

// inOrder sorts upstream's lists, which have a random order, and drops containers without content.
func inOrder(text string) string {
	head, rest, _ := strings.Cut(text, ": ")
	var containers []string
	for _, c := range strings.Split(rest, "; ") {
		name := containerText.FindString(c + " ")
		parts := strings.Split(strings.TrimSpace(c[min(len(name), len(c)):]), ", ")
		slices.Sort(parts)
		if said := strings.Join(parts, ", "); said != "" {
			containers = append(containers, name+said)
		}
	}
	if len(containers) == 0 {
		return ""
	}
	return head + ": " + strings.Join(containers, "; ")
}

// quantities returns resources with normalized quantities.
func quantities(t rapid.TB, text string) string {
	t.Helper()
	var r corev1.ResourceRequirements
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("annotation %q: %v", text, err)
	}
	var out []string
	for kind, l := range map[string]corev1.ResourceList{"requests": r.Requests, "limits": r.Limits} {
		for _, name := range slices.Sorted(maps.Keys(l)) {
			q := l[name]
			out = append(out, fmt.Sprint(kind, name, q.MilliValue()))
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}
