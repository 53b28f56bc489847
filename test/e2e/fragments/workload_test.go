// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package fragments

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// gate is a scheduling gate that all pods of the test have. The test removes it, and before that may choose the node.
const gate = "test.podfit.dev/wait"

// classes are priorities without preemption, so that only the moves replace pods.
const classes = `---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: usual}, value: 0, globalDefault: true, preemptionPolicy: Never}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: urgent}, value: 1000, preemptionPolicy: Never}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: spare}, value: -10, preemptionPolicy: Never}
`

// A workload is a Deployment with its PodDisruptionBudgets.
type workload struct {
	name     string
	replicas int
	cpu      int // millicores
	memory   int // MiB
	spec     []string
	affinity []string
	budgets  []int // minAvailable
}

const node = "kubernetes.io/hostname"

// constraints are what pods may ask of their nodes. Each names other workloads by its second argument.
var constraints = []func(w *workload, other string){
	func(w *workload, _ string) { add(&w.spec, "nodeSelector: {disk: ssd}") },
	func(w *workload, _ string) {
		add(&w.affinity, "nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a, b]}]}]}}")
	},
	func(w *workload, _ string) {
		add(&w.spec, "tolerations: [{key: dedicated, value: batch, effect: NoSchedule}]")
	},
	func(w *workload, _ string) { add(&w.spec, "priorityClassName: urgent") },
	func(w *workload, _ string) { add(&w.spec, "priorityClassName: spare") },
	func(w *workload, _ string) {
		add(&w.spec, fmt.Sprintf("topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: %s}}}]", w.name))
	},
	func(w *workload, _ string) {
		add(&w.spec, fmt.Sprintf("topologySpreadConstraints: [{maxSkew: 1, topologyKey: %s, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: %s}}}]", node, w.name))
	},
	func(w *workload, _ string) { add(&w.affinity, near("Anti", w.name)) },
	func(w *workload, _ string) {
		add(&w.affinity, fmt.Sprintf("podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 100, podAffinityTerm: {topologyKey: %s, labelSelector: {matchLabels: {app: %s}}}}]}", node, w.name))
	},
	func(w *workload, other string) { add(&w.affinity, near("", other)) },
	func(w *workload, other string) { add(&w.affinity, near("Anti", other)) },
	func(w *workload, other string) { add(&w.affinity, near("Anti", other)) },
	func(w *workload, _ string) { add(&w.spec, "volumes: [{name: data, emptyDir: {}}]") },
}

// add adds a field, unless the list has it already.
func add(to *[]string, field string) {
	key, _, _ := strings.Cut(field, ":")
	if !slices.ContainsFunc(*to, func(other string) bool { return strings.HasPrefix(other, key+":") }) {
		*to = append(*to, field)
	}
}

func near(anti, app string) string {
	return fmt.Sprintf("pod%sAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: %s, labelSelector: {matchLabels: {app: %s}}}]}", anti, node, app)
}

// randomWorkloads returns workloads, of which most have no constraint.
func randomWorkloads(r *rand.Rand, n int) []workload {
	var out []workload
	name := func(i int) string { return fmt.Sprintf("w%02d", i) }
	for i := range n {
		w := workload{name: name(i), replicas: 2 + r.IntN(3), cpu: 250 * (1 + r.IntN(8)), memory: 512 * (1 + r.IntN(8))}
		for r.IntN(3) == 0 {
			constraints[r.IntN(len(constraints))](&w, name(r.IntN(i+1)))
		}
		for r.IntN(4) == 0 {
			w.budgets = append(w.budgets, max(0, w.replicas-r.IntN(4)))
		}
		out = append(out, w)
	}
	return out
}

func (w *workload) manifest() string {
	spec := "\n      " + strings.Join(append([]string{"affinity: {" + strings.Join(w.affinity, ", ") + "}"}, w.spec...), "\n      ")
	text := fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: %[2]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      terminationGracePeriodSeconds: 0
      schedulingGates: [{name: %[3]s}]%[4]s
      containers: [{name: app, image: test/app, resources: {requests: {cpu: %[5]dm, memory: %[6]dMi}}}]
`, w.name, w.replicas, gate, spec, w.cpu, w.memory)
	for i, least := range w.budgets {
		text += fmt.Sprintf("---\n{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: %[1]s-%[2]d}, spec: {minAvailable: %[3]d, selector: {matchLabels: {app: %[1]s}}}}\n", w.name, i, least)
	}
	return text
}

// autoscaler returns a VPA that gives new pods more CPU than they have, and its status.
func (w *workload) autoscaler() (manifest, status string) {
	manifest = fmt.Sprintf(`{apiVersion: autoscaling.k8s.io/v1, kind: VerticalPodAutoscaler, metadata: {name: %[1]s}, spec: {targetRef: {apiVersion: apps/v1, kind: Deployment, name: %[1]s}, updatePolicy: {updateMode: Recreate}}}`, w.name)
	size := fmt.Sprintf(`{"cpu": "%dm", "memory": "%dMi"}`, w.grown(), w.memory)
	return manifest, fmt.Sprintf(`{"status": {"recommendation": {"containerRecommendations": [{"containerName": "app", "target": %[1]s, "lowerBound": %[1]s, "upperBound": %[1]s, "uncappedTarget": %[1]s}]}}}`, size)
}

// grown returns the millicores that a VPA gives new pods.
func (w *workload) grown() int { return 2*w.cpu + 500 }

// hermit has pods that need a node without pods of some workloads, which have no anti-affinity themselves.
func hermit() workload {
	apart := fmt.Sprintf("podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: %s, labelSelector: {matchExpressions: [{key: app, operator: In, values: [w00, w01, w02]}]}}]}", node)
	return workload{name: "hermit", replicas: 4, cpu: 100, memory: 64, affinity: []string{apart}}
}

// agent is a DaemonSet with a pod on each node.
const agent = `apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      terminationGracePeriodSeconds: 0
      tolerations: [{operator: Exists}]
      containers: [{name: app, image: test/agent, resources: {requests: {cpu: 100m, memory: 64Mi}}}]
`
