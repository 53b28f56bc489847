// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"sigs.k8s.io/yaml"

	"podfit.dev/podfit/internal/core/cluster"
)

func TestHorizontalAutoscaler_metrics_onlyThoseThatDependOnRequestsAreRead(t *testing.T) {
	const head = "metadata: {namespace: shop, name: web, uid: u}\nspec:\n  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}\n  metrics:\n"
	for name, c := range map[string]struct {
		metrics string
		want    []cluster.UtilizationTarget
	}{
		"CPU of the pod":     {"  - {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}}", []cluster.UtilizationTarget{{Resource: cluster.CPU, Percent: 70}}},
		"memory of the pod":  {"  - {type: Resource, resource: {name: memory, target: {type: Utilization, averageUtilization: 70}}}", []cluster.UtilizationTarget{{Resource: cluster.Memory, Percent: 70}}},
		"CPU of a container": {"  - {type: ContainerResource, containerResource: {name: cpu, container: app, target: {type: Utilization, averageUtilization: 70}}}", []cluster.UtilizationTarget{{Resource: cluster.CPU, Container: "app", Percent: 70}}},
		"second metric": {
			"  - {type: Pods, pods: {metric: {name: rps}, target: {type: AverageValue, averageValue: 10}}}\n  - {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}}",
			[]cluster.UtilizationTarget{{Index: 1, Resource: cluster.CPU, Percent: 70}},
		},
		"absolute value":         {metrics: "  - {type: Resource, resource: {name: cpu, target: {type: AverageValue, averageValue: 300m}}}"},
		"both values":            {metrics: "  - {type: Resource, resource: {name: cpu, target: {type: AverageValue, averageValue: 300m, averageUtilization: 70}}}"},
		"external metric":        {metrics: "  - {type: External, external: {metric: {name: queue}, target: {type: AverageValue, averageValue: 10}}}"},
		"object metric":          {metrics: "  - {type: Object, object: {metric: {name: rps}, describedObject: {kind: Ingress, name: web}, target: {type: Value, value: 10}}}"},
		"other resource":         {metrics: "  - {type: Resource, resource: {name: example.com/gpu, target: {type: Utilization, averageUtilization: 70}}}"},
		"no source":              {metrics: "  - {type: Resource}"},
		"source of another type": {metrics: "  - {type: Pods, resource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}}"},
		"no container":           {metrics: "  - {type: ContainerResource, containerResource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}}"},
		"no target":              {metrics: "  - {type: Resource, resource: {name: cpu, target: {type: Utilization}}}"},
		"negative target":        {metrics: "  - {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: -1}}}"},
		"no metrics":             {metrics: "  # none"},
	} {
		var o autoscalingv2.HorizontalPodAutoscaler
		if err := yaml.Unmarshal([]byte(head+c.metrics), &o); err != nil {
			t.Fatal(err)
		}
		got := HorizontalAutoscaler(&o)
		want := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}
		if diff := cmp.Diff(c.want, got.Utilization); diff != "" || got.Target != want || got.UID != "u" {
			t.Errorf("%s: target %v, metrics (-want +got):\n%s", name, got.Target, diff)
		}
	}
}

func TestHorizontalAutoscaler_recordOfScalePoints_isReadIfItIsValid(t *testing.T) {
	for record, want := range map[string]int{
		`[{"resource":"cpu","request":"500m","percent":80,"set":62}]`:                     1,
		`[{"resource":"memory","container":"app","request":"1Gi","percent":80,"set":62}]`: 1,
		``:            0,
		`[]`:          0,
		`{`:           0,
		`{"cpu":"x"}`: 0,
		`[{"resource":"gpu","request":"1","percent":80,"set":62}]`:                0,
		`[{"resource":"cpu","request":"-1","percent":80,"set":62}]`:               0,
		`[{"resource":"cpu","request":"x","percent":80,"set":62}]`:                0,
		`[{"resource":"cpu","request":"500m","percent":0,"set":62}]`:              0,
		`[{"resource":"cpu","request":"500m","percent":80,"set":62,"resets":-1}]`: 0,
	} {
		var o autoscalingv2.HorizontalPodAutoscaler
		o.Annotations = map[string]string{"podfit.dev/scale-point": record}
		if got := HorizontalAutoscaler(&o); len(got.Points) != want {
			t.Errorf("%s: got %+v, want %d records", record, got.Points, want)
		}
	}
}
