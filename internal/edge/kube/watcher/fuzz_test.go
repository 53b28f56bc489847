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
	"podfit.dev/podfit/internal/edge/kube/kubetest"
	"podfit.dev/podfit/internal/edge/kube/projection"
)

// A hostile object goes the whole way that objects go: it is read and projected, its recommendation is capped, written to
// a status and read again, fitted to a pod and planned for. Nothing panics, nothing is negative or out of order, what is
// written says what was meant, and an object that cannot be read keeps what it recommended last.

// FuzzAutoscaler makes up whole objects.
func FuzzAutoscaler(f *testing.F) {
	asJSON := func(text string) []byte {
		raw, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			f.Fatal(err)
		}
		return raw
	}
	pod, limits := asJSON(kubetest.RichPod), asJSON(richLimits)
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
		goTheWholeWay(t, autoscaler, o, &p, &l)
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

// FuzzQuantities makes up the quantities of reasonable objects.
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
			p, l = corev1.Pod{}, corev1.LimitRange{} // the API server has none that cannot be read
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
			t.Fatalf("one quantity makes the whole object unreadable: %v", err)
		}
		readable := true
		for _, q := range []string{target, lower, upper, least, most} {
			safe := len(q) <= 64 && !strings.Contains(list(q), `\`) && !largeExponent.MatchString(q)
			readable = readable && safe && json.Unmarshal([]byte(list(q)), new(corev1.ResourceList)) == nil
		}
		if readable != (o.Problem == "") {
			t.Errorf("readable: %t, and yet the problem is %q", readable, o.Problem)
		}
		goTheWholeWay(t, raw, o, &p, &l)
	})
}

func goTheWholeWay(t *testing.T, raw []byte, o *kube.AutoscalerObject, object *corev1.Pod, limits *corev1.LimitRange) {
	t.Helper()
	e := projectAutoscaler(o)
	if e.Name != o.Name || e.Namespace != o.Namespace {
		t.Errorf("not the object: %+v", e)
	}
	if o.Problem != "" {
		if e.Mode != cluster.Off || len(e.Policies) != 0 {
			t.Errorf("an unreadable object does something: %+v", e.Autoscaler)
		}
		keepsItsAdvice(t, raw, e)
	}
	for _, p := range e.Policies {
		for _, r := range []cluster.Resources{p.MinAllowed, p.MaxAllowed} {
			within(t, "policy of "+p.Container, r)
		}
		if p.MemoryInterval < 0 || p.MemoryCount < 0 || p.OOMMinBump < 0 {
			t.Errorf("negative: %+v", p)
		}
	}

	capped := policy.Cap(e.Autoscaler, e.Advice, cluster.Amounts(64_000, 1<<40))
	for i := range capped {
		inOrder(t, "advice for "+capped[i].Container, capped[i].Estimate)
	}
	saysWhatIsMeant(t, e, capped)

	p := projection.Pod(object, nil)
	p.Top = e.Target
	around := policy.Limits{Range: projection.MergeLimits(map[string][]projection.LimitItem{"limits": projection.LimitItems(limits)})}
	e.Advice = capped
	for _, fit := range policy.Fit(e.Autoscaler, around, p) {
		inOrder(t, "size of "+fit.Container, fit.Estimate)
		if fit.Requests.CPU < 0 || fit.Requests.Memory < 0 || fit.Limits.CPU < 0 || fit.Limits.Memory < 0 {
			t.Errorf("%s gets requests %+v, limits %+v", fit.Container, fit.Requests, fit.Limits)
		}
	}
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	budget := plan.DefaultBudget()
	budget.InPlace, budget.StartupBoost, budget.PerVPAConfig = true, true, true
	ds := plan.Plan(now, plan.World{
		Governed: []plan.Governed{{Autoscaler: e.Autoscaler, Pods: []*cluster.Pod{p}}},
		Limits:   map[string]policy.Limits{p.Namespace: around},
		Nodes:    []cluster.Node{{Name: "n1", Allocatable: cluster.Amounts(8000, 16<<30), Ready: true}},
	}, budget)
	if len(ds) > 1 || len(ds) == 1 && ds[0].Pod != p {
		t.Errorf("decided %+v about one pod", ds)
	}
}

// keepsItsAdvice checks that an object whose spec cannot be read recommends what its status says, if that can be read.
func keepsItsAdvice(t *testing.T, raw []byte, e *autoscalerEntry) {
	t.Helper()
	var whole struct {
		Status json.RawMessage `json:"status"`
	}
	if json.Unmarshal(raw, &whole) != nil {
		return
	}
	var alone kube.AutoscalerObject
	if err := json.Unmarshal(fmt.Appendf(nil, `{"status":%s}`, orNull(whole.Status)), &alone); err != nil || alone.Problem != "" {
		return
	}
	if diff := cmp.Diff(projectAutoscaler(&alone).Advice, e.Advice); diff != "" {
		t.Errorf("the recommendation of an unreadable object (-want +got):\n%s", diff)
	}
}

func orNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}

// saysWhatIsMeant writes a recommendation and reads it back.
func saysWhatIsMeant(t *testing.T, e *autoscalerEntry, advice []cluster.Advice) {
	t.Helper()
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	status := nextStatus(&e.status, e.Generation, advice, now, []Condition{{Type: "RecommendationProvided", Status: True}})
	raw, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		if strings.Contains(err.Error(), "year outside of range") {
			return // of a condition of somebody else's
		}
		t.Fatalf("the status cannot be written: %v", err)
	}
	var back kube.AutoscalerObject
	if err := json.Unmarshal(raw, &back); err != nil || back.Problem != "" {
		t.Fatalf("what was written cannot be read: %v %s\n%s", err, back.Problem, raw)
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

func within(t *testing.T, what string, r cluster.Resources) {
	t.Helper()
	for _, res := range cluster.All {
		if v, ok := r.Get(res); v < 0 || v > kube.MostAmount || (!ok && v != 0) {
			t.Errorf("%s: %s is %d (set: %t)", what, res, v, ok)
		}
	}
}

func inOrder(t *testing.T, what string, e cluster.Estimate) {
	t.Helper()
	for _, res := range cluster.All {
		target, ok := e.Target.Get(res)
		lower, lok := e.Lower.Get(res)
		upper, uok := e.Upper.Get(res)
		if ok && (target < 0 || lok && lower > target || uok && upper < target) {
			t.Errorf("%s: %s is %d, %d, %d", what, res, lower, target, upper)
		}
	}
}
