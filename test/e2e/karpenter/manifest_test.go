// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package karpenter

import (
	"fmt"
	"strings"
)

// An instanceType is a size of machines.
type instanceType struct {
	name   string
	cores  int
	memory int64
	price  float64
}

// types4and8 are 4 cores, and twice as much for more than twice the price, so that two small nodes are cheaper than a large one.
var types4and8 = []instanceType{{"small", 4, 8 << 30, 0.2}, {"large", 8, 16 << 30, 0.5}}

// instanceTypes returns the instance types in the format of Karpenter's KWOK provider.
func instanceTypes() string {
	var all []string
	for _, t := range types4and8 {
		all = append(all, fmt.Sprintf(`{"name": %q, "architecture": "amd64", "operatingSystems": ["linux"], "resources": {"cpu": "%d", "memory": "%d"},
"offerings": [{"Price": %g, "Available": true, "Requirements": [
  {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}, {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}]}]}`,
			t.name, t.cores, t.memory, t.price))
	}
	return "[" + strings.Join(all, ",\n") + "]"
}

// nodePool returns a NodePool whose nodes have at most a number of cores in total. Karpenter removes nodes that have been empty or underused for 5 seconds.
func nodePool(limit int) string {
	return fmt.Sprintf(`apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: default}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: apps}
spec:
  limits: {cpu: "%d"}
  disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 5s, budgets: [{nodes: "100%%"}]}
  template:
    spec:
      expireAfter: Never
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]
`, limit)
}

// deployment returns a Deployment whose pods use 300m CPU and request an amount of it.
func deployment(app string, replicas int, cpu string) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: %[2]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata:
      labels: {app: %[1]s}
      annotations: {sim.podfit.dev/app.cpu: 300m, sim.podfit.dev/app.memory: 100Mi}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: app, image: test/app, resources: {requests: {cpu: %[3]s, memory: 262144k}}}]
`, app, replicas, cpu)
}

// autoscaler returns a VPA whose target is an amount of CPU.
func autoscaler(app string, replicas int, cpu string) string {
	return fmt.Sprintf(`apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata: {name: %[1]s}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: %[1]s}
  updatePolicy: {updateMode: Recreate, minReplicas: %[2]d}
  resourcePolicy: {containerPolicies: [{containerName: app, minAllowed: {cpu: "%[3]s"}, maxAllowed: {cpu: "%[3]s"}}]}
`, app, replicas, cpu)
}
