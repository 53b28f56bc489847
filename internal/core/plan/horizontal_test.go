// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
)

func TestPlan_resourceScaledByHPA_leavesThePod(t *testing.T) {
	target := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}
	controller := cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: "web-1"}
	cpuMetric := []cluster.UtilizationTarget{{Resource: cluster.CPU, Percent: 80}}
	for name, c := range map[string]struct {
		requests, advice cluster.Resources
		metrics          []cluster.UtilizationTarget
		do               decision.Act
		reason           decision.ReasonCode
	}{
		"no HPA":                        {cluster.Amounts(100, 1<<28), cluster.Amounts(300, 1<<28), nil, decision.Evict, decision.BelowRange},
		"CPU would change":              {cluster.Amounts(100, 1<<28), cluster.Amounts(300, 1<<28), cpuMetric, decision.Leave, decision.LeftToHPA},
		"memory would change, too":      {cluster.Amounts(100, 1<<28), cluster.Amounts(300, 1<<29), cpuMetric, decision.Evict, decision.BelowRange},
		"nothing would change":          {cluster.Amounts(300, 1<<28), cluster.Amounts(300, 1<<28), cpuMetric, decision.Leave, decision.Fits},
		"only CPU, and it would change": {cluster.Amounts(100, 1<<28), cluster.Resources{}.Set(cluster.CPU, 300), cpuMetric, decision.Leave, decision.LeftToHPA},
		"missing request":               {cluster.Resources{}.Set(cluster.Memory, 1<<28), cluster.Amounts(300, 1<<28), cpuMetric, decision.Leave, decision.LeftToHPA},
		"metric of another container":   {cluster.Amounts(100, 1<<28), cluster.Amounts(300, 1<<28), []cluster.UtilizationTarget{{Resource: cluster.CPU, Container: "log", Percent: 80}}, decision.Evict, decision.BelowRange},
		"only CPU, and it has its size": {cluster.Amounts(300, 1<<28), cluster.Resources{}.Set(cluster.CPU, 300), cpuMetric, decision.Leave, decision.NoAdvice},
	} {
		a := &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "web"}, Target: target, Mode: cluster.Recreate}
		a.Advice = []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Lower: c.advice, Target: c.advice, Upper: c.advice}}}
		a = a.WithHorizontal([]*cluster.HorizontalAutoscaler{{Key: cluster.Key{Namespace: "shop", Name: "hpa"}, Target: target, Utilization: c.metrics}})
		w := World{Scales: map[cluster.Workload]cluster.Scale{controller: {Known: true, Replicas: 2}}}
		var pods []*cluster.Pod
		for _, n := range []string{"a", "b"} {
			pods = append(pods, &cluster.Pod{
				Key: cluster.Key{Namespace: "shop", Name: n}, UID: n, Controller: controller, Top: target, Node: "n", Ready: true, Phase: cluster.Running,
				Created: noon.Add(-time.Hour), Started: noon.Add(-time.Hour), Containers: []cluster.Container{{Name: "app", Requests: c.requests}},
			})
		}
		w.Governed = []cluster.Governed{{Autoscaler: a, Pods: pods}}
		d := Plan(noon, w, DefaultBudget())[0]
		if d.Do != c.do || d.Reason.Code != c.reason {
			t.Errorf("%s: %s because of %s, want %s because of %s", name, d.Do, d.Reason.Code, c.do, c.reason)
		}
		if c.reason == decision.LeftToHPA && d.Reason.Text != "hpa" {
			t.Errorf("%s: the reason does not name the HPA: %s", name, d.Reason)
		}
	}
}
