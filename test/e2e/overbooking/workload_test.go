// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package overbooking

import (
	"fmt"
	"strings"
)

// namespace is the namespace of the workloads.
const namespace = "shop"

// A workload is a Deployment with a VPA. Its pods have one container, app.
type workload struct {
	name      string
	replicas  int
	request   float64 // cores; 0: none
	limit     float64 // cores; 0: none
	cpu       string  // what a container uses: an expression of the local cluster
	profile   string
	keepsCPU  bool    // its VPA changes only memory
	labels    string  // of the Deployment and its pods, as "key: value" items that follow another
	throttled float64 // share of the CPU periods in which it is throttled, in the history of Prometheus
	// past returns the CPU usage of each of its pods at an hour of the day, in the history of Prometheus.
	past func(hour float64) float64
}

const (
	services      = 10
	requested     = 154 // cores of all pods together
	capacityCores = 3 * 64
)

// machineProfile limits pods to a quarter of a machine, not of what its pods can request.
const machineProfile = `apiVersion: podfit.dev/v1alpha1
kind: SizingProfile
metadata: {name: busy-hours-machine}
spec: {base: busy-hours, about: a quarter of the machine, busyHours: {mostOfNodeBase: Capacity}}
`

// leadTime is the number of days from an order of nodes until they run pods. It is so long that nodes must be ordered now.
const leadTime = 45

var capacityPlan = fmt.Sprintf("apiVersion: podfit.dev/v1alpha1\nkind: CapacityPlan\nmetadata: {name: cluster}\nspec: {leadTimeDays: %d}\n", leadTime)

// scene returns the workloads: ten services that request 120 cores and use 15 to 18 % of them on a daily curve, and one workload for each problem.
func scene() []workload {
	constant := func(cores float64) func(float64) float64 { return func(float64) float64 { return cores } }
	var out []workload
	for i := range services {
		out = append(out, workload{
			name: fmt.Sprintf("service-%02d", i), replicas: 3, request: 4, cpu: "sine(600m,700m,24h)", profile: "busy-hours", past: daily(0.6, 0.7),
		})
	}
	return append(out,
		// Three times its usage is 20 cores.
		workload{name: "wide", replicas: 1, request: 20, cpu: "6.6", profile: "busy-hours-machine", past: constant(6.6), labels: `, podfit.dev/criticality: "3"`},
		workload{name: "jvm", replicas: 1, request: 1, cpu: "750m", profile: "busy-hours", past: constant(0.75), labels: ", podfit.dev/runtime: jvm"},
		workload{name: "starter", replicas: 2, request: 1, cpu: "startup(3000m,for=24h,then=200m)", profile: "busy-hours", past: constant(0.2)},
		workload{name: "limited", replicas: 1, request: 1, limit: 1, cpu: "1500m", profile: "busy-hours", past: constant(1), throttled: 1},
		// Its threads use more than the limit for 30 % of the time.
		workload{name: "bursty", replicas: 1, request: 1, limit: 1, cpu: "burst(50m,1500m,every=2h,for=36m)", profile: "busy-hours", past: constant(0.335), throttled: 0.3, keepsCPU: true},
		workload{name: "runaway", replicas: 4, request: 2, cpu: "300m", profile: "busy-hours", past: constant(0.3)}, // see world.run
		workload{name: "low", replicas: 1, request: 0.5, cpu: "1200m", profile: "busy-hours", past: constant(1.2)},
		workload{name: "spare", replicas: 1, request: 0.5, cpu: "1200m", profile: "busy-hours", past: constant(0.3), keepsCPU: true},
		workload{name: "bare", replicas: 2, cpu: "300m", profile: "busy-hours", past: constant(0.3)},
	)
}

// manifest returns the Deployment.
func (w *workload) manifest() string {
	resources := "{}"
	if w.request > 0 {
		resources = fmt.Sprintf("{requests: {cpu: %q, memory: 1Gi}}", fmt.Sprint(w.request))
	}
	if w.limit > 0 {
		resources = fmt.Sprintf("{requests: {cpu: %q, memory: 1Gi}, limits: {cpu: %q}}", fmt.Sprint(w.request), fmt.Sprint(w.limit))
	}
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, labels: {app: %[1]s%[4]s}}
spec:
  replicas: %[2]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata:
      labels: {app: %[1]s%[4]s}
      annotations: {sim.podfit.dev/app.cpu: %[3]q, sim.podfit.dev/app.memory: 400Mi}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: app, image: test/app, resources: %[5]s}]
`, w.name, w.replicas, w.cpu, w.labels, resources)
}

// autoscaler returns the VPA.
func (w *workload) autoscaler(mode string) string {
	controlled := "cpu, memory"
	if w.keepsCPU {
		controlled = "memory"
	}
	return fmt.Sprintf(`apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata: {name: %[1]s}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: %[1]s}
  updatePolicy: {updateMode: %[2]s, minReplicas: 1}
  recommenders: [{name: %[3]s}]
  resourcePolicy: {containerPolicies: [{containerName: "*", controlledResources: [%[4]s]}]}
`, w.name, mode, w.profile, controlled)
}

// workloadOf returns the name of the workload of a pod.
func workloadOf(pod string) string {
	parts := strings.Split(pod, "-")
	return strings.Join(parts[:len(parts)-2], "-")
}
