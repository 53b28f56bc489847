// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
)

// A spec describes a workload with one container, "app". It uses 300m CPU and 200Mi memory by default.
type spec struct {
	Kind     string // Deployment if empty
	Name     string
	Replicas int    // 2 if 0
	CPU      string // usage, an expression of the local cluster
	Memory   string
	Requests string // as in a manifest; "" for none
	Limits   string
	Owner    string // an ownerReference, or ""
}

// steady is a workload that uses 300m CPU and 200Mi memory and requests much less.
func steady(name string) spec {
	return spec{Name: name, Requests: "{cpu: 100m, memory: 50Mi}"}
}

// The recommendation of podfit and upstream for it: the upper limit of the CPU bucket plus the margin, and the minimum memory of a pod.
const steadyTarget = "app cpu=350m memory=262144k"

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// template returns the pod template of the workload with an indentation.
func (s spec) template(indent int, more ...string) string {
	var resources []string
	if s.Requests != "" {
		resources = append(resources, "requests: "+s.Requests)
	}
	if s.Limits != "" {
		resources = append(resources, "limits: "+s.Limits)
	}
	lines := []string{
		"metadata:",
		"  labels: {app: " + s.Name + "}",
		"  annotations:",
		"    sim.podfit.dev/app.cpu: " + orElse(s.CPU, "300m"),
		"    sim.podfit.dev/app.memory: " + orElse(s.Memory, "200Mi"),
	}
	if s.Kind == "CronJob" || s.Kind == "Job" {
		lines = append(lines, "    sim.podfit.dev/app.exit: after=20s")
	}
	lines = append(lines, "spec:", "  terminationGracePeriodSeconds: 1")
	lines = append(lines, more...)
	lines = append(lines, "  containers:", "  - {name: app, image: test/app, resources: {"+strings.Join(resources, ", ")+"}}")
	return strings.Join(lines, "\n"+strings.Repeat(" ", indent))
}

// manifest returns the manifest of the workload.
func (s spec) manifest() string {
	replicas := s.Replicas
	if replicas == 0 {
		replicas = 2
	}
	switch s.Kind {
	case "CronJob":
		return fmt.Sprintf(`apiVersion: batch/v1
kind: CronJob
metadata: {name: %s}
spec:
  schedule: "* * * * *"
  jobTemplate:
    spec:
      template:
        %s
`, s.Name, s.template(8, "  restartPolicy: Never"))
	case "Pod":
		return fmt.Sprintf(`apiVersion: v1
kind: Pod
%s
`, strings.Replace(s.template(0), "metadata:", "metadata:\n  name: "+s.Name, 1))
	}
	extra := fmt.Sprintf("replicas: %d", replicas)
	switch s.Kind {
	case "DaemonSet":
		extra = "minReadySeconds: 0"
	case "StatefulSet":
		extra += "\n  serviceName: " + s.Name + "\n  podManagementPolicy: Parallel"
	}
	return fmt.Sprintf(`apiVersion: apps/v1
kind: %s
metadata: {name: %s, ownerReferences: [%s]}
spec:
  %s
  selector: {matchLabels: {app: %s}}
  template:
    %s
`, orElse(s.Kind, "Deployment"), s.Name, s.Owner, extra, s.Name, s.template(4))
}

// autoscaler returns the manifest of a VPA with the workload's name.
func (s spec) autoscaler(mode string) string { return autoscaler(s.Name, s.Kind, s.Name, mode, "") }

// autoscaler returns the manifest of a VPA for a target, with additional fields of its spec.
func autoscaler(name, kind, target, mode, more string) string {
	kind = orElse(kind, "Deployment")
	version := map[string]string{"CronJob": "batch/v1", "Job": "batch/v1", "Pod": "v1", "ReplicationController": "v1", "Fleet": "test.podfit.dev/v1"}[kind]
	return fmt.Sprintf(`apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata: {name: %s}
spec:
  targetRef: {apiVersion: %s, kind: %s, name: %s}
  updatePolicy: {updateMode: "%s"}
%s
`, name, orElse(version, "apps/v1"), kind, target, mode, more)
}
