// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/test/kubetest"
)

func autoscalerFrom(t testing.TB, text string) *v1.VerticalPodAutoscaler {
	t.Helper()
	o := new(v1.VerticalPodAutoscaler)
	if err := yaml.Unmarshal([]byte(text), o); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestAutoscaler_advisedSince_isWhenTheConditionBecameTrue(t *testing.T) {
	created := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	later := metav1.NewTime(created.Add(time.Hour))
	for name, c := range map[string]struct {
		conditions []v1.VerticalPodAutoscalerCondition
		want       time.Time
	}{
		"no condition": {want: created.Time},
		"True":         {conditions: []v1.VerticalPodAutoscalerCondition{{Type: v1.RecommendationProvided, Status: "True", LastTransitionTime: later}}, want: later.Time},
		"False":        {conditions: []v1.VerticalPodAutoscalerCondition{{Type: v1.RecommendationProvided, Status: "False", LastTransitionTime: later}}, want: created.Time},
		"no time":      {conditions: []v1.VerticalPodAutoscalerCondition{{Type: v1.RecommendationProvided, Status: "True"}}, want: created.Time},
	} {
		o := &v1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: created}}
		o.Status.Conditions = c.conditions
		if got := Autoscaler(o).AdvisedSince; !got.Equal(c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestAutoscaler_allFields_areKept(t *testing.T) {
	got := Autoscaler(autoscalerFrom(t, kubetest.RichAutoscaler))
	want := &cluster.Autoscaler{
		Key:           cluster.Key{Namespace: "shop", Name: "web"},
		UID:           "u1",
		Created:       kubetest.At(t, "2026-03-01T10:00:00Z"),
		AdvisedSince:  kubetest.At(t, "2026-03-01T10:00:00Z"),
		Generation:    7,
		Target:        cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"},
		APIVersion:    "extensions/v1beta1",
		Recommender:   "balanced",
		Mode:          cluster.InPlaceOrRecreate,
		MinReplicas:   3,
		EvictAfterOOM: 5 * time.Minute,
		Requirements: []cluster.EvictionRequirement{
			{Resources: cluster.Both, Higher: true},
			{Resources: cluster.Of(cluster.Memory)},
		},
		Boost: &cluster.Boost{Factor: 3, Duration: 20 * time.Second},
		Policies: []cluster.ContainerPolicy{
			{
				Container:      "app",
				MinAllowed:     cluster.Amounts(10, 1<<20),
				MaxAllowed:     cluster.Resources{}.Set(cluster.CPU, 2000),
				Controlled:     cluster.Of(cluster.Memory),
				ControlsSet:    true,
				RequestsOnly:   true,
				OOMBumpRatio:   1.5,
				OOMMinBumpSet:  true,
				MemoryInterval: time.Hour,
				MemoryCount:    4,
				Boost:          &cluster.Boost{ByQuantity: true, Quantity: 250},
			},
			{Container: "log", Off: true},
			{Container: "*", ControlsSet: true},
		},
		Advice: []cluster.Advice{
			{
				Container: "app",
				Estimate: cluster.Estimate{
					Target: cluster.Amounts(100, 1<<30), Lower: cluster.Amounts(50, 512<<20), Upper: cluster.Amounts(1000, 2<<30),
				},
				Uncapped: cluster.Amounts(120, 1<<30),
			},
			{Container: "log", Estimate: cluster.Estimate{Target: cluster.Resources{}.Set(cluster.Memory, 262144000)}},
		},
		IntegerCPU:     []string{"app", "aux"},
		ProfileProblem: "Deleted",
		Remarked:       true,

		FetchingHistory: true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAutoscaler_missingOrInvalidFields_getDefaults(t *testing.T) {
	for name, tc := range map[string]struct {
		object string
		holds  func(*cluster.Autoscaler) bool
	}{
		"empty object": {`{}`, func(a *cluster.Autoscaler) bool {
			return a.Mode == cluster.Recreate && a.Target == cluster.Workload{} && a.Advice == nil
		}},
		"an update policy without mode": {`spec: {updatePolicy: {}}`, func(a *cluster.Autoscaler) bool { return a.Mode == cluster.Recreate }},
		"an unknown mode": {`spec: {updatePolicy: {updateMode: Magic}}`,
			func(a *cluster.Autoscaler) bool { return a.Mode == cluster.Off }},
		"negative numbers": {
			`spec: {updatePolicy: {minReplicas: -1, evictAfterOOMSeconds: -5}, resourcePolicy: {containerPolicies: [{memoryAggregationIntervalSeconds: -1, memoryAggregationIntervalCount: -1, maxAllowed: {cpu: "-3"}}]}}`,
			func(a *cluster.Autoscaler) bool {
				p := a.Policies[0]
				return a.MinReplicas == 0 && a.EvictAfterOOM == 0 && p.MemoryInterval == 0 && p.MemoryCount == 0 && p.MaxAllowed.CPU == 0
			}},
		"null elements of lists": {`spec: {recommenders: [null], updatePolicy: {evictionRequirements: [null]}}`,
			func(a *cluster.Autoscaler) bool { return a.Recommender == "" && len(a.Requirements) == 0 }},
		"history is fetched": {`status: {conditions: [{type: FetchingHistory, status: "False"}]}`,
			func(a *cluster.Autoscaler) bool { return !a.FetchingHistory && !a.Remarked }},
		"frozen": {`status: {conditions: [{type: Updating, status: "True", reason: Frozen}]}`,
			func(a *cluster.Autoscaler) bool { return a.Frozen && a.Remarked }},
		"not frozen": {`status: {conditions: [{type: Updating, status: "True", reason: InProgress}]}`,
			func(a *cluster.Autoscaler) bool { return !a.Frozen && a.Remarked }},
		"a boost without amount": {`spec: {startupBoost: {cpu: {type: Quantity, factor: 2}}}`,
			func(a *cluster.Autoscaler) bool { return a.Boost == nil }},
		"a boost factor of zero": {`spec: {startupBoost: {cpu: {type: Factor, factor: 0}}}`,
			func(a *cluster.Autoscaler) bool { return a.Boost == nil }},
		"no group in the target": {`spec: {targetRef: {kind: CronJob, name: n}}`,
			func(a *cluster.Autoscaler) bool { return a.Target.Group == "batch" && a.APIVersion == "" }},
		"another API group": {`spec: {targetRef: {apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: n}}`,
			func(a *cluster.Autoscaler) bool { return a.Target.Group == "batch.volcano.sh" }},
	} {
		t.Run(name, func(t *testing.T) {
			if a := Autoscaler(autoscalerFrom(t, tc.object)); !tc.holds(a) {
				t.Errorf("got %+v", a)
			}
		})
	}
}

func TestAutoscaler_hugeExponent_objectIsUndecodable(t *testing.T) {
	for name, text := range map[string]string{
		"spec":   `{"metadata":{"name":"a"},"spec":{"resourcePolicy":{"containerPolicies":[{"containerName":"*","minAllowed":{"cpu":"1e-999999999"}}]}}}`,
		"status": `{"metadata":{"name":"a"},"status":{"recommendation":{"containerRecommendations":[{"target":{"cpu":"1e-999999999"}}]}}}`,
	} {
		var o kube.AutoscalerObject
		if err := json.Unmarshal([]byte(text), &o); err != nil || o.Name != "a" || !strings.Contains(o.Problem, "out of bounds") {
			t.Errorf("%s: %v, problem %q", name, err, o.Problem)
		}
	}
}

func TestAutoscaler_manyPolicies_memoryIsBounded(t *testing.T) {
	const n = 70_000 // the largest number in an object of 1.5 MB
	text := `{"metadata":{"name":"a"},"spec":{"resourcePolicy":{"containerPolicies":[` +
		strings.Repeat(`{"containerName":"a"},`, n) + `{}]}},"status":{"recommendation":{"containerRecommendations":[` +
		strings.Repeat(`{"containerName":"a"},`, n) + `{}]}}}`
	var o kube.AutoscalerObject
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	if a := Autoscaler(&o.VerticalPodAutoscaler); len(a.Policies) != maxPerAutoscaler || len(a.Advice) != maxPerAutoscaler {
		t.Errorf("%d policies and %d recommendations are kept, want %d of each", len(a.Policies), len(a.Advice), maxPerAutoscaler)
	}
}
