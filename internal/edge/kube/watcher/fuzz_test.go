// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/plan"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/projection"
	"podfit.dev/podfit/test/kubetest"
)

// The fuzz tests process arbitrary objects in all steps: decode and project the VPA, cap its recommendation, write it to a status and read
// it back, fit a pod, and plan. No step may panic, amounts must not be negative, bounds must be ordered, the status must contain the same
// recommendation, and a VPA that cannot be decoded must keep its last recommendation.

// FuzzAutoscaler generates complete objects.
func FuzzAutoscaler(f *testing.F) {
	asJSON := func(text string) []byte {
		raw, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			f.Fatal(err)
		}
		return raw
	}
	pod := asJSON(kubetest.RichPod)
	limits := asJSON(richLimits)
	f.Add(asJSON(kubetest.RichAutoscaler), pod, limits)
	f.Add(asJSON(`{metadata: {name: a}, spec: {resourcePolicy: {containerPolicies: [{maxAllowed: {cpu: "1.2.3"}}]}}, status: {conditions: [{type: x}]}}`), pod, limits)
	f.Add([]byte(`{"spec":7}`), []byte(`{}`), []byte(`{}`))
	f.Fuzz(func(t *testing.T, autoscaler, pod, limits []byte) {
		o := new(kube.AutoscalerObject)
		if json.Unmarshal(autoscaler, o) != nil {
			return
		}
		var p corev1.Pod
		var l corev1.LimitRange
		if json.Unmarshal(pod, &p) != nil || json.Unmarshal(limits, &l) != nil {
			return
		}
		processObjects(t, autoscaler, o, &p, &l)
	})
}

const richLimits = `
spec:
  limits:
  - {type: Container, min: {cpu: 20m, memory: 10Mi}, max: {cpu: "2", memory: 4Gi}, default: {cpu: "1"}}
  - {type: Pod, min: {cpu: 100m}, max: {cpu: "3", memory: 5Gi}}
  - {type: PersistentVolumeClaim, max: {storage: 1Ti}}
`

// largeExponent matches a quantity whose exponent has three digits or more, so that it is not safe to parse.
var largeExponent = regexp.MustCompile(`[eE][^1-9]*[1-9][^0-9]*[0-9][^0-9]*[0-9]`)

// FuzzQuantities generates the quantities of otherwise valid objects.
func FuzzQuantities(f *testing.F) {
	f.Add("100m", "200m", "150m", "50m", "1", "10m", "2")
	for _, q := range []string{
		"0", "-0", "1n", "-1n", "999n", "1u", "1m", "-1", "9223372036854775807", "-9223372036854775808", "9223372036854775808",
		"1e30", "1E18", "8Ei", "16Ei", "0.0000000001", "NaN", "Inf", "1.2.3", "", "+5", "1k", "1Ki", "100000000000000",
	} {
		f.Add(q, q, q, q, q, q, q)
		f.Add("100m", q, "100m", "0", q, "1n", q)
		f.Add(q, "9223372036854775807", "1", q, "0", q, "8Ei")
		f.Add("1", "2", q, "1", "2", "1", "2")
	}
	f.Fuzz(func(t *testing.T, request, limit, target, lower, upper, least, most string) {
		list := func(amount string) string {
			b, err := json.Marshal(map[string]string{"cpu": amount, "memory": amount})
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		var p corev1.Pod
		var l corev1.LimitRange
		if json.Unmarshal(fmt.Appendf(nil, `{"metadata":{"namespace":"shop","name":"web-0","ownerReferences":[
			{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-1","controller":true}]},"spec":{"nodeName":"n1","containers":[
			{"name":"app","resources":{"requests":%s,"limits":%s}},{"name":"log","resources":{"requests":%s}},{"name":"bare"}]}}`,
			list(request), list(limit), list(limit)), &p) != nil ||
			json.Unmarshal(fmt.Appendf(nil, `{"spec":{"limits":[{"type":"Container","min":%s,"max":%s,"default":%s},{"type":"Pod","min":%s,"max":%s}]}}`,
				list(least), list(most), list(limit), list(least), list(most)), &l) != nil {
			p = corev1.Pod{} // the API server does not admit such objects
			l = corev1.LimitRange{}
		}
		raw := fmt.Appendf(nil, `{"metadata":{"namespace":"shop","name":"web"},"spec":{
			"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},"startupBoost":{"cpu":{"type":"Quantity","quantity":%q}},
			"resourcePolicy":{"containerPolicies":[{"containerName":"app","minAllowed":%s,"maxAllowed":%s,"oomMinBumpUp":%q,"oomBumpUpRatio":%q},
			{"containerName":"*","controlledValues":"RequestsOnly"}]}},
			"status":{"recommendation":{"containerRecommendations":[{"containerName":"app","target":%s,"lowerBound":%s,"upperBound":%s},
			{"containerName":"log","target":%s}]}}}`,
			"1", list(least), list(most), "1", "1", list(target), list(lower), list(upper), list(target))
		o := new(kube.AutoscalerObject)
		if err := json.Unmarshal(raw, o); err != nil {
			t.Fatalf("the object cannot be decoded because of one quantity: %v", err)
		}
		valid := true
		for _, q := range []string{target, lower, upper, least, most} {
			safe := len(q) <= 64 && !strings.Contains(list(q), `\`) && !largeExponent.MatchString(q)
			valid = valid && safe && json.Unmarshal([]byte(list(q)), new(corev1.ResourceList)) == nil
		}
		if valid != (o.Problem == "") {
			t.Errorf("the quantities are valid: %t, but the problem is %q", valid, o.Problem)
		}
		processObjects(t, raw, o, &p, &l)
	})
}

// processObjects executes all steps with the objects and checks their results. raw is the JSON of o.
func processObjects(t *testing.T, raw []byte, o *kube.AutoscalerObject, object *corev1.Pod, limits *corev1.LimitRange) {
	t.Helper()
	e := projectAutoscaler(o)
	if e.Name != o.Name || e.Namespace != o.Namespace {
		t.Errorf("name or namespace differ: %+v", e)
	}
	if o.Problem != "" {
		if e.Mode != cluster.Off || len(e.Policies) != 0 {
			t.Errorf("a VPA that cannot be decoded has an effect: %+v", e.Autoscaler)
		}
		checkAdviceIsKept(t, raw, e)
	}
	for _, p := range e.Policies {
		for _, r := range []cluster.Resources{p.MinAllowed, p.MaxAllowed} {
			checkAmounts(t, "policy of "+p.Container, r)
		}
		if p.MemoryInterval < 0 || p.MemoryCount < 0 || p.OOMMinBump < 0 {
			t.Errorf("negative value in the policy: %+v", p)
		}
	}

	capped := policy.Cap(e.Autoscaler, e.Advice, cluster.Amounts(64_000, 1<<40), cluster.NodeShare{})
	for i := range capped {
		checkOrder(t, "advice for "+capped[i].Container, capped[i].Estimate)
	}
	checkStatusRoundTrip(t, e, capped)

	p := projection.Pod(object, nil)
	p.Top = e.Target
	podLimits := policy.Limits{Range: projection.MergeLimits(map[string][]projection.LimitItem{"limits": projection.LimitItems(limits)})}
	e.Advice = capped
	for _, fit := range policy.Fit(e.Autoscaler, podLimits, p) {
		checkOrder(t, "size of "+fit.Container, fit.Estimate)
		if fit.Requests.CPU < 0 || fit.Requests.Memory < 0 || fit.Limits.CPU < 0 || fit.Limits.Memory < 0 {
			t.Errorf("%s: negative amount in requests %+v or limits %+v", fit.Container, fit.Requests, fit.Limits)
		}
	}
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	budget := plan.DefaultBudget()
	budget.InPlace = true
	budget.StartupBoost = true
	budget.PerVPAConfig = true
	ds := plan.Plan(now, plan.World{
		Governed: []cluster.Governed{{Autoscaler: e.Autoscaler, Pods: []*cluster.Pod{p}}},
		Limits:   map[string]policy.Limits{p.Namespace: podLimits},
		Nodes:    []cluster.Node{{Name: "n1", Allocatable: cluster.Amounts(8000, 16<<30), Ready: true}},
	}, budget)
	if len(ds) > 1 || len(ds) == 1 && ds[0].Pod != p {
		t.Errorf("decisions %+v, want at most one, about the only pod", ds)
	}
}

// checkAdviceIsKept checks that a VPA whose spec cannot be decoded has the recommendation of its status, if that can be decoded.
func checkAdviceIsKept(t *testing.T, raw []byte, e *autoscalerEntry) {
	t.Helper()
	var object struct {
		Status json.RawMessage `json:"status"`
	}
	if json.Unmarshal(raw, &object) != nil {
		return
	}
	var statusOnly kube.AutoscalerObject
	if err := json.Unmarshal(fmt.Appendf(nil, `{"status":%s}`, orNull(object.Status)), &statusOnly); err != nil || statusOnly.Problem != "" {
		return
	}
	if diff := cmp.Diff(projectAutoscaler(&statusOnly).Advice, e.Advice); diff != "" {
		t.Errorf("the recommendation of a VPA whose spec cannot be decoded (-want +got):\n%s", diff)
	}
}

func orNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}

// checkStatusRoundTrip checks that a recommendation that is written to a status can be read back.
func checkStatusRoundTrip(t *testing.T, e *autoscalerEntry, advice []cluster.Advice) {
	t.Helper()
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	status := nextStatus(&e.status, e.Generation, advice, now, []Condition{{Type: "RecommendationProvided", Status: True}})
	raw, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		if strings.Contains(err.Error(), "year outside of range") {
			return // in a condition that podfit does not write
		}
		t.Fatalf("the status cannot be encoded: %v", err)
	}
	var back kube.AutoscalerObject
	if err := json.Unmarshal(raw, &back); err != nil || back.Problem != "" {
		t.Fatalf("the status that was written cannot be decoded: %v %s\n%s", err, back.Problem, raw)
	}
	byName := func(a, b cluster.Advice) int { return strings.Compare(a.Container, b.Container) }
	want := slices.Clone(advice)
	slices.SortStableFunc(want, byName)
	got := projectAutoscaler(&back).Advice
	if len(want) != len(got) {
		t.Fatalf("wrote %+v, read %+v", want, got)
	}
	for i := range want {
		if want[i].Estimate != got[i].Estimate || want[i].Uncapped != got[i].Uncapped {
			t.Errorf("wrote %+v, read %+v", want[i], got[i])
		}
	}
}

// checkAmounts checks that amounts are in the valid range, and zero if they are not set.
func checkAmounts(t *testing.T, what string, r cluster.Resources) {
	t.Helper()
	for _, res := range cluster.All {
		if v, ok := r.Get(res); v < 0 || v > kube.MostAmount || (!ok && v != 0) {
			t.Errorf("%s: %s is %d (set: %t)", what, res, v, ok)
		}
	}
}

// checkOrder checks that the bounds and the target are ordered and not negative.
func checkOrder(t *testing.T, what string, e cluster.Estimate) {
	t.Helper()
	for _, res := range cluster.All {
		target, ok := e.Target.Get(res)
		lower, lok := e.Lower.Get(res)
		upper, uok := e.Upper.Get(res)
		if ok && (target < 0 || lok && lower > target || uok && upper < target) {
			t.Errorf("%s: %s has lower bound %d, target %d, upper bound %d", what, res, lower, target, upper)
		}
	}
}
