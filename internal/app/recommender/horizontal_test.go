// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

func TestRecommender_HPAOfTheTarget_isReportedByACondition(t *testing.T) {
	cpuMetric := []cluster.UtilizationTarget{{Resource: cluster.CPU, Percent: 80}}
	point := cluster.ScalePoint{Resource: cluster.CPU, Base: 500, Percent: 80, Set: 70}
	stopped := point
	stopped.Resets = cluster.MostResets
	type autoscaler = cluster.Autoscaler
	for name, c := range map[string]struct {
		metrics        []cluster.UtilizationTarget
		points         []cluster.ScalePoint
		change         func(*autoscaler)
		noRequests     bool // the containers of the pods request nothing
		status, reason string
		texts          []string
	}{
		"by CPU": {
			metrics: cpuMetric, status: watcher.True, reason: v1alpha1.ReasonRequestLeft,
			texts: []string{"HorizontalPodAutoscaler hpa scales Deployment web", "80 % of the CPU request", "podfit.dev/hpa: preserve-scale-point", "remove cpu from controlledResources"},
		},
		"by CPU, containers without requests": {
			metrics: cpuMetric, noRequests: true, status: watcher.True, reason: v1alpha1.ReasonRequestLeft,
			texts: []string{"Container app has no CPU request, so the HPA cannot compute the utilization."},
		},
		"by memory of a container": {
			metrics: []cluster.UtilizationTarget{{Resource: cluster.Memory, Container: "app", Percent: 70}},
			status:  watcher.True, reason: v1alpha1.ReasonRequestLeft, texts: []string{"70 % of the memory request of container app"},
		},
		"by memory of another container": {metrics: []cluster.UtilizationTarget{{Resource: cluster.Memory, Container: "log", Percent: 70}}},
		"by absolute value":              {},
		"resource not controlled": {metrics: cpuMetric, change: func(a *autoscaler) {
			a.Policies = []cluster.ContainerPolicy{{Container: "*", Controlled: cluster.Of(cluster.Memory), ControlsSet: true}}
		}},
		"mode Off": {metrics: cpuMetric, change: func(a *autoscaler) { a.Mode = cluster.Off }},
		"opt-in, not recorded yet": {
			metrics: cpuMetric, change: func(a *autoscaler) { a.PreserveScalePoint = true },
			status: watcher.True, reason: v1alpha1.ReasonRequestLeft, texts: []string{"has not recorded the scale point"},
		},
		"opt-in": {
			metrics: cpuMetric, points: []cluster.ScalePoint{point}, change: func(a *autoscaler) { a.PreserveScalePoint = true },
			status: watcher.True, reason: v1alpha1.ReasonScalePointPreserved, texts: []string{"scale point of 80 % of 500m", "between 445m and 800m"},
		},
		"opt-in, reset by others": {
			metrics: cpuMetric, points: []cluster.ScalePoint{stopped}, change: func(a *autoscaler) { a.PreserveScalePoint = true },
			status: watcher.True, reason: v1alpha1.ReasonOthersReset, texts: []string{"overwritten the target that podfit set 3 times"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.use["app"] = cluster.Amounts(300, 200<<20)
				a := b.autoscale("web", b.deployment("web", 2, "app"))
				a.Mode = cluster.Recreate
				if c.change != nil {
					c.change(a)
				}
				for _, p := range b.pods {
					if c.noRequests {
						p.Containers[0].Requests = cluster.Resources{}
					}
				}
				a.Horizontal = []*cluster.HorizontalAutoscaler{{
					Key: cluster.Key{Namespace: a.Namespace, Name: "hpa"}, Target: a.Target, Utilization: c.metrics, Points: c.points,
				}}
				b.run(10 * time.Minute)
				got := b.condition("web", v1alpha1.ConditionHorizontalPodAutoscaler)
				if string(got.Status) != c.status || got.Reason != c.reason {
					t.Errorf("condition %+v, want status %q, reason %q", got, c.status, c.reason)
				}
				if !c.noRequests && strings.Contains(got.Message, "cannot compute the utilization") {
					t.Errorf("message %q says that a request is missing", got.Message)
				}
				for _, text := range c.texts {
					if !strings.Contains(got.Message, text) {
						t.Errorf("message %q lacks %q", got.Message, text)
					}
				}
			})
		})
	}
}
