// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	v1 "podfit.dev/podfit/api/v1"
)

// PodFrom decodes a pod from YAML.
func PodFrom(t testing.TB, text string) *corev1.Pod {
	t.Helper()
	p := new(corev1.Pod)
	if err := yaml.Unmarshal([]byte(text), p); err != nil {
		t.Fatal(err)
	}
	return p
}

// RichPod is a pod in YAML with every field that podfit reads.
const RichPod = `
metadata:
  namespace: shop
  name: web-1-x
  uid: 5d1c2c0e-7d1b-4f0e-9a51-1f5a3f1f8c11
  creationTimestamp: "2026-03-01T10:00:00Z"
  deletionTimestamp: "2026-03-01T13:00:00Z"
  annotations:
    vpaObservedContainers: app, log
    vpaCpuStartupBoost/app: '{"requests":{"cpu":"100m","memory":"1Gi"},"limits":{"cpu":"1"}}'
  ownerReferences:
  - {apiVersion: v1, kind: ConfigMap, name: other, uid: a}
  - {apiVersion: extensions/v1beta1, kind: ReplicaSet, name: web-1, uid: b, controller: true}
spec:
  nodeName: n1
  containers:
  - name: app
    resources: {requests: {cpu: 1500u, memory: 1Gi}, limits: {cpu: "2"}}
    resizePolicy:
    - {resourceName: cpu, restartPolicy: NotRequired}
    - {resourceName: memory, restartPolicy: RestartContainer}
  - name: log
    resources: {requests: {cpu: 10m}}
  initContainers:
  - name: setup
  - name: mesh
    restartPolicy: Always
status:
  phase: Running
  qosClass: Burstable
  startTime: "2026-03-01T10:00:05Z"
  conditions:
  - {type: Ready, status: "True", lastTransitionTime: "2026-03-01T10:01:00Z"}
  - {type: PodResizeInProgress, status: "True", lastTransitionTime: "2026-03-01T11:00:00Z"}
  - {type: PodResizePending, status: "True", reason: Deferred, message: no room, lastTransitionTime: "2026-03-01T12:00:00Z"}
  containerStatuses:
  - name: log
    restartCount: 0
    resources: {requests: {cpu: 10m}}
  - name: app
    restartCount: 3
    resources: {requests: {cpu: 1m, memory: 1Gi}, limits: {cpu: "2"}}
    state: {running: {startedAt: "2026-03-01T12:30:00Z"}}
    lastState: {terminated: {reason: OOMKilled, exitCode: 137, startedAt: "2026-03-01T12:00:00Z", finishedAt: "2026-03-01T12:29:00Z"}}
  initContainerStatuses:
  - name: setup
    state: {terminated: {reason: Completed, exitCode: 0, startedAt: "2026-03-01T10:00:06Z", finishedAt: "2026-03-01T10:00:07Z"}}
  - name: mesh
    restartCount: 1
    state: {terminated: {reason: OOMKilled, exitCode: 137, finishedAt: "2026-03-01T10:00:09Z"}}
`

// RichAutoscaler is an autoscaler in YAML with every field that podfit reads.
const RichAutoscaler = `
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

// LargePod returns pod i of a large cluster. podfit does not need most of its fields.
func LargePod(i int) *corev1.Pod {
	set := fmt.Sprintf("service-%d-7d4b9c6f5d", i/5)
	yes := true
	created := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, i%3600, 0, time.UTC))
	amounts := corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("512Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
	}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: fmt.Sprintf("team-%d", i/5%200), Name: fmt.Sprintf("%s-x%04d", set, i%5),
			UID:               types.UID(fmt.Sprintf("%08d-7d1b-4f0e-9a51-1f5a3f1f8c11", i)),
			CreationTimestamp: created,
			Labels:            map[string]string{"app": "service", "pod-template-hash": "7d4b9c6f5d"},
			Annotations:       map[string]string{"vpaObservedContainers": "app", "vpaUpdates": "Pod resources updated by service"},
			OwnerReferences:   []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: set, UID: "u", Controller: &yes}},
		},
		Spec: corev1.PodSpec{
			NodeName:   fmt.Sprintf("node-%d.example.com", i%1000),
			Containers: []corev1.Container{{Name: "app", Image: "registry.example.com/service:v1", Resources: amounts}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, QOSClass: corev1.PodQOSBurstable, StartTime: &created,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: created}},
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: "app", Ready: true, Image: "registry.example.com/service:v1", Resources: &amounts,
			}},
		},
	}
	for j := range 30 {
		p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, corev1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", j), Value: "value"})
	}
	return p
}

// HostilePod returns a pod that is as large and as different from other pods as a tenant can make it.
func HostilePod(i int) *corev1.Pod {
	id := fmt.Sprintf("%08d", i)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "p" + id,
			Annotations: map[string]string{v1.AnnotationObservedContainers: id + strings.Repeat("x", 20_000)},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "g" + id + "/v1", Kind: "K" + id + strings.Repeat("k", 300), Name: "n" + id, Controller: new(true),
			}},
		},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{"key" + id: "value" + id, "other": strings.Repeat("v", 63)},
			Containers:   []corev1.Container{{Name: "c" + id}},
		},
	}
}

// PodReview returns the review of a pod that is being created in namespace shop. The pod is JSON.
func PodReview(pod string) []byte {
	return []byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","namespace":"shop","operation":"CREATE",` +
		`"kind":{"version":"v1","kind":"Pod"},"resource":{"version":"v1","resource":"pods"},"object":` + pod + `}}`)
}

// UniquePod returns a pod in JSON that shares no names with other pods.
func UniquePod(i int) string {
	id := fmt.Sprintf("%09d", i)
	return `{"metadata":{"generateName":"n` + id + `-","annotations":{"vpaObservedContainers":"` + id + strings.Repeat("x", 3000) + `"},` +
		`"ownerReferences":[{"apiVersion":"g` + id + `.example/v1","kind":"K` + id + `","name":"w` + id + `","controller":true}]},` +
		`"spec":{"nodeSelector":{"k` + id + `":"v` + id + `"},"containers":[{"name":"c` + id + `"}]}}`
}

// HeapBytes returns the size of the live heap, after a garbage collection.
func HeapBytes() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
