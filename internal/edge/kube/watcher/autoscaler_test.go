// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube/kubetest"
)

func autoscalerFrom(t testing.TB, text string) *v1.VerticalPodAutoscaler {
	t.Helper()
	o := new(v1.VerticalPodAutoscaler)
	if err := yaml.Unmarshal([]byte(text), o); err != nil {
		t.Fatal(err)
	}
	return o
}

const richAutoscaler = `
metadata:
  namespace: shop
  name: web
  uid: u1
  generation: 7
  creationTimestamp: "2026-03-01T10:00:00Z"
  annotations:
    vpa-post-processor.kubernetes.io/app_integerCPU: "true"
    vpa-post-processor.kubernetes.io/aux_integerCPU: "true"
    vpa-post-processor.kubernetes.io/log_integerCPU: "false"
    vpa-post-processor.kubernetes.io/app_other: "true"
spec:
  targetRef: {apiVersion: extensions/v1beta1, kind: Deployment, name: web}
  recommenders: [{name: balanced}]
  startupBoost: {cpu: {type: Factor, factor: 3, durationSeconds: 20}}
  updatePolicy:
    updateMode: InPlaceOrRecreate
    minReplicas: 3
    evictAfterOOMSeconds: 300
    evictionRequirements:
    - {resources: [cpu, memory], changeRequirement: TargetHigherThanRequests}
    - {resources: [memory, gpu], changeRequirement: TargetLowerThanRequests}
  resourcePolicy:
    containerPolicies:
    - containerName: app
      minAllowed: {cpu: 10m, memory: 1Mi}
      maxAllowed: {cpu: "2"}
      controlledResources: [memory]
      controlledValues: RequestsOnly
      oomBumpUpRatio: "1.5"
      oomMinBumpUp: 0
      memoryAggregationIntervalSeconds: 3600
      memoryAggregationIntervalCount: 4
      startupBoost: {cpu: {type: Quantity, quantity: 250m}}
    - {containerName: log, mode: "Off"}
    - {containerName: "*", controlledResources: []}
status:
  recommendation:
    containerRecommendations:
    - {containerName: log, target: {memory: 262144k}}
    - containerName: app
      target: {cpu: 100m, memory: 1Gi}
      lowerBound: {cpu: 50m, memory: 512Mi}
      upperBound: {cpu: "1", memory: 2Gi}
      uncappedTarget: {cpu: 120m, memory: 1Gi}
  conditions:
  - {type: FetchingHistory, status: "True"}
  - {type: RecommendationProvided, status: "True", message: all is well}
  - {type: SizingProfileUsable, status: "False", reason: Deleted, message: it does not exist}
`

func TestEveryFieldOfAnAutoscalerIsParsed(t *testing.T) {
	got := ParseAutoscaler(autoscalerFrom(t, richAutoscaler))
	want := &cluster.Autoscaler{
		Key:           cluster.Key{Namespace: "shop", Name: "web"},
		UID:           "u1",
		Created:       kubetest.At(t, "2026-03-01T10:00:00Z"),
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

func TestAutoscalersThatSayLittleOrNonsense(t *testing.T) {
	for name, tc := range map[string]struct {
		object string
		holds  func(*cluster.Autoscaler) bool
	}{
		"nothing": {`{}`, func(a *cluster.Autoscaler) bool {
			return a.Mode == cluster.Recreate && a.Target == cluster.Workload{} && a.Advice == nil
		}},
		"a policy without mode": {`spec: {updatePolicy: {}}`, func(a *cluster.Autoscaler) bool { return a.Mode == cluster.Recreate }},
		"a mode of tomorrow": {`spec: {updatePolicy: {updateMode: Magic}}`,
			func(a *cluster.Autoscaler) bool { return a.Mode == cluster.Off }},
		"negative numbers": {
			`spec: {updatePolicy: {minReplicas: -1, evictAfterOOMSeconds: -5}, resourcePolicy: {containerPolicies: [{memoryAggregationIntervalSeconds: -1, memoryAggregationIntervalCount: -1, maxAllowed: {cpu: "-3"}}]}}`,
			func(a *cluster.Autoscaler) bool {
				p := a.Policies[0]
				return a.MinReplicas == 0 && a.EvictAfterOOM == 0 && p.MemoryInterval == 0 && p.MemoryCount == 0 && p.MaxAllowed.CPU == 0
			}},
		"null among pointers": {`spec: {recommenders: [null], updatePolicy: {evictionRequirements: [null]}}`,
			func(a *cluster.Autoscaler) bool { return a.Recommender == "" && len(a.Requirements) == 0 }},
		"history that has been read": {`status: {conditions: [{type: FetchingHistory, status: "False"}]}`,
			func(a *cluster.Autoscaler) bool { return !a.FetchingHistory && !a.Remarked }},
		"a boost without amount": {`spec: {startupBoost: {cpu: {type: Quantity, factor: 2}}}`,
			func(a *cluster.Autoscaler) bool { return a.Boost == nil }},
		"a boost that shrinks": {`spec: {startupBoost: {cpu: {type: Factor, factor: 0}}}`,
			func(a *cluster.Autoscaler) bool { return a.Boost == nil }},
		"no group in the target": {`spec: {targetRef: {kind: CronJob, name: n}}`,
			func(a *cluster.Autoscaler) bool { return a.Target.Group == "batch" && a.APIVersion == "" }},
		"a foreign group": {`spec: {targetRef: {apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: n}}`,
			func(a *cluster.Autoscaler) bool { return a.Target.Group == "batch.volcano.sh" }},
	} {
		t.Run(name, func(t *testing.T) {
			if a := ParseAutoscaler(autoscalerFrom(t, tc.object)); !tc.holds(a) {
				t.Errorf("got %+v", a)
			}
		})
	}
}
