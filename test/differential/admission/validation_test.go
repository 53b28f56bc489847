// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	uv1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"

	"podfit.dev/podfit/internal/edge/webhook"
	"podfit.dev/podfit/test/differential/cases"
)

func targetRef() *autoscalingv1.CrossVersionObjectReference {
	return &autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "cart"}
}

type object = map[string]any

// spec returns a valid or invalid spec of a VPA.
func (m maker) spec() object {
	s := object{"targetRef": targetRef()}
	if m.OneIn(2) {
		p := object{}
		m.set(p, "updateMode", 1, "Off", "Initial", "Recreate", "Auto", "InPlace", "InPlaceOrRecreate", "bad", "", nil)
		m.set(p, "minReplicas", 3, 0, 1, -1, nil)
		m.set(p, "evictAfterOOMSeconds", 3, 0, 1, 600)
		s["updatePolicy"] = p
	}
	if m.OneIn(4) {
		s["startupBoost"] = m.anyBoost()
	}
	m.set(s, "recommenders", 4, []object{}, []object{{"name": "a"}}, []object{{"name": "a"}, {"name": "b"}})
	if m.OneIn(3) {
		return s
	}
	policies := cases.Several(m.Dice, 0, 2, func(d cases.Dice) object { return maker{d}.policy() })
	s["resourcePolicy"] = object{"containerPolicies": policies}
	if m.OneIn(40) {
		s["resourcePolicy"] = cases.Pick[any](m, "x", 7, []int{1}, object{"containerPolicies": []object{{"minAllowed": object{"cpu": "lots"}}}})
	}
	return s
}

// policy returns the policy of a container.
func (m maker) policy() object {
	c := object{}
	m.set(c, "containerName", 1, "app", "*", "")
	m.set(c, "mode", 3, "Auto", "Off", "bad", "")
	for _, key := range []string{"minAllowed", "maxAllowed"} {
		if m.OneIn(2) {
			l := object{}
			m.set(l, "cpu", 2, "100m", 1, "1.5", "1u", "100.5m", "0", "-1", 2000)
			m.set(l, "memory", 2, "100Mi", "1Gi", 7, "1500m", "262144k", "0")
			m.set(l, "example.com/x", 5, "1", "1.5")
			c[key] = l
		}
	}
	m.set(c, "controlledResources", 3, []string{}, []string{"cpu"}, []string{"memory", "storage"}, []string{"x", "cpu", "x"}, nil)
	m.set(c, "controlledValues", 3, "RequestsOnly", "RequestsAndLimits", "bad")
	m.set(c, "oomBumpUpRatio", 4, "1.2", 1, "0.5", "0.9999", "1500m")
	m.set(c, "oomMinBumpUp", 4, "1Mi", 0, "-1", "0.5")
	m.set(c, "memoryAggregationIntervalSeconds", 4, 0, 1, -5)
	m.set(c, "memoryAggregationIntervalCount", 4, 0, 1, -5)
	if m.OneIn(4) {
		c["startupBoost"] = m.anyBoost()
	}
	return c
}

// set sets a field to one of several values, in one of n cases.
func (m maker) set(o object, key string, chance int, values ...any) {
	if m.OneIn(chance) {
		o[key] = cases.Pick(m, values...)
	}
}

func (m maker) anyBoost() object {
	if m.OneIn(4) {
		return object{}
	}
	c := object{"type": cases.Pick(m, "Factor", "Quantity", "", "bad")}
	if m.OneIn(2) {
		c["factor"] = cases.Pick(m, 0, 1, 3, -1)
	}
	if m.OneIn(2) {
		c["quantity"] = cases.Pick[any](m, "1", "100m", "1u", 2)
	}
	return object{"cpu": c}
}

func vpa(spec object) object {
	return object{"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": object{"name": "cart", "namespace": "shop"}, "spec": spec}
}

// said returns the compared part of a response. Upstream reads lists of resources in random order.
func said(r *admissionv1.AdmissionResponse) string {
	out := []string{fmt.Sprint("allowed ", r.Allowed, " patch ", string(r.Patch))}
	if r.Result != nil {
		out = append(out, fmt.Sprint(r.Result.Status, r.Result.Code, r.Result.Reason, r.Result.Details.Kind, r.Result.Details.Group, r.Result.Details.Name))
		var causes []string
		for _, c := range r.Result.Details.Causes {
			causes = append(causes, fmt.Sprintf("%s %s %s", c.Field, c.Type, c.Message))
		}
		slices.Sort(causes)
		out = append(out, causes...)
		if len(causes) == 1 {
			out = append(out, r.Result.Message)
		}
	}
	return strings.Join(append(out, r.Warnings...), "\n")
}

func TestValidate_randomVPAs_decidesAsUpstream(t *testing.T) {
	for name, g := range map[string]webhook.Gates{
		"all gates shut": {}, "all gates open": {InPlace: true, CPUStartupBoost: true, PerVPAConfig: true}, "one gate open": {PerVPAConfig: true},
	} {
		t.Run(name, func(t *testing.T) {
			gates(t, g)
			theirs, ours := upstream(scene{}, 0), podfit(scene{}, g, 0)
			refused, updates, all := 0, 0, 0
			check(t, 2*usually, func(t *rapid.T, m maker) {
				all++
				spec := m.spec()
				r := request("autoscaling.k8s.io", "v1", "verticalpodautoscalers", "VerticalPodAutoscaler", vpa(spec))
				if m.OneIn(2) {
					old := m.spec()
					old["recommenders"] = []object{{"name": "old"}} // the specs differ, because an update with an unchanged spec is always allowed
					raw, err := json.Marshal(vpa(old))
					if err != nil {
						t.Fatal(err)
					}
					if json.Unmarshal(raw, &uv1.VerticalPodAutoscaler{}) != nil {
						return // see TestValidate_updateOfUnreadableObject_isAllowed
					}
					r.Operation, r.OldObject = admissionv1.Update, runtime.RawExtension{Raw: raw}
					updates++
				}
				want, got := ask(t, theirs, r), ask(t, ours, r)
				if !want.Allowed {
					refused++
				}
				if said(want) != said(got) {
					t.Fatalf("%s %s\nold %s\nupstream\n%s\npodfit\n%s", r.Operation, r.Object.Raw, r.OldObject.Raw, said(want), said(got))
				}
			})
			if refused < all/8 || refused > all-all/40 || updates < all/4 {
				t.Errorf("too few cases: of %d VPAs %d were refused, %d updated", all, refused, updates)
			}
		})
	}
}

// Intended differences.

func judge(t *testing.T, operation admissionv1.Operation, spec, old object) (theirs, ours *admissionv1.AdmissionResponse) {
	t.Helper()
	r := request("autoscaling.k8s.io", "v1", "verticalpodautoscalers", "VerticalPodAutoscaler", vpa(spec))
	r.Operation = operation
	if old != nil {
		raw, err := json.Marshal(vpa(old))
		if err != nil {
			t.Fatal(err)
		}
		r.OldObject.Raw = raw
	}
	return ask(t, upstream(scene{}, 0), r), ask(t, podfit(scene{}, webhook.Gates{}, 0), r)
}

func TestValidate_missingTargetRef_isRefused(t *testing.T) { // W-16: upstream's check has no effect
	theirs, ours := judge(t, admissionv1.Create, object{"updatePolicy": object{"updateMode": "Off"}}, nil)
	if !theirs.Allowed || ours.Allowed {
		t.Errorf("upstream %+v, podfit %+v", theirs, ours)
	}
}

func TestValidate_updateOfUnreadableObject_isAllowed(t *testing.T) {
	spec := object{"targetRef": targetRef(), "updatePolicy": object{"updateMode": "Off"}}
	theirs, ours := judge(t, admissionv1.Update, spec, object{"resourcePolicy": 7})
	if theirs.Allowed || !ours.Allowed {
		t.Errorf("upstream %+v, podfit %+v", theirs, ours)
	}
}

func TestValidate_unchangedSpec_isAllowed(t *testing.T) {
	spec := object{"targetRef": targetRef(), "updatePolicy": object{"updateMode": "bad"}}
	theirs, ours := judge(t, admissionv1.Update, spec, spec)
	if theirs.Allowed || !ours.Allowed {
		t.Errorf("upstream %+v, podfit %+v", theirs, ours)
	}
}

func TestValidate_fieldNames_areCaseSensitive(t *testing.T) { // like the API server, which drops this field
	theirs, ours := judge(t, admissionv1.Create, object{"targetRef": targetRef(), "UPDATEPOLICY": object{"updateMode": "bad"}}, nil)
	if theirs.Allowed || !ours.Allowed {
		t.Errorf("upstream %+v, podfit %+v", theirs, ours)
	}
}
